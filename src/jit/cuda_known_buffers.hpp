// Which buffers of a handler its CUDA text looks up ahead of their use, and by which names.
//
// A lookup never faults, so it may come before the use: at the entry of the handler, or right
// behind the name of the handle. An access then waits for no search.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/verifier.hpp"

namespace everkernel::jit {

/// A handle that is known at the entry of a handler.
struct EntryHandle {
  /// Where the handle comes from.
  enum class Kind : std::uint8_t { literal, arg };

  Kind kind;        ///< where it comes from
  abi::Word value;  ///< the handle, or the index of the arg that holds it

  /// By kind, then value.
  friend constexpr auto operator<=>(const EntryHandle&, const EntryHandle&) = default;
};

/// The buffers that are looked up ahead.
class KnownBuffers {
 public:
  /// Finds them in a handler.
  explicit KnownBuffers(const ir::VerifiedHandler& handler);

  /// The buffers that are looked up at the entry, with the names of the variables that hold them. A
  /// buffer whose handle is an arg changes when the arg is assigned.
  const std::map<EntryHandle, std::string>& at_entry() const { return at_entry_; }
  /// Whether a let or loop counter is the handle of a buffer, which is then looked up behind it.
  bool is_handle(ir::LocalId local) const { return handle_locals_.contains(local); }
  /// The variable of a buffer that has been looked up already; none where the use must look it up.
  std::optional<std::string> find(const ir::BufferRef& buffer) const;

 private:
  std::optional<EntryHandle> entry_handle(const ir::BufferRef& buffer) const;
  void add(const ir::BufferRef& buffer);

  const ir::VerifiedHandler& handler_;
  const ir::Body& body_;
  std::map<EntryHandle, std::string> at_entry_;
  std::set<ir::LocalId> handle_locals_;
};

}  // namespace everkernel::jit
