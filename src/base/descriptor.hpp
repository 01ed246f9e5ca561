// An owned file descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace everkernel {

/// Closes a file descriptor. Move-only.
class Descriptor {
 public:
  /// Owns nothing.
  Descriptor() = default;
  /// Owns that descriptor; a negative number is none.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}  ///< takes over
  /// Closes its own, takes over.
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) Descriptor ended(std::exchange(number_, other.release()));
    return *this;
  }
  ~Descriptor() {  ///< closes it
    if (number_ >= 0) ::close(number_);
  }

  /// Another descriptor of the same open file, not inherited by exec(); none if there is no room.
  static Descriptor copy_of(int number) { return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0)); }

  /// Its number, negative if there is none.
  int get() const { return number_; }
  /// Whether there is one.
  bool is_open() const { return number_ >= 0; }
  /// Gives it away.
  int release() { return std::exchange(number_, -1); }
  /// Closes it and says whether that worked: a full disk may be reported as late as here.
  bool close() { return ::close(release()) == 0; }

 private:
  int number_ = -1;
};

}  // namespace everkernel
