// Handlers compute with IEEE 754 as it stands, whatever the thread that runs them was set to.
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace everkernel::backend::cpu {

/// Round to nearest, denormals kept, no traps, while it lives; then as it was.
class FloatGuard {
 public:
  /// Sets the thread's float mode.
  FloatGuard() {
    std::feholdexcept(&before_);
    std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
    _mm_setcsr(kDefaultMode);  // feholdexcept leaves flush-to-zero alone
#endif
  }
  /// Restores it.
  ~FloatGuard() {
    std::fesetenv(&before_);
  }
  FloatGuard(const FloatGuard&) = delete;             ///< restores once
  FloatGuard& operator=(const FloatGuard&) = delete;  ///< restores once

 private:
  static constexpr unsigned kDefaultMode = 0x1F80;  // every exception masked, nothing else
  std::fenv_t before_;
};

}  // namespace everkernel::backend::cpu
