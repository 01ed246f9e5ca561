// A library opened while the program runs: what is missing is an error to show, never a program
// that does not start.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

// Where a library is looked for.
struct LibraryPlaces {
  const char* variable = "";  // names the file instead, and then nothing else is tried
  std::span<const char* const> files = {};    // first as the loader finds them, best first
  std::span<const char* const> homes = {};    // then in lib64 and lib of what these variables name
  std::span<const char* const> folders = {};  // then in these
  std::string_view advice = {};               // what to do without it
};

// Stays open to the end of the process: drivers do not like to be closed.
class SharedLibrary {
 public:
  // Fails with `unsupported`.
  static Result<SharedLibrary> open(const LibraryPlaces& places);

  // The address of a symbol, null if there is none.
  void* find(const char* symbol) const;
  // The name it was opened by.
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace everkernel::backend::cuda
