// Native handlers: C++ and CUDA C++ of a trusted program, run in place of a handler's body.
//
// Nobody checks them: they can read and write whatever the process or the kernel can. A megakernel
// takes them beside verified handlers and treats them alike; what the verifier finds out about a
// body, the program declares here, and it is believed. unverified_item.hpp is what the C++ function
// sees.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "everkernel/base/result.hpp"
#include "everkernel/ir/item.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::ir {

class UnverifiedItem;

/// Every word an item can reach; it ends where it returns, and does not come back.
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

/// Fault code of an item whose C++ function threw. One item never stops another, so that nothing
/// that is thrown leaves the worker; what it said is lost.
inline constexpr Word kThrewFault = 0xFFFE;
/// Fault code of an item that ended in a way its handler has not declared: a yield, a requeue or an
/// await that is not among its effects, or a value that is no ending.
inline constexpr Word kUndeclaredFault = 0xFFFD;

/// A handler of trusted code. Each backend needs its half and is refused without it; a program that
/// runs on one backend alone may leave the other out.
struct UnverifiedHandler {
  /// The C++ half: runs one item, on the thread of a worker, for all lanes of the scope. Several
  /// threads call it at one time. It has no state of its own, because the other half could not
  /// have it: data lies in buffers.
  using Function = Outcome (*)(UnverifiedItem& item);

  std::string name = {};      ///< letters, digits and _; what reports call it
  Word opcode = 0;            ///< what slots call it by; not reserved, and no other handler's
  Scope scope = Scope::lane;  ///< how many lanes run an item
  /// What it can touch and how it can end. Items are ordered by this: what is not declared and done
  /// all the same races. Args that it writes without the effect are as they were before.
  Effects effects = kTouchesEverything;
  bool is_pure = false;    ///< running an item twice is running it once
  bool commutes = false;   ///< items on one output may run in any order, or at one time
  bool is_short = false;   ///< ends within a microsecond: may run on a thread that waits
  Function cpu = nullptr;  ///< the C++ half
  /// The CUDA half: text that defines `template <class Item> __device__ Word NAME(Item& item)`, and
  /// whatever it needs before that. It is compiled in a namespace of its own, without headers.
  std::string cuda = {};
};

/// Which half a backend needs.
enum class Half : std::uint8_t {
  cpu,   ///< the C++ function
  cuda,  ///< the CUDA text
};

/// Checks what can be checked without looking inside: names and opcodes against each other and
/// against the program's (which may be null), declarations for contradictions. Every backend asks
/// before it compiles. Fails with `invalid_argument`, and with `unsupported` where the half that is
/// needed is not there; the message names the handler.
Result<void> check_unverified(std::span<const UnverifiedHandler> handlers,
                              const VerifiedProgram* program, Half needed);

/// Runs one item through the C++ half. Whatever it does, the outcome is one its handler declared.
Outcome run_unverified(const UnverifiedHandler& handler, ItemFrame& frame);

/// What the runtime goes by, whatever a handler is made of.
struct HandlerTraits {
  std::string_view name = {};  ///< the handler's own string
  Word opcode = 0;             ///< what slots call it by
  bool is_pure = false;        ///< running an item twice is running it once
  bool commutes = false;       ///< items on one output may run in any order
  Effects effects = {};        ///< what it can touch
};

/// The traits of a verified handler.
HandlerTraits traits_of(const VerifiedHandler& handler);
/// The traits of a native handler.
HandlerTraits traits_of(const UnverifiedHandler& handler);

}  // namespace everkernel::ir
