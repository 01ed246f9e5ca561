// The backends of this build. A backend that is asked for by name is never replaced by another one.
#include "backends.hpp"

#include <fmt/format.h>

#include "everkernel/backend/cpu/cpu_backend.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "table.hpp"

namespace everkernel::cli {

std::vector<backend::Capabilities> all_backends() {
  return {backend::cpu::make_backend()->capabilities(),
          backend::cuda::make_backend()->capabilities()};
}

Result<ChosenBackend> choose_backend(const std::string& choice) {
  if (choice == "cpu") return ChosenBackend{.backend = backend::cpu::make_backend(), .reason = {}};
  auto cuda = backend::cuda::make_backend();
  const backend::Capabilities& found = cuda->capabilities();
  if (found.supported) {
    return ChosenBackend{.backend = std::move(cuda),
                         .reason = choice == "auto" ? "a CUDA GPU is available" : std::string()};
  }
  if (choice == "cuda") {
    return fail(Code::unsupported, fmt::format("--backend cuda: {}", found.reason),
                "use --backend cpu, which runs on every machine");
  }
  return ChosenBackend{.backend = backend::cpu::make_backend(), .reason = found.reason};
}

std::string choice_text(const std::string& id, const std::string& reason) {
  Table table({{}, {}}, 1);
  table.add({fmt::format("auto chose {}:", id), reason});
  return table.text(2);
}

}  // namespace everkernel::cli
