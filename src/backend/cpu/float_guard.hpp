// Handlers compute with default IEEE 754 settings, whatever the float mode of the thread is.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace everkernel::backend::cpu {

/// While it lives, the thread rounds to nearest, keeps denormals and does not trap; then the old
/// mode is restored. Threads that help do this often: on x86-64 the mode, whose change costs more
/// than a short item, is changed only if it differs.
class FloatGuard {
 public:
#if defined(__x86_64__)
  /// Sets the thread's float mode.
  FloatGuard() : before_(_mm_getcsr()) {
    if ((before_ & ~kFlags) != kDefaultMode) _mm_setcsr(kDefaultMode);
  }
  /// Restores it, with the flags of exceptions that there were.
  ~FloatGuard() {
    if (_mm_getcsr() != before_) _mm_setcsr(before_);
  }
#else
  /// Sets the thread's float mode.
  FloatGuard() {
    std::feholdexcept(&before_);
    std::fesetround(FE_TONEAREST);
  }
  /// Restores it.
  ~FloatGuard() {
    std::fesetenv(&before_);
  }
#endif
  FloatGuard(const FloatGuard&) = delete;             ///< restores once
  FloatGuard& operator=(const FloatGuard&) = delete;  ///< restores once

 private:
#if defined(__x86_64__)
  static constexpr unsigned kDefaultMode = 0x1F80;  // every exception masked, nothing else
  static constexpr unsigned kFlags = 0x3F;          // exceptions that there were
  unsigned before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace everkernel::backend::cpu
