// Tries dlopen on each place where a library may be.
#include "backend/cuda/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace everkernel::backend::cuda {
namespace {

void* open_file(const char* path) {
  return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

std::string last_problem() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "dlopen failed without a reason";
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const LibraryPlaces& places) {
  // secure_getenv: a set-user-ID program must not load a library that its caller names.
  const char* const named = ::secure_getenv(places.variable);
  if (named != nullptr && *named != '\0') {
    if (void* const handle = open_file(named)) return SharedLibrary(handle, named);
    return fail(Code::unsupported, fmt::format("{}: {}", places.variable, last_problem()),
                "name an existing library, or unset the variable");
  }
  std::string problem;
  for (const char* const file : places.files) {
    if (void* const handle = open_file(file)) return SharedLibrary(handle, file);
    if (problem.empty()) problem = last_problem();
  }
  std::vector<std::string> folders;
  for (const char* const variable : places.homes) {
    const char* const home = ::secure_getenv(variable);
    if (home == nullptr || *home == '\0') continue;
    for (const char* const library : {"lib64", "lib"}) {
      folders.push_back(fmt::format("{}/{}", home, library));
    }
  }
  folders.insert(folders.end(), places.folders.begin(), places.folders.end());
  for (const std::string& folder : folders) {
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
