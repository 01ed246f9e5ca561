// A shared library opened at run time. If it is missing, the program still starts and can show an
// error.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"

namespace everkernel::backend::cuda {

// Where to look for a library, in this order.
struct LibraryPlaces {
  // An environment variable. If it is set, it names the file and no other place is tried.
  const char* variable = "";
  std::span<const char* const> files = {};    // names for the loader's own search
  std::span<const char* const> homes = {};    // variables that name folders with lib64 or lib
  std::span<const char* const> folders = {};  // folders with the files
  std::string_view advice = {};               // hint of the error if the library is not found
};

// Stays open until the process ends, because libcuda cannot be closed safely.
class SharedLibrary {
 public:
  // Fails with `unsupported`.
  static Result<SharedLibrary> open(const LibraryPlaces& places);

  // The address of a symbol, or null if the library does not have it.
  void* find(const char* symbol) const;
  // The name that it was opened by.
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace everkernel::backend::cuda
