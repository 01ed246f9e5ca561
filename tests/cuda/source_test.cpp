// The embedded texts are equal to the source files.
#include "backend/cuda/device_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "support/build_paths.hpp"
#include "support/temp_dir.hpp"

namespace everkernel::test {
namespace {

using backend::cuda::device_headers;
using backend::cuda::megakernel_source;
using backend::cuda::SourceText;

const std::filesystem::path kRoot = source_path();

TEST(EmbeddedSource, has_every_header_of_the_wire_format) {
  std::set<std::string> expected;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "include/everkernel/abi")) {
    expected.insert("everkernel/abi/" + entry.path().filename().string());
  }
  std::set<std::string> found;
  for (const SourceText& header : device_headers()) {
    if (header.name.starts_with("everkernel/abi/")) found.emplace(header.name);
  }
  EXPECT_GE(found.size(), 9u);
  EXPECT_EQ(found, expected);
}

TEST(EmbeddedSource, is_byte_for_byte_the_files) {
  for (const SourceText& header : device_headers()) {
    const char* const folder = header.name.starts_with("everkernel/") ? "include" : "src";
    EXPECT_EQ(header.text, read_text(kRoot / folder / header.name)) << header.name;
  }
  EXPECT_EQ(megakernel_source().text, read_text(kRoot / "src" / megakernel_source().name));
}

// NVRTC finds an include by its name among the embedded texts and nowhere else.
TEST(EmbeddedSource, includes_only_embedded_texts_and_the_handlers) {
  std::set<std::string_view> known{"everkernel/handlers.cuh"};
  std::vector<SourceText> texts{megakernel_source()};
  for (const SourceText& header : device_headers()) {
    known.insert(header.name);
    texts.push_back(header);
  }
  constexpr std::string_view kInclude = "#include \"";
  std::size_t includes = 0;
  for (const SourceText& source : texts) {
    const std::string_view text = source.text;
    for (auto at = text.find(kInclude); at != text.npos; at = text.find(kInclude, at)) {
      at += kInclude.size();
      const std::string_view name = text.substr(at, text.find('"', at) - at);
      EXPECT_TRUE(known.contains(name)) << source.name << " includes " << name;
      ++includes;
    }
  }
  EXPECT_GT(includes, 0u);
}

TEST(EmbeddedSource, has_the_contract_with_handlers) {
  EXPECT_TRUE(std::ranges::any_of(device_headers(), [](const SourceText& header) {
    return header.name == "jit/device/handler.cuh";
  }));
}

}  // namespace
}  // namespace everkernel::test
