// Aligned text tables and bars, at most 100 columns wide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace everkernel::cli {

/// Columns of a line of text.
inline constexpr std::size_t kLineWidth = 100;

/// Which side of a column its cells stand on.
enum class Align { left, right };

/// A column of a table.
struct Column {
  std::string_view title;     ///< as its heading says
  Align align = Align::left;  ///< numbers stand right
};

/// Rows of ASCII text under headings. A column without any content is left out.
class Table {
 public:
  /// `flexible` is the column that is broken into lines when a row would be too long.
  explicit Table(std::vector<Column> columns, std::optional<std::size_t> flexible = {});

  /// A table without headings.
  static Table plain(std::initializer_list<Align> columns);

  /// Adds a row; it has a cell for each column.
  void add(std::vector<std::string> cells);
  /// The table, each line behind `indent` spaces.
  std::string text(std::size_t indent) const;

 private:
  std::vector<std::size_t> widths(std::size_t indent) const;
  void append_line(std::string& out, const std::vector<std::size_t>& widths, std::size_t indent,
                   const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::optional<std::size_t> flexible_;
  std::vector<std::vector<std::string>> rows_;
};

/// A bar of at most `width` characters for part of whole; any part at all shows.
std::string bar(std::uint64_t part, std::uint64_t whole, std::size_t width);

}  // namespace everkernel::cli
