// The constants and functions of a program, as handlers refer to them by name.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::ir {

/// The value of a constant; of type `none` if there is a mistake in it.
struct KnownConstant {
  Type type = Type::none;  ///< its type
  abi::Word bits = 0;      ///< its value
};

/// What a program declares. Refers to the program.
struct Definitions {
  std::map<std::string_view, KnownConstant> constants = {};        ///< by name
  std::map<std::string_view, const UserFunction*> functions = {};  ///< by name
};

/// An order in which each thing comes behind those that it refers to.
struct ReferenceOrder {
  std::vector<std::size_t> sorted = {};               ///< all that can be put in order
  std::vector<std::vector<std::size_t>> cycles = {};  ///< each refers to the next, the last to the
                                                      ///< first
};

/// Puts things in order that refer to each other: `references[i]` are those of thing i.
ReferenceOrder order_of(const std::vector<std::vector<std::size_t>>& references);

/// The value of an expression of a constant, whose types are known: of literals, constants,
/// operators and functions of numbers.
abi::Word constant_value(const Body& body, ExprId id, const std::vector<Type>& types,
                         const Definitions& definitions);

/// The body of a handler with its constants as literals and its calls replaced by what they
/// compute. Handler and functions must have been verified. A result of more than kMaxInstructions
/// is cut off, and too large for the verifier.
Body lowered(const Body& body, const Definitions& definitions);

/// Whether lowered() would change the body.
bool needs_lowering(const Body& body, const Definitions& definitions);

}  // namespace everkernel::ir
