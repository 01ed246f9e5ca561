// Which driver calls return beside a session on the same GPU, and that all of them return inside
// parked(): the table of docs/cuda.md, by a command. Each call runs in a child process with a time
// limit, because one that waits for the device would wait for ever.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "cuda/gpu.hpp"
#include "everkernel/backend/cuda/cuda_backend.hpp"
#include "everkernel/runtime/megakernel.hpp"

namespace everkernel::test {
namespace {

using namespace backend::cuda;
using Clock = std::chrono::steady_clock;

// The variable that tells a child which calls to make: where, and from which row on.
constexpr const char* kVariable = "EVERKERNEL_CALLS_BESIDE";
// A call that has not returned by then blocks.
constexpr std::chrono::seconds kLimit(5);
// For the child to come to its next call: a compiler may run before.
constexpr std::chrono::seconds kPatience(60);
constexpr std::size_t kBytes = 4096;
constexpr const char* kSource = "extern \"C\" __global__ void own(unsigned* word) { *word = 7; }";

// What calls need, made before there is a session.
struct Things {
  Driver driver = needed(Driver::load());
  DeviceFacts facts = needed(probe_device(driver, 0));
  bool has_default_stream = facts.name != "Simulated GPU";
  CuContext context = nullptr;
  std::vector<std::byte> image =
      needed(needed(Nvrtc::load())
                 .compile({.source = {"own.cu", kSource}, .architecture = facts.architecture}))
          .bytes;
  CuStream stream = nullptr;
  CuPointer memory = 0, spare = 0, made = 0;
  void *pinned = nullptr, *made_pinned = nullptr, *pages = nullptr;
  CuModule module = nullptr, made_module = nullptr;
  CuFunction function = nullptr;
  CuGraph graph = nullptr;
  CuGraphExec executable = nullptr;

  void expect(CuResult result, const char* call) const {
    if (result == kCuSuccess) return;
    throw std::runtime_error(fmt::format("{} gives {}", call, result));
  }

  Things() {
    const Driver& d = driver;
    expect(d.cuDevicePrimaryCtxRetain(&context, facts.device), "cuDevicePrimaryCtxRetain");
    expect(d.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    expect(d.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
    expect(d.cuMemAlloc(&memory, kBytes), "cuMemAlloc");
    expect(d.cuMemAlloc(&spare, kBytes), "cuMemAlloc");
    expect(d.cuMemHostAlloc(&pinned, kBytes, 0), "cuMemHostAlloc");
    expect(d.cuModuleLoadData(&module, image.data()), "cuModuleLoadData");
    expect(d.cuModuleGetFunction(&function, module, "own"), "cuModuleGetFunction");
    pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::runtime_error("mmap");
    make_graph();
    run_graph();
  }

  void make_graph() {
    expect(driver.cuGraphCreate(&graph, 0), "cuGraphCreate");
    CuPointer argument = memory;
    void* arguments[] = {&argument};
    CuKernelNode node;
    node.function = function;
    node.grid[0] = node.block[0] = 1;
    node.arguments = arguments;
    CuGraphNode added = nullptr;
    expect(driver.cuGraphAddKernelNode(&added, graph, nullptr, 0, &node), "cuGraphAddKernelNode");
    expect(driver.cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
  }
  void run_graph() const {
    expect(driver.cuGraphLaunch(executable, stream), "cuGraphLaunch");
    expect(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  }

  void run_own_kernel(CuStream in) const {
    CuPointer argument = memory;
    void* arguments[] = {&argument};
    expect(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, in, arguments, nullptr), "launch");
    expect(driver.cuStreamSynchronize(in), "cuStreamSynchronize");
  }
};

// A call, and whether it returns beside a session; nothing where no hardware has said so yet.
struct Row {
  const char* name;
  std::optional<bool> returns_beside;
  std::function<void(Things&)> call;
};

// In this order: later rows use what earlier ones made.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"cuMemAllocAsync, cuMemFreeAsync", true,
       [](Things& t) {
         t.expect(t.driver.cuMemAllocAsync(&t.made, kBytes, t.stream), "cuMemAllocAsync");
         t.expect(t.driver.cuMemFreeAsync(t.made, t.stream), "cuMemFreeAsync");
       }},
      {"work and cuStreamSynchronize in a stream of one's own", true,
       [](Things& t) {
         t.expect(t.driver.cuMemsetD32Async(t.memory, 1, 16, t.stream), "cuMemsetD32Async");
         t.run_own_kernel(t.stream);
       }},
      {"cuGraphLaunch of a graph that was launched before", true, [](Things& t) { t.run_graph(); }},
      {"cuGraphInstantiate and cuGraphLaunch", true,
       [](Things& t) {
         t.make_graph();
         t.run_graph();
       }},
      {"cuMemAlloc", true, [](Things& t) { t.expect(t.driver.cuMemAlloc(&t.made, kBytes), ""); }},
      {"cuMemHostAlloc", true,
       [](Things& t) { t.expect(t.driver.cuMemHostAlloc(&t.made_pinned, kBytes, 0), ""); }},
      {"cuMemHostRegister", true,
       [](Things& t) { t.expect(t.driver.cuMemHostRegister(t.pages, kBytes, 2), ""); }},
      // It blocks on an H200, and returns on the simulated GPU.
      {"cuModuleLoadData, cuModuleGetFunction",
       {},
       [](Things& t) {
         t.expect(t.driver.cuModuleLoadData(&t.made_module, t.image.data()), "cuModuleLoadData");
         CuFunction function = nullptr;
         t.expect(t.driver.cuModuleGetFunction(&function, t.made_module, "own"), "function");
       }},
      {"work and cuStreamSynchronize in the default stream", true,
       [](Things& t) {
         if (t.has_default_stream) t.run_own_kernel(nullptr);
       }},
      {"cuMemFree", false, [](Things& t) { t.expect(t.driver.cuMemFree(t.spare), ""); }},
      {"cuMemFreeHost", false, [](Things& t) { t.expect(t.driver.cuMemFreeHost(t.pinned), ""); }},
      {"cuMemHostUnregister", false,
       [](Things& t) {
         // A row before has registered them, unless that was in a child which hung.
         static_cast<void>(t.driver.cuMemHostRegister(t.pages, kBytes, 2));
         t.expect(t.driver.cuMemHostUnregister(t.pages), "");
       }},
      {"cuModuleUnload", false, [](Things& t) { t.expect(t.driver.cuModuleUnload(t.module), ""); }},
  };
  return all;
}

// ---- the child ----

void say(const char* what, std::size_t row) {
  std::printf("\n%s %zu\n", what, row);
  std::fflush(stdout);
}

TEST(CallsBesideASession, are_made_by_a_child) {
  const char* const order = std::getenv(kVariable);
  if (order == nullptr) GTEST_SKIP() << "this is the part of a child process";
  const bool is_inside = order[0] == 'i';
  Things things;
  auto kernel = needed(Megakernel::create(backend::cuda::make_backend()));
  auto session = needed(kernel.start({.multiprocessors = 1}));
  const auto run_item = [&] {
    const Ticket ticket = needed(session.publish({}));
    needed(session.wait(ticket, kPatience));
  };
  run_item();
  for (std::size_t i = std::strtoul(order + 1, nullptr, 10); i < rows().size(); ++i) {
    const auto call = [&] {
      say("begin", i);
      rows()[i].call(things);
      say("end", i);
    };
    if (is_inside) {
      needed(session.parked(call, kPatience));
    } else {
      call();
    }
    run_item();
  }
  std::fflush(nullptr);
  ::_exit(0);  // what is left of a driver may wait for the session
}

// ---- the parent ----

class Child {
 public:
  Child(char where, std::size_t first_row) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    output_ = ends[0];
    id_ = ::fork();
    if (id_ == 0) {
      ::dup2(ends[1], 1);
      ::setenv(kVariable, fmt::format("{}{}", where, first_row).c_str(), 1);
      ::setenv("SIMULATED_PATIENCE_S", "1", 1);
      ::execl("/proc/self/exe", "calls", "--gtest_filter=*are_made_by_a_child", nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    ::close(output_);
  }

  // The next line that begins so; nothing at the limit, or if the child has ended.
  bool next(const std::string& wanted, std::chrono::seconds limit) {
    const auto deadline = Clock::now() + limit;
    for (;;) {
      for (auto end = text_.find('\n'); end != text_.npos; end = text_.find('\n')) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line == wanted) return true;
        if (!line.empty()) said_ += line + "\n";
      }
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd waiting{.fd = output_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
        return false;
      }
      char bytes[512];
      const auto count = ::read(output_, bytes, sizeof bytes);
      if (count <= 0) return false;
      text_.append(bytes, static_cast<std::size_t>(count));
    }
  }
  const std::string& said() const { return said_; }
  // Whether it has ended by itself. It is killed, or the simulated GPU aborts it, if a call blocks.
  bool has_exited() {
    int status = 0;
    const bool is_over = ::waitpid(id_, &status, WNOHANG) == id_;
    if (is_over) id_ = -1;
    return is_over && WIFEXITED(status);
  }

 private:
  pid_t id_ = 0;
  int output_ = -1;
  std::string text_, said_;
};

class CallsBeside : public testing::Test {
 protected:
  void SetUp() override {
    const auto reason = backend::cuda::make_backend()->capabilities().reason;
    if (!reason.empty()) GTEST_SKIP() << "no GPU: " << reason;
  }
};

TEST_F(CallsBeside, a_session_return_inside_parked) {
  Child child('i', 0);
  for (std::size_t i = 0; i < rows().size(); ++i) {
    ASSERT_TRUE(child.next(fmt::format("begin {}", i), kPatience)) << i << "\n" << child.said();
    ASSERT_TRUE(child.next(fmt::format("end {}", i), kLimit))
        << rows()[i].name << " does not return inside parked()\n"
        << child.said();
  }
}

// Prints the table. Where it has a word for a call already, the call must do the same.
TEST_F(CallsBeside, a_session_do_what_the_documents_say) {
  for (std::size_t i = 0; i < rows().size();) {
    Child child('o', i);
    for (bool returns = true; returns && i < rows().size(); ++i) {
      ASSERT_TRUE(child.next(fmt::format("begin {}", i), kPatience)) << i << "\n" << child.said();
      const auto begin = Clock::now();
      returns = child.next(fmt::format("end {}", i), kLimit);
      const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
      const Row& row = rows()[i];
      std::printf("%-55s %s\n", row.name,
                  returns ? fmt::format("returns ({:.0f} us)", taken.count()).c_str() : "blocks");
      EXPECT_TRUE(returns || !child.has_exited()) << row.name << " failed\n" << child.said();
      EXPECT_EQ(returns, row.returns_beside.value_or(returns)) << row.name;
    }
  }
}

}  // namespace
}  // namespace everkernel::test
