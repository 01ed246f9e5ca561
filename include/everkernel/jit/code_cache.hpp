// Compiled code kept on disk, so that the next process need not compile it again.
//
// The cache knows keys and bytes and nothing of what the bytes are. It is a convenience that must
// never do harm: whatever is wrong with it is a miss, and the caller compiles as if there were
// none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "everkernel/base/result.hpp"

namespace everkernel::jit {

/// Something that compiled code depends on.
struct CodeKeyPart {
  std::string_view label = {};  ///< what it is
  std::string_view value = {};  ///< its bytes
};

/// Names code by what it was made from.
struct CodeKey {
  std::array<std::byte, 16> bytes = {};  ///< XXH3, 128 bits, as canonical bytes

  /// The key in hexadecimal.
  std::string text() const;
  /// Equal bytes.
  friend constexpr bool operator==(const CodeKey&, const CodeKey&) = default;
};

/// The key of code that depends on these parts, in this order, and on the format of the cache.
/// Labels and values are hashed with their lengths: no two lists run into each other.
CodeKey make_code_key(std::span<const CodeKeyPart> parts);

/// Where code is kept, and how much of it.
struct CodeCacheOptions {
  /// The folder; it is made if it is not there. Empty is the default place: $EVERKERNEL_CACHE_DIR,
  /// else $XDG_CACHE_HOME/everkernel, else $HOME/.cache/everkernel. EVERKERNEL_CACHE_DIR set to
  /// nothing or to `off` is a cache that keeps nothing.
  std::filesystem::path directory = {};
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< of all entries together
  std::uint64_t max_entries = 1024;                    ///< storing looks at every entry
};

/// What became of requests, since the cache was opened here.
struct CodeCacheCounters {
  std::uint64_t hits = 0;      ///< entries that were found and whole
  std::uint64_t misses = 0;    ///< requests without one
  std::uint64_t rejected = 0;  ///< entries that were there and removed: damaged, or not our own
  std::uint64_t stored = 0;    ///< entries written
  std::uint64_t evicted = 0;   ///< entries removed to keep within the bounds
};

/// A folder of entries, one file each. Thread-safe, and safe to share between processes: entries
/// appear whole or not at all. Only files and a folder that belong to this user, and that nobody
/// else can write, are used.
class CodeCache {
 public:
  /// Opens the cache, and removes what writers that died left more than an hour ago. Fails with
  /// `io` when the folder cannot be made or opened, and with `unsupported` when it is not ours
  /// alone, or when no default place is known.
  static Result<CodeCache> open(const CodeCacheOptions& options);

  CodeCache(CodeCache&&) noexcept;             ///< takes over
  CodeCache& operator=(CodeCache&&) noexcept;  ///< drops its own, takes over
  ~CodeCache();                                ///< closes the folder; entries stay

  /// Whether it keeps anything. One that does not counts nothing either.
  bool is_enabled() const;
  /// The folder; empty if it keeps nothing.
  std::filesystem::path directory() const;
  /// The bytes stored under a key. An entry that is damaged or not our own is removed and a miss.
  std::optional<std::vector<std::byte>> get(const CodeKey& key);
  /// Stores bytes under a key, in place of what was there; then the entries used longest ago go
  /// until the rest fits. Where it cannot, it does nothing, and last_problem() says why.
  void put(const CodeKey& key, std::span<const std::byte> bytes);
  /// Removes an entry whose bytes turned out to be no good; counts as rejected.
  void reject(const CodeKey& key, std::string_view reason);

  /// What became of requests.
  CodeCacheCounters counters() const;
  /// Why the cache last did less than it was asked to; empty if it never did.
  std::string last_problem() const;

 private:
  class Folder;
  explicit CodeCache(std::unique_ptr<Folder> folder);
  std::unique_ptr<Folder> folder_;  // null: keeps nothing
};

}  // namespace everkernel::jit
