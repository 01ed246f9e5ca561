// The backends this program was built with: what `info` shows and `--backend` chooses from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "everkernel/backend/backend.hpp"
#include "everkernel/base/result.hpp"

namespace everkernel::cli {

/// What every backend can do here; one that cannot run says why.
std::vector<backend::Capabilities> all_backends();

/// A backend that can run, and why it is this one.
struct ChosenBackend {
  std::shared_ptr<backend::Backend> backend = {};
  std::string reason = {};  ///< what `auto` decided by; empty when the user named it
};

/// Opens the backend that `--backend` names: auto, cpu or cuda. Fails with `unsupported` if it is
/// not available.
Result<ChosenBackend> choose_backend(const std::string& choice);

/// What `auto` chose and why, for people.
std::string choice_text(const std::string& id, const std::string& reason);

}  // namespace everkernel::cli
