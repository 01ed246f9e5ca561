// Compiles the abi headers with NVRTC as the CUDA backend does: header texts by name, no include
// path, no toolkit header.
//
//   abi_nvrtc LIBNVRTC DEVICE_SOURCE ABI_FOLDER
//
// Then it breaks one header at a time: each break must be refused by an assertion of the headers,
// so that they are known to hold on the device side too.
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Headers = std::map<std::string, std::string>;  // name in an #include → text

// The part of NVRTC's interface that is needed; the build has no toolkit headers either.
struct Nvrtc {
  using Program = struct Opaque*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) std::fprintf(stderr, "error: no %s in the library\n", name);
  return function != nullptr;
}

bool load(const char* path, Nvrtc& nvrtc) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "error: %s\n", dlerror());
    return false;
  }
  return find(library, "nvrtcCreateProgram", nvrtc.create) &&
         find(library, "nvrtcCompileProgram", nvrtc.compile) &&
         find(library, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
         find(library, "nvrtcGetProgramLog", nvrtc.log) &&
         find(library, "nvrtcDestroyProgram", nvrtc.destroy);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Outcome {
  bool compiled;
  std::string log;
};

Outcome compile(const Nvrtc& nvrtc, const std::string& source, const Headers& headers) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  Nvrtc::Program program = nullptr;
  const int count = static_cast<int>(names.size());
  if (nvrtc.create(&program, source.c_str(), "device_use.cu", count, texts.data(), names.data())) {
    return {false, "nvrtcCreateProgram failed"};
  }
  const char* options[] = {"--std=c++20", "--gpu-architecture=sm_90"};
  const bool compiled = nvrtc.compile(program, std::size(options), options) == 0;
  std::size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  nvrtc.destroy(&program);
  return {compiled, log};
}

// An edit of one header that breaks the layout or a table.
struct Break {
  const char* header;
  const char* before;
  const char* after;
};

constexpr Break kBreaks[] = {
    {"everkernel/abi/slot.hpp", "Word args[kSlotArgs];", "Word args[kSlotArgs + 16];"},
    {"everkernel/abi/slot.hpp", "struct alignas(kSlotBytes) Slot", "struct Slot"},
    {"everkernel/abi/control.hpp", "kControlEpoch{128, 1}", "kControlEpoch{129, 1}"},
    {"everkernel/abi/opcode.hpp", "memcpy = 5,", "memcpy = 9,"},
    {"everkernel/abi/debug_log.hpp", "Word args[3];", "Word args[4];"},
    {"everkernel/abi/io_queue.hpp", "kIoSlotWords = 8;", "kIoSlotWords = 9;"},
    {"everkernel/abi/packed.hpp", "kMaxPackedOps = 23;", "kMaxPackedOps = 24;"},
    {"everkernel/abi/fault.hpp", "kMaxUserFault = 65279;", "kMaxUserFault = 65280;"},
    {"everkernel/abi/hit.hpp", "Word c = 0;", "Word c = 0; Word d = 0;"},
    {"everkernel/abi/queue.hpp", "Word reserved[11];", "Word reserved[12];"},
    {"everkernel/abi/queue.hpp", "struct alignas(kQuadBytes) Quad", "struct Quad"},
    {"everkernel/abi/platform.hpp", "using Word = unsigned int;", "using Word = unsigned short;"},
};

bool is_refused(const Nvrtc& nvrtc, const std::string& source, Headers headers, const Break& edit) {
  std::string& text = headers[edit.header];
  const std::size_t at = text.find(edit.before);
  if (at == std::string::npos) {
    std::fprintf(stderr, "error: %s has no `%s`; update this test\n", edit.header, edit.before);
    return false;
  }
  text.replace(at, std::string(edit.before).size(), edit.after);
  const Outcome outcome = compile(nvrtc, source, headers);
  if (!outcome.compiled && outcome.log.find("static assertion failed") != std::string::npos) {
    return true;
  }
  std::fprintf(stderr, "error: `%s` in %s broke no assertion\n%s\n", edit.after, edit.header,
               outcome.log.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: abi_nvrtc LIBNVRTC DEVICE_SOURCE ABI_FOLDER\n");
    return 2;
  }
  Nvrtc nvrtc;
  if (!load(argv[1], nvrtc)) return 1;

  const std::string source = read(argv[2]);
  Headers headers;
  for (const auto& entry : std::filesystem::directory_iterator(argv[3])) {
    const std::string name = "everkernel/abi/" + entry.path().filename().string();
    headers[name] = read(entry.path());
    if (source.find("#include \"" + name + "\"") == std::string::npos) {
      std::fprintf(stderr, "error: the device source does not include %s\n", name.c_str());
      return 1;
    }
  }

  const Outcome good = compile(nvrtc, source, headers);
  if (!good.compiled) {
    std::fprintf(stderr, "error: NVRTC refuses the headers\n%s\n", good.log.c_str());
    return 1;
  }
  bool all_refused = true;
  for (const Break& edit : kBreaks) {
    all_refused = is_refused(nvrtc, source, headers, edit) && all_refused;
  }
  std::printf("%zu headers compiled, %zu breaks tried\n", headers.size(), std::size(kBreaks));
  return all_refused ? 0 : 1;
}
