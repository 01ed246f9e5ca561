// Lays tables out: each column as wide as its widest cell, the flexible one as wide as is left.
#include "table.hpp"

#include <algorithm>
#include <utility>

#include "everkernel/base/assert.hpp"

namespace everkernel::cli {
namespace {

constexpr std::size_t kGap = 2;
// Narrower than this, a column is not worth keeping the line width for.
constexpr std::size_t kLeastFlexible = 16;

// Takes the first line of at most `width` characters off the text: behind a space if there is one,
// else behind a comma, else anywhere.
std::string take_line(std::string& text, std::size_t width) {
  if (text.size() <= width) return std::exchange(text, {});
  std::size_t end = text.rfind(' ', width);
  if (end == std::string::npos) end = text.rfind(',', width - 1) + 1;  // 0 when there is none
  if (end == 0) end = width;
  std::string line = text.substr(0, end);
  text.erase(0, std::min(text.size(), text.find_first_not_of(' ', end)));
  return line;
}

}  // namespace

Table::Table(std::vector<Column> columns, std::optional<std::size_t> flexible)
    : columns_(std::move(columns)), flexible_(flexible) {}

Table Table::plain(std::initializer_list<Align> columns) {
  std::vector<Column> untitled;
  for (const Align align : columns) untitled.push_back({.title = {}, .align = align});
  return Table(std::move(untitled));
}

void Table::add(std::vector<std::string> cells) {
  EVERKERNEL_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  std::size_t line = indent;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const auto& row : rows_) widths[i] = std::max(widths[i], row[i].size());
    if (widths[i] == 0) continue;
    widths[i] = std::max(widths[i], columns_[i].title.size());
    line += widths[i] + (line == indent ? 0 : kGap);
  }
  if (flexible_ && line > kLineWidth) {
    const std::size_t excess = std::min(line - kLineWidth, widths[*flexible_]);
    widths[*flexible_] = std::max(widths[*flexible_] - excess, kLeastFlexible);
  }
  return widths;
}

void Table::append_line(std::string& out, const std::vector<std::size_t>& widths,
                        std::size_t indent, const std::vector<std::string>& cells) const {
  std::string line(indent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    const std::string& cell = cells[i];
    const std::string padding(widths[i] - cell.size(), ' ');
    if (line.size() > indent) line.append(kGap, ' ');
    line += columns_[i].align == Align::right ? padding + cell : cell + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

std::string Table::text(std::size_t indent) const {
  const std::vector<std::size_t> column_widths = widths(indent);
  std::string out;
  const bool has_titles =
      std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); });
  if (has_titles) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title);
    append_line(out, column_widths, indent, titles);
  }
  for (const auto& row : rows_) {
    if (!flexible_) {
      append_line(out, column_widths, indent, row);
      continue;
    }
    std::vector<std::string> line = row;
    std::string rest = row[*flexible_];
    do {
      line[*flexible_] = take_line(rest, column_widths[*flexible_]);
      append_line(out, column_widths, indent, line);
      line.assign(line.size(), {});
    } while (!rest.empty());
  }
  return out;
}

std::string bar(std::uint64_t part, std::uint64_t whole, std::size_t width) {
  if (part == 0 || whole == 0) return {};
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  const auto length = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  return std::string(std::clamp<std::size_t>(length, 1, width), '#');
}

}  // namespace everkernel::cli
