// dlopen with the usual places.
#include "backend/cuda/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace everkernel::backend::cuda {
namespace {

void* open_file(const char* path) {
  return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

std::string last_problem() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "the loader does not say why";
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const LibraryPlaces& places) {
  // A program that runs with more rights than its caller does not load what the caller names.
  const char* const named = ::secure_getenv(places.variable);
  if (named != nullptr && *named != '\0') {
    if (void* const handle = open_file(named)) return SharedLibrary(handle, named);
    return fail(Code::unsupported, fmt::format("{}: {}", places.variable, last_problem()),
                "name a library that is there, or unset the variable");
  }
  std::string problem;
  for (const char* const file : places.files) {
    if (void* const handle = open_file(file)) return SharedLibrary(handle, file);
    if (problem.empty()) problem = last_problem();
  }
  for (const char* const folder : places.folders) {
    for (const char* const file : places.files) {
      const std::string path = fmt::format("{}/{}", folder, file);
      if (void* const handle = open_file(path.c_str())) return SharedLibrary(handle, path);
    }
  }
  return fail(Code::unsupported, std::move(problem), std::string(places.advice));
}

void* SharedLibrary::find(const char* symbol) const {
  return ::dlsym(handle_, symbol);
}

}  // namespace everkernel::backend::cuda
