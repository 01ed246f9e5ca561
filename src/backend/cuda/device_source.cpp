// Joins the pieces of the embedded texts.
#include "backend/cuda/device_source.hpp"

#include <string>
#include <vector>

#include "backend/cuda/device_texts.hpp"
#include "everkernel/base/assert.hpp"

namespace everkernel::backend::cuda {
namespace {

constexpr std::string_view kMegakernel = "backend/cuda/megakernel.cu";

// Compilers limit the length of a string literal, so that each text is embedded in pieces.
struct Texts {
  Texts() {
    const auto embedded = embedded_texts();
    joined.reserve(embedded.size());
    for (const EmbeddedText& text : embedded) {
      std::string& whole = joined.emplace_back();
      for (const std::string_view piece : text.pieces) whole += piece;
      if (text.name == kMegakernel) {
        megakernel = {text.name, whole};
      } else {
        headers.push_back({text.name, whole});
      }
    }
    EVERKERNEL_ASSERT(!megakernel.text.empty());
  }

  std::vector<std::string> joined;  // reserved: the texts below point into its strings
  std::vector<SourceText> headers;
  SourceText megakernel;
};

const Texts& texts() {
  static const Texts texts;
  return texts;
}

}  // namespace

std::span<const SourceText> device_headers() {
  return texts().headers;
}

SourceText megakernel_source() {
  return texts().megakernel;
}

}  // namespace everkernel::backend::cuda
