// Trusted handlers: your own C++ and CUDA C++, run in place of a verified handler's body.
//
// The code is not verified: it can read and write all memory of the process or the kernel. A
// megakernel takes trusted handlers beside verified ones and schedules both alike. The verifier
// derives the effects of a verified body; the effects of a trusted handler are declared here and
// used unchecked. trusted_item.hpp has the item that the C++ function sees.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

class TrustedItem;

/// Effects of a handler that touches every word an item can reach, and neither yields nor awaits.
inline constexpr Effects kTouchesEverything{.reads_input = true,
                                            .writes_input = true,
                                            .reads_output = true,
                                            .writes_output = true,
                                            .uses_handles = true,
                                            .reads_control = true,
                                            .writes_control = true,
                                            .moves_buffers = true,
                                            .writes_args = true,
                                            .prints = true,
                                            .emits = true};

/// Fault code of an item whose C++ function threw. The worker catches and drops the exception, so
/// that one item never stops another.
inline constexpr Word kThrewFault = 0xFFFE;
/// Fault code of an item whose outcome its handler has not declared: a yield, a requeue or an await
/// without the effect, or a value that is no ending.
inline constexpr Word kUndeclaredFault = 0xFFFD;

/// A handler of trusted code. The CPU backend needs the C++ function, the CUDA backend the CUDA
/// text; a program that runs on one backend may leave the other out.
struct TrustedHandler {
  /// Runs one item, on the thread of a worker, for all lanes of the scope. Several threads call it
  /// at one time. It is a plain function without state, because CUDA text could not share that
  /// state: data lies in buffers.
  using Function = Outcome (*)(TrustedItem& item);

  std::string name = {};      ///< letters, digits and _; reports show it
  Word opcode = 0;            ///< the opcode of its slots; not reserved, and no other handler's
  Scope scope = Scope::lane;  ///< how many lanes run an item
  /// The memory it can touch and the ways it can end. A plan orders items by these effects: an
  /// access that is not declared races with other items. Without `writes_args`, changes to args are
  /// dropped.
  Effects effects = kTouchesEverything;
  bool is_pure = false;    ///< running an item twice is the same as running it once
  bool commutes = false;   ///< items on one output may run in any order, or at one time
  bool is_short = false;   ///< ends within a microsecond: may run on the thread or crew that looks
  Function cpu = nullptr;  ///< the C++ function
  /// The CUDA text. It defines `template <class Item> __device__ Word NAME(Item& item)`, and before
  /// it the helpers it uses. It is compiled in a namespace of its own, without headers.
  std::string cuda = {};
};

/// Which code of a trusted handler a backend runs.
enum class TrustedCode : std::uint8_t {
  cpu,   ///< the C++ function
  cuda,  ///< the CUDA text
};

/// Checks trusted handlers without reading their code: names and opcodes against each other and
/// against those of the program (which may be null), and declarations for contradictions. Every
/// backend calls it before it compiles. Fails with `invalid_argument`, or with `unsupported` where
/// a handler lacks the needed code; the message names the handler.
Result<void> check_trusted(std::span<const TrustedHandler> handlers, const VerifiedProgram* program,
                           TrustedCode needed);

/// Runs one item through the C++ function. An outcome that the handler has not declared becomes
/// FAULT (kUndeclaredFault).
Outcome run_trusted(const TrustedHandler& handler, ItemFrame& frame);

/// The properties of a handler that the runtime needs, the same for verified and trusted ones.
struct HandlerTraits {
  std::string_view name = {};  ///< the handler's own string
  Word opcode = 0;             ///< the opcode of its slots
  bool is_pure = false;        ///< running an item twice is the same as running it once
  bool commutes = false;       ///< items on one output may run in any order
  Effects effects = {};        ///< memory it can touch
};

/// The traits of a verified handler.
HandlerTraits traits_of(const VerifiedHandler& handler);
/// The traits of a trusted handler.
HandlerTraits traits_of(const TrustedHandler& handler);

}  // namespace everkernel::ir
