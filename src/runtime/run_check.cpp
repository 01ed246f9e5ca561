// The options of a run, checked one by one: each error names the option and its value.
#include "runtime/run_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "everkernel/abi/control.hpp"
#include "everkernel/backend/detail/hit_store.hpp"
#include "everkernel/memory/available.hpp"

namespace everkernel {
namespace {

// Items of a tenant with a quota of 0 cannot run: the run would wait for them until its timeout.
Result<void> check_quotas(std::size_t item_count, const RunOptions& options) {
  if (options.tenant_quotas.size() > abi::kTenantCount) {
    return fail(Code::invalid_argument,
                fmt::format("run: {} quotas for {} tenants", options.tenant_quotas.size(),
                            abi::kTenantCount));
  }
  if (std::ranges::find(options.tenant_quotas, 0u) == options.tenant_quotas.end()) return {};
  for (std::size_t i = 0; i < item_count; ++i) {
    const Word tenant =
        i < options.origins.size() ? options.origins[i].tenant : options.origin.tenant;
    if (tenant >= options.tenant_quotas.size() || options.tenant_quotas[tenant] != 0) continue;
    return fail(Code::invalid_argument,
                fmt::format("run: item {}: tenant {} has a quota of 0", i, tenant),
                "raise the quota of the tenant, or leave its items out");
  }
  return {};
}

}  // namespace

Result<void> check_run(const Megakernel::State& state, std::size_t item_count,
                       const RunOptions& options) {
  if (options.timeout <= std::chrono::nanoseconds(0)) {
    return fail(Code::invalid_argument,
                fmt::format("run: timeout is {} ns, it must be positive", options.timeout.count()),
                "raise `timeout`");
  }
  if (item_count > kMaxRunItems) {
    return fail(Code::invalid_argument,
                fmt::format("run: {} items are more than {}", item_count, kMaxRunItems),
                "split the list");
  }
  EVERKERNEL_TRY(check_quotas(item_count, options));
  if (options.execution == backend::Execution::interpreter &&
      !state.backend->capabilities().interpreter) {
    return fail(Code::unsupported, "run: this backend has no interpreter",
                "set `execution` to automatic, or use the CPU backend");
  }
  if (state.options.payload) {
    return fail(Code::invalid_argument, "run: the megakernel runs a payload for every slot",
                "create a megakernel without a payload");
  }
  return memory::check_available(backend::HitStore::peak_bytes(options.hit_capacity),
                                 "run: hit_capacity");
}

}  // namespace everkernel
