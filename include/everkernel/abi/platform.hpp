// The word type and the layout checks of the shared buffers, for host compilers, nvcc and NVRTC.
//
// Headers of abi/ include only headers of abi/. NVRTC has no standard headers, so nothing here
// needs them when it compiles.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cstddef>
#include <cstdint>
#include <type_traits>
#endif

/// Marks a function that host and device code both call.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define EVERKERNEL_HOST_DEVICE __host__ __device__
#else
#define EVERKERNEL_HOST_DEVICE
#endif

namespace everkernel::abi {

/// One little-endian 32-bit word: the unit of every shared buffer.
using Word = unsigned int;
static_assert(sizeof(Word) == 4);

/// Bytes in a word.
inline constexpr Word kWordBytes = 4;

#if !defined(__CUDACC_RTC__)
static_assert(std::is_same_v<Word, std::uint32_t>);

/// True for a type that may lie in shared memory: it can be copied byte by byte and has no padding.
template <class T>
inline constexpr bool kIsWirePod = std::is_standard_layout_v<T>&& std::is_trivially_copyable_v<T>&&
    std::has_unique_object_representations_v<T>;
#endif

/// A run of words inside a buffer.
struct WordRange {
  Word first;  ///< index of the first word
  Word count;  ///< number of words

  /// Index of the first word behind the range.
  EVERKERNEL_HOST_DEVICE constexpr Word end() const { return first + count; }
};

}  // namespace everkernel::abi
