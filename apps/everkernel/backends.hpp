// The backends of this build: `info` shows them and `--backend` chooses one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

/// The capabilities of every backend; for one that cannot run here they contain the reason.
std::vector<backend::Capabilities> all_backends();

/// A backend that can run, and why it was chosen.
struct ChosenBackend {
  std::shared_ptr<backend::Backend> backend = {};
  std::string reason = {};  ///< why `auto` took it; empty if the user named it
};

/// Opens the backend that `--backend` names: auto, cpu or cuda. Fails with `unsupported` if it is
/// not available.
Result<ChosenBackend> choose_backend(const std::string& choice);

/// The line about the choice of `auto` and its reason.
std::string choice_text(const std::string& id, const std::string& reason);

}  // namespace everkernel::cli
