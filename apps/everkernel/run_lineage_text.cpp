// The lineage of a run: which handlers contributed to how many regions, and to each output.
#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "numbers.hpp"
#include "run_outcome.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

// Rows of the table; --json prints all rules.
constexpr std::size_t kShownRules = 32;

// One bit of a lineage. Without the wide form, opcodes that are equal modulo 32 share a bit, and
// the report names all of them.
struct Rule {
  Word bit = 0;
  std::string names = {};
  std::string opcodes = {};
  std::uint64_t regions = 0;  // that it contributed to
};

// The rules of a report with the number of regions of each.
class Rules {
 public:
  explicit Rules(const RunOutcome& outcome) : outcome_(outcome) {
    const bool is_wide = outcome.report.lineage_words() != 0;
    std::map<Word, Rule> by_bit;
    for (const LineageRule& rule : outcome.report.lineage_rules) {
      const Word bit = is_wide ? rule.wide_bit : rule.bit;
      Rule& row = by_bit[bit];
      const char* const joint = row.names.empty() ? "" : " or ";
      row.bit = bit;
      row.names += joint + rule.name;
      row.opcodes += joint + std::to_string(rule.opcode);
    }
    std::unordered_map<Word, std::size_t> places;
    for (auto& [bit, row] : by_bit) {
      places[bit] = rows_.size();
      rows_.push_back(std::move(row));
    }
    for (const LineageRule& rule : outcome.report.lineage_rules) {
      by_opcode_[rule.opcode] = places[is_wide ? rule.wide_bit : rule.bit];
    }
  }

  std::span<const Rule> rows() const { return rows_; }

  // Counts a region for its rules, and adds the rules to the outputs that its items write.
  void add(const RegionView& region, std::map<Word, std::vector<bool>>& outputs) {
    std::vector<bool> from(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      from[i] = contributed(rows_[i], region);
      if (from[i]) ++rows_[i].regions;
    }
    // Backwards: items that run after an item did not contribute to its output.
    for (std::size_t i = region.items.size(); i-- > 0;) {
      const Word item = region.items[i];
      const Word opcode = outcome_.job.items.op(item);
      const auto output = outputs.find(outcome_.job.items.arg(item, 1));
      if (output != outputs.end()) {
        for (std::size_t rule = 0; rule < from.size(); ++rule) {
          output->second[rule] = output->second[rule] || from[rule];
        }
      }
      if (i > 0 && !runs_before(region.items.first(i), opcode)) {
        from[by_opcode_[opcode]] = false;
      }
    }
  }

 private:
  static bool contributed(const Rule& rule, const RegionView& region) {
    if (region.wide.empty()) return (region.lineage >> rule.bit & 1) != 0;
    return (region.wide[rule.bit / 64] >> (rule.bit % 64) & 1) != 0;
  }
  bool runs_before(std::span<const Word> items, Word opcode) const {
    return std::ranges::any_of(items,
                               [&](Word item) { return outcome_.job.items.op(item) == opcode; });
  }

  const RunOutcome& outcome_;
  std::vector<Rule> rows_ = {};
  std::unordered_map<Word, std::size_t> by_opcode_ = {};  // place in rows_
};

std::string origins_text(const RunOutcome& outcome, std::span<const Rule> rules,
                         const std::map<Word, std::vector<bool>>& outputs) {
  if (outputs.empty()) return {};
  Table table({{"output", Align::right}, {"came from"}}, 1);
  for (const OutputText& output : outcome.job.outputs) {
    std::string names;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (outputs.at(output.handle)[i]) names += (names.empty() ? "" : ", ") + rules[i].names;
    }
    table.add({std::to_string(output.handle), names.empty() ? "nothing" : names});
  }
  return table.text(2);
}

}  // namespace

std::string lineage_text(const RunOutcome& outcome) {
  const RunReport& report = outcome.report;
  if (!outcome.lineage || report.lineage_rules.empty()) return {};
  Rules rules(outcome);
  std::map<Word, std::vector<bool>> outputs;
  for (const OutputText& output : outcome.job.outputs) {
    outputs[output.handle].resize(rules.rows().size());
  }
  for (std::size_t i = 0; i < report.region_count(); ++i) rules.add(report.region(i), outputs);
  Table table({{"rule"},
               {"opcode", Align::right},
               {"bit", Align::right},
               {"regions", Align::right},
               {"share", Align::right}});
  const auto shown = rules.rows().first(std::min(rules.rows().size(), kShownRules));
  for (const Rule& rule : shown) {
    table.add({rule.names, rule.opcodes, std::to_string(rule.bit), grouped(rule.regions),
               percent(rule.regions, report.region_count())});
  }
  return "\nlineage\n" + table.text(2) + more_line(rules.rows().size() - shown.size()) +
         origins_text(outcome, rules.rows(), outputs);
}

}  // namespace everkernel::cli
