// Compiled code kept on disk, so that the next process need not compile it again.
//
// The cache stores bytes under keys and does not interpret them. Every failure of it counts as a
// miss: the caller then compiles as it would without a cache.
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

/// One input that compiled code depends on.
struct CodeKeyPart {
  std::string_view label = {};  ///< name of the input
  std::string_view value = {};  ///< its bytes
};

/// Identifies code by the inputs it was made from: equal keys, equal inputs. The digest is a
/// cryptographic one, because tenants choose the text of handlers: with a faster hash they could
/// make two programs that share a key, and each would run the other's code.
struct CodeKey {
  std::array<std::byte, 32> bytes = {};  ///< SHA-256

  /// The key in hexadecimal.
  std::string text() const;
  /// Equal bytes.
  friend constexpr bool operator==(const CodeKey&, const CodeKey&) = default;
};

/// The key of code that depends on these parts, in this order, and on the format of the cache.
/// Labels and values are hashed with their lengths, so that different lists give different input.
CodeKey make_code_key(std::span<const CodeKeyPart> parts);

/// Where compiled code is kept, and how much of it.
struct CodeCacheOptions {
  /// The folder, which is created if needed. Empty means the default: $EVERKERNEL_CACHE_DIR, else
  /// $XDG_CACHE_HOME/everkernel, else $HOME/.cache/everkernel. If EVERKERNEL_CACHE_DIR is set and
  /// empty, or `off`, caching is off.
  std::filesystem::path directory = {};
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< of all entries together
  std::uint64_t max_entries = 1024;  ///< bounded because storing reads the list of all entries
};

/// Counts since this object opened the cache.
struct CodeCacheCounters {
  std::uint64_t hits = 0;    ///< requests answered with an intact entry
  std::uint64_t misses = 0;  ///< requests without such an entry
  std::uint64_t rejected =
      0;  ///< entries removed because they were damaged or not owned by this user
  std::uint64_t stored = 0;      ///< entries written
  std::uint64_t not_stored = 0;  ///< entries that could not be written; last_problem() says why
  std::uint64_t evicted = 0;     ///< entries removed to stay within the limits
};

/// A folder of entries, one file each. Thread-safe, and safe to share between processes: an entry
/// appears whole or not at all. Folder and files are used only if this user owns them and no other
/// user can write to them.
class CodeCache {
 public:
  /// Opens the cache, and removes temporary files older than an hour, which interrupted writers
  /// left. Fails with `io` if the folder cannot be created or opened, and with `unsupported` if
  /// other users can write to it, or if there is no default folder.
  static Result<CodeCache> open(const CodeCacheOptions& options);

  CodeCache(CodeCache&&) noexcept;             ///< takes over
  CodeCache& operator=(CodeCache&&) noexcept;  ///< drops its own, takes over
  ~CodeCache();                                ///< closes the folder; entries stay

  /// Whether caching is on. If it is off, nothing is counted either.
  bool is_enabled() const;
  /// The folder; empty if caching is off.
  std::filesystem::path directory() const;
  /// The bytes stored under a key. A damaged entry, or one of another user, is removed and counts
  /// as a miss.
  std::optional<std::vector<std::byte>> get(const CodeKey& key);
  /// Stores bytes under a key and replaces an entry of the same key. Then removes the least
  /// recently used entries until the rest is within the limits. If it fails, it counts as
  /// `not_stored`, and last_problem() says why.
  void put(const CodeKey& key, std::span<const std::byte> bytes);
  /// Removes an entry whose bytes the caller could not use; counts as rejected.
  void reject(const CodeKey& key, std::string_view reason);

  /// The counts so far.
  CodeCacheCounters counters() const;
  /// The last failure of the cache; empty if there was none.
  std::string last_problem() const;

 private:
  class Folder;
  explicit CodeCache(std::unique_ptr<Folder> folder);
  std::unique_ptr<Folder> folder_;  // null: caching is off
};

}  // namespace everkernel::jit
