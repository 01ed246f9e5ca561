#include "everkernel/base/version.hpp"

namespace everkernel {

std::string_view version() {
  return EVERKERNEL_VERSION;
}

}  // namespace everkernel
