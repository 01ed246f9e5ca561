// `everkernel info`.
#include "everkernel/jit/native.hpp"
#include "program.hpp"
#include "support/build_paths.hpp"

namespace everkernel::test {
namespace {

using Info = Program;

// The fake driver of tests/cuda.
const std::string kFakeDriver = built_path("libfake_cuda.so");

TEST_F(Info, json_has_the_version_and_the_constants_of_the_wire_format) {
  const Json info = json({"info"});
  EXPECT_EQ(info["version"], "0.1.0");
  const Json& abi = info["abi"];
  EXPECT_EQ(abi["slot_bytes"], 64);
  EXPECT_EQ(abi["slot_words"], 16);
  EXPECT_EQ(abi["slot_args"], 12);
  EXPECT_EQ(abi["control_words"], 160);
  EXPECT_EQ(abi["tenant_count"], 29);
  EXPECT_EQ(abi["priority_count"], 5);
  EXPECT_EQ(abi["max_encoded_slots"], 1'048'576);
  EXPECT_EQ(abi["max_ring_slots"], 268'435'455);
  EXPECT_EQ(abi["max_observables"], 1'048'576);
  EXPECT_EQ(abi["max_debug_records"], 1'048'576);
  EXPECT_EQ(abi["max_io_slots"], 64);
  EXPECT_EQ(abi["control_regions"][7],
            Json::parse(R"({"name": "epoch", "first_word": 128, "word_count": 1})"));
}

TEST_F(Info, json_lists_every_built_in_operation) {
  const Json expected = Json::parse(R"([
    {"opcode": 0, "name": "NOP", "argument_count": 0},
    {"opcode": 1, "name": "STORE_U32", "argument_count": 2},
    {"opcode": 2, "name": "ATOMIC_ADD", "argument_count": 2},
    {"opcode": 3, "name": "LOAD_U32", "argument_count": 2},
    {"opcode": 4, "name": "COMPARE_SWAP", "argument_count": 3},
    {"opcode": 5, "name": "MEMCPY", "argument_count": 3},
    {"opcode": 6, "name": "DFA_STEP", "argument_count": 4},
    {"opcode": 7, "name": "BATCH_FENCE", "argument_count": 2},
    {"opcode": 65533, "name": "LOAD_MISS", "argument_count": 2},
    {"opcode": 65534, "name": "PRINTF", "argument_count": 3},
    {"opcode": 2147483649, "name": "PACKED_SLOT", "argument_count": 12},
    {"opcode": 4294967295, "name": "SHUTDOWN", "argument_count": 0}])");
  EXPECT_EQ(json({"info"})["opcodes"], expected);
}

TEST_F(Info, json_says_which_backends_there_are) {
  const Json backends = json({"info"})["backends"];
  ASSERT_EQ(backends.size(), 2u);
  Json cuda = backends[1];
  EXPECT_EQ(cuda["reason"], kNoDriverReason);
  cuda.erase("reason");
  EXPECT_EQ(cuda, Json::parse(R"({"id": "cuda", "available": false, "device": "",
    "supported": false, "max_worker_count": 0, "memory_bytes": 0})"));
}

TEST_F(Info, a_gpu_is_shown_with_what_it_is) {
  ::setenv("EVERKERNEL_LIBCUDA", kFakeDriver.c_str(), 1);
  const Json cuda = json({"info"})["backends"][1];
  const auto reason = cuda["reason"].get<std::string>();
  if (reason.starts_with("libnvrtc")) GTEST_SKIP() << "there is no NVRTC here: " << reason;
  EXPECT_EQ(cuda, Json::parse(R"({"id": "cuda", "available": true, "supported": true,
    "device": "Fake GPU, 4 SMs, compute capability 9.0", "max_worker_count": 8192,
    "memory_bytes": 1073741824, "reason": ""})"));
  EXPECT_NE(everkernel({"info"}).out.find(
                "  cuda  available  Fake GPU, 4 SMs, compute capability 9.0, 1.0 GiB\n"),
            std::string::npos);
}

TEST_F(Info, a_driver_without_a_gpu_is_a_reason) {
  ::setenv("EVERKERNEL_LIBCUDA", kFakeDriver.c_str(), 1);
  ::setenv("FAKE_CUDA_DEVICE_COUNT", "0", 1);
  const Json cuda = json({"info"})["backends"][1];
  ::unsetenv("FAKE_CUDA_DEVICE_COUNT");
  EXPECT_EQ(cuda["available"], false);
  EXPECT_EQ(cuda["reason"],
            "the NVIDIA driver sees no GPU; install a GPU, or make one visible with "
            "CUDA_VISIBLE_DEVICES");
}

TEST_F(Info, launches_that_block_are_a_reason) {
  ::setenv("EVERKERNEL_LIBCUDA", kFakeDriver.c_str(), 1);
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  const Json cuda = json({"info"})["backends"][1];
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(cuda["reason"],
            "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel; unset "
            "CUDA_LAUNCH_BLOCKING");
}

TEST_F(Info, json_says_what_the_cpu_backend_runs_on) {
  const Json cpu = json({"info"})["backends"][0];
  EXPECT_EQ(cpu.size(), 7u);
  EXPECT_EQ(cpu["id"], "cpu");
  EXPECT_EQ(cpu["available"], true);
  EXPECT_EQ(cpu["supported"], true);
  EXPECT_EQ(cpu["reason"], "");
  EXPECT_NE(cpu["device"], "");
  EXPECT_GE(cpu["max_worker_count"], 1);
  EXPECT_LE(cpu["max_worker_count"], 256);
  EXPECT_GT(cpu["memory_bytes"], 1 << 20);
}

TEST_F(Info, json_says_whether_handlers_become_native_code) {
  const Json native = json({"info"})["native_code"];
  EXPECT_EQ(native["available"], jit::has_native_code());
  EXPECT_EQ(native["reason"].get<std::string>().empty(), jit::has_native_code());
}

/// Tests that set the folder of the code cache in the environment.
struct InfoCache : Info {
  void keep_in(const std::string& place) { ::setenv("EVERKERNEL_CACHE_DIR", place.c_str(), 1); }
  ~InfoCache() override { keep_in("off"); }
};

TEST_F(InfoCache, says_where_compiled_code_is_kept) {
  const std::string place = dir.path() / "kept";
  keep_in(place);
  EXPECT_EQ(json({"info"})["code_cache"],
            Json({{"available", true}, {"reason", ""}, {"directory", place}}));
  EXPECT_NE(everkernel({"info"}).out.find("compiled code\n  kept in  " + place + "\n"),
            std::string::npos);
}

TEST_F(InfoCache, says_that_it_is_switched_off) {
  keep_in("off");
  const Json cache = json({"info"})["code_cache"];
  EXPECT_EQ(cache["available"], false);
  EXPECT_EQ(cache["reason"], "EVERKERNEL_CACHE_DIR is off");
  EXPECT_EQ(cache["directory"], "");
}

TEST_F(InfoCache, says_why_a_folder_is_not_used) {
  const std::filesystem::path place = dir.path() / "open";
  std::filesystem::create_directory(place);
  std::filesystem::permissions(place, std::filesystem::perms::all);
  keep_in(place);
  const std::string reason = json({"info"})["code_cache"]["reason"];
  EXPECT_EQ(reason, "code cache: " + place.string() +
                        " is another user's, or others can write to it; remove it, or chmod go-w, "
                        "or set EVERKERNEL_CACHE_DIR to a folder of yours");
  EXPECT_NE(everkernel({"info"}).out.find("compiled code\n  not kept  code cache: "),
            std::string::npos);
}

TEST_F(Info, text_says_the_same_to_people) {
  const Outcome outcome = everkernel({"info"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.out.starts_with("everkernel 0.1.0\n")) << outcome.out;
  EXPECT_NE(outcome.out.find("cpu   available      "), std::string::npos);
  EXPECT_NE(outcome.out.find("cuda  not available  EVERKERNEL_LIBCUDA: "), std::string::npos);
  EXPECT_NE(outcome.out.find("64 bytes: 16 words, 12 of them arguments"), std::string::npos);
  EXPECT_NE(outcome.out.find("0x80000001  PACKED_SLOT          12\n"), std::string::npos);
}

}  // namespace
}  // namespace everkernel::test
