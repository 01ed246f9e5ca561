// Which backends there are. Asking for one that is not there is an error, never another one.
#include "backends.hpp"

#include <fmt/format.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "options.hpp"

namespace everkernel::cli {
namespace {

constexpr std::string_view kNoCuda = "this version has no cuda backend";

}  // namespace

std::vector<backend::Capabilities> all_backends() {
  auto cuda = backend::Capabilities::unsupported(std::string(kNoCuda));
  cuda.id = "cuda";
  return {backend::cpu::make_backend()->capabilities(), std::move(cuda)};
}

void add_backend(CLI::App& command, std::string& target) {
  add_choice(command, "--backend", target, {"auto", "cpu", "cuda"},
             "Where it runs; auto is cuda if it is there, else cpu");
}

Result<ChosenBackend> choose_backend(const std::string& choice) {
  if (choice == "cuda") {
    return fail(Code::unsupported, fmt::format("--backend cuda: {}", kNoCuda),
                "--backend cpu runs on every machine");
  }
  return ChosenBackend{.backend = backend::cpu::make_backend(),
                       .reason = choice == "auto" ? std::string(kNoCuda) : std::string()};
}

}  // namespace everkernel::cli
