// The CUDA text of a program: the handlers, and the tables by which workers find and run them.
#include "everkernel/jit/cuda_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "everkernel/abi/fault.hpp"
#include "jit/cuda_handler.hpp"

namespace everkernel::jit {
namespace {

using namespace ir;
using abi::FaultCode;
using abi::Word;

/// A row of the generated tables.
struct Entry {
  std::size_t index;  // in the program; trusted handlers follow it
  Word opcode;
  Scope scope;
  bool is_payload;
  Word traits;
};

Word traits_of(Scope scope, bool commutes, const Effects& effects, bool is_long) {
  // The bits of device/handler.cuh, kTraitWarp and so on.
  const bool bits[] = {scope == Scope::warp,
                       scope == Scope::group,
                       effects.can_yield || effects.can_await,
                       effects.writes_args,
                       commutes,
                       effects.reads_input,
                       effects.writes_input,
                       effects.reads_output,
                       effects.writes_output,
                       is_long,
                       effects.writes_control};
  Word traits = 0;
  for (std::size_t i = 0; i < std::size(bits); ++i) traits |= Word{bits[i]} << i;
  return traits;
}

Entry entry_of(std::size_t index, const VerifiedHandler& verified) {
  const Handler& handler = verified.handler;
  return {.index = index,
          .opcode = handler.opcode,
          .scope = handler.scope,
          .is_payload = handler.is_payload,
          .traits = traits_of(handler.scope, handler.commutes, verified.effects,
                              has_loops(handler.body))};
}

Entry entry_of(std::size_t index, const ir::TrustedHandler& handler) {
  return {.index = index,
          .opcode = handler.opcode,
          .scope = handler.scope,
          .is_payload = false,
          .traits = traits_of(handler.scope, handler.commutes, handler.effects, !handler.is_short)};
}

// A function that switches over the index or the opcode of a handler.
template <class Case>
std::string switch_text(std::string_view head, std::string_view subject,
                        const std::vector<Entry>& entries, std::string_view otherwise,
                        const Case& case_text) {
  std::string text = fmt::format("{} {{\n  switch ({}) {{\n", head, subject);
  for (const Entry& entry : entries) text += case_text(entry);
  return text + fmt::format("    default:\n      return {};\n  }}\n}}\n", otherwise);
}

std::string run_text(std::string_view name, std::string_view lanes,
                     const std::vector<Entry>& entries) {
  return switch_text(
      fmt::format("EK_DEVICE Word {}(Word handler, Item& item)", name), "handler", entries,
      fmt::format("fault_outcome({}u)", static_cast<Word>(FaultCode::unknown_opcode)),
      [&](const Entry& entry) {
        return fmt::format("    case {0}u:\n      return handler_{0}({1}{{}}, item);\n",
                           entry.index, lanes);
      });
}

std::vector<Entry> chosen(const std::vector<Entry>& entries,
                          bool (*is_chosen)(const Entry& entry)) {
  std::vector<Entry> some;
  std::ranges::copy_if(entries, std::back_inserter(some), is_chosen);
  return some;
}

// Short handlers run on one lane, end soon by construction and end their item: a session on a GPU
// has them twice, in the shortest way and in the general one. Code that is seldom used would push
// the rest out of the instruction cache, so that a program with many has only the first ones twice.
constexpr std::size_t kMostShortHandlers = 16;

std::vector<Entry> short_ones(const std::vector<Entry>& entries) {
  constexpr Word kWarp = 1, kGroup = 2, kCanLeave = 4, kLoops = 1 << 9;  // device/handler.cuh
  auto some = chosen(entries, [](const Entry& e) {
    return !e.is_payload && (e.traits & (kWarp | kGroup | kCanLeave | kLoops)) == 0;
  });
  if (some.size() > kMostShortHandlers) some.resize(kMostShortHandlers);
  return some;
}

std::string tables_text(const std::vector<Entry>& entries) {
  const auto lane = chosen(entries, [](const Entry& e) { return e.scope == Scope::lane; });
  const auto warp = chosen(entries, [](const Entry& e) { return e.scope == Scope::warp; });
  const auto group = chosen(entries, [](const Entry& e) { return e.scope == Scope::group; });
  const auto shorts = short_ones(entries);
  const auto by_opcode = chosen(entries, [](const Entry& e) { return !e.is_payload; });
  const auto payload = chosen(entries, [](const Entry& e) { return e.is_payload; });
  Word any_trait = 0;
  for (const Entry& entry : entries) any_trait |= entry.traits;
  std::string text = fmt::format(
      "inline constexpr Word kPayload = {};\n"
      "inline constexpr Word kAnyTrait = {:#x}u;\n"
      "inline constexpr bool kHasLaneHandlers = {};\n"
      "inline constexpr bool kHasWarpHandlers = {};\n"
      "inline constexpr bool kHasGroupHandlers = {};\n"
      "inline constexpr bool kHasShortHandlers = {};\n",
      payload.empty() ? "kNoHandler" : fmt::format("{}u", payload[0].index), any_trait,
      !lane.empty(), !warp.empty(), !group.empty(), !shorts.empty());
  const auto case_of_opcode = [](const Entry& entry) {
    return fmt::format("    case {}u:\n      return {}u;\n", entry.opcode, entry.index);
  };
  text += switch_text("EK_DEVICE Word find_handler(Word opcode)", "opcode", by_opcode, "kNoHandler",
                      case_of_opcode);
  text += switch_text("EK_DEVICE Word find_short_handler(Word opcode)", "opcode", shorts,
                      "kNoHandler", case_of_opcode);
  text += switch_text(
      "EK_DEVICE Word traits_of(Word handler)", "handler", entries, "0u", [](const Entry& entry) {
        return fmt::format("    case {}u:\n      return {:#x}u;\n", entry.index, entry.traits);
      });
  text += run_text("run_lane_handler", "OneLane", lane);
  text += run_text("run_short_handler", "OneLane", shorts);
  text += run_text("run_warp_handler", "WarpLanes", warp);
  return text + run_text("run_group_handler", "GroupLanes", group);
}

// Adds a trusted handler: its text in a namespace of its own, and the function that runs it. #line
// makes the compiler's messages name the handler and count lines from the first of its text.
void add_trusted(std::string& text, std::size_t index, const ir::TrustedHandler& handler) {
  const Effects& effects = handler.effects;
  text += fmt::format("namespace trusted_{} {{\n#line 1 \"trusted handler {}\"\n{}\n", index,
                      handler.name, handler.cuda);
  const auto lines = std::ranges::count(text, '\n');
  text += fmt::format("#line {} \"everkernel/handlers.cuh\"\n}}\n", lines + 2);
  text += fmt::format(
      "template <class Lanes>\n"
      "EK_DEVICE Word handler_{0}(const Lanes& lanes, Item& item) {{\n"
      "  const KeptArgs before(item);\n"
      "  TrustedItem<Lanes> view(lanes, item);\n"
      "  const Word ended = trusted_{0}::{4}(view);\n"
      "  return end_trusted(view, lanes, item, before, ended, {{{1}, {2}, {3}}});\n"
      "}}\n\n",
      index, effects.can_yield, effects.can_await, effects.writes_args, handler.name);
}

// Generated text has unused values and comparisons that are always true: these warnings are off.
constexpr std::string_view kWithoutWarnings =
    "#if defined(__CUDACC__)\n"
    "#pragma nv_diagnostic push\n"
    "#pragma nv_diag_suppress 111, 128, 177, 186\n"
    "#endif\n\n";
constexpr std::string_view kWithWarnings =
    "#if defined(__CUDACC__)\n"
    "#pragma nv_diagnostic pop\n"
    "#endif\n\n";

}  // namespace

std::string emit_cuda(const VerifiedProgram& program, const CudaOptions& options) {
  const bool has_trusted = !options.trusted_handlers.empty();
  std::string text = fmt::format("// Generated from {}handlers.\n#pragma once\n\n",
                                 has_trusted ? "verified and trusted " : "verified ");
  if (has_trusted) text += "#include \"jit/device/trusted.cuh\"\n\n";
  text += "namespace everkernel::device {\n\n";
  text += kWithoutWarnings;
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    const VerifiedHandler& verified = program.handlers()[i];
    if (verified.handler.is_payload && !options.payload) continue;
    entries.push_back(entry_of(i, verified));
    text += CudaHandlerCodegen(verified, i, options.memory).run() + '\n';
  }
  text += kWithWarnings;
  for (std::size_t i = 0; i < options.trusted_handlers.size(); ++i) {
    entries.push_back(entry_of(program.handlers().size() + i, options.trusted_handlers[i]));
    add_trusted(text, entries.back().index, options.trusted_handlers[i]);
  }
  text += tables_text(entries);
  return text + "\n}  // namespace everkernel::device\n";
}

}  // namespace everkernel::jit
