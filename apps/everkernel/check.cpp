// `everkernel check`: verifies the handlers of a file and shows the result.
//
// Nothing runs here. --print and --emit show the text and the code that the runtime would use.
#include <fmt/format.h>

#include <string>

#include "commands.hpp"
#include "delivery.hpp"
#include "everkernel/backend/cuda/translation_unit.hpp"
#include "everkernel/base/json_writer.hpp"
#include "everkernel/ir/printer.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/jit/native.hpp"
#include "files.hpp"
#include "handler_file.hpp"
#include "table.hpp"

namespace everkernel::cli {
namespace {

struct CheckOptions {
  std::string path = {};
  std::optional<std::uint64_t> handlers_limit = {};
  bool print = false;
  std::optional<std::string> emit = {};
  bool json = false;
};

// A verified file, and the texts that the options ask for.
struct Checked {
  ir::VerifiedProgram program;
  std::string printed = {};
  std::string code = {};
};

// The generated code: `kind` is llvm or cuda.
Result<std::string> emit(const ir::VerifiedProgram& program, std::string_view kind) {
  if (kind == "cuda") return backend::cuda::emit_translation_unit(program);
  return jit::emit_llvm(program, {});
}

Result<Checked> show(const CheckOptions& options, HandlerFile file) {
  std::string printed = options.print ? ir::print(file.program) : "";
  const ir::VerifiedProgram verified = EVERKERNEL_TRY(verified_program(std::move(file)));
  Checked checked{.program = verified, .printed = std::move(printed)};
  if (options.emit) checked.code = EVERKERNEL_TRY(emit(checked.program, *options.emit));
  return checked;
}

std::size_t instruction_count(const ir::VerifiedHandler& handler) {
  return handler.handler.body.exprs.size() + handler.handler.body.stmts.size();
}

// The effects of a handler, in words.
std::string touches(const ir::Effects& effects) {
  std::string text;
  const auto add = [&text](bool is_there, std::string_view word) {
    if (is_there) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  };
  add(effects.reads_input, "reads input");
  add(effects.writes_input, "writes input");
  add(effects.reads_output, "reads output");
  add(effects.writes_output, "writes output");
  add(effects.uses_handles, "other buffers");
  add(effects.reads_control, "reads control");
  add(effects.writes_control, "writes control");
  add(effects.writes_args, "writes args");
  add(effects.can_yield, "comes back");
  add(effects.can_await, "awaits IO");
  add(effects.prints, "prints");
  add(effects.emits, "emits");
  return text;
}

std::string json_text(const CheckOptions& options, const Checked& checked) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("path", options.path).key("handlers").begin_array();
  for (const ir::VerifiedHandler& verified : checked.program.handlers()) {
    const ir::Handler& handler = verified.handler;
    json.begin_object().field("name", handler.name).field("opcode", handler.opcode);
    json.field("payload", handler.is_payload).field("scope", ir::scope_name(handler.scope));
    json.field("pure", handler.is_pure).field("commutes", handler.commutes);
    json.field("instructions", instruction_count(verified));
    json.field("locals", verified.locals.size()).field("effects", touches(verified.effects));
    json.end_object();
  }
  json.end_array();
  json.key("errors").begin_array().end_array();
  if (options.print) json.field("text", checked.printed);
  if (options.emit) json.field(*options.emit, checked.code);
  json.end_object();
  return out + "\n";
}

std::string table_text(const CheckOptions& options, const Checked& checked) {
  Table table({{"handler", Align::left},
               {"opcode", Align::right},
               {"scope", Align::left},
               {"declared", Align::left},
               {"instructions", Align::right},
               {"touches", Align::left}},
              5);
  for (const ir::VerifiedHandler& verified : checked.program.handlers()) {
    const ir::Handler& handler = verified.handler;
    const std::string declared = fmt::format("{}{}{}", handler.is_pure ? "pure" : "",
                                             handler.is_pure && handler.commutes ? ", " : "",
                                             handler.commutes ? "commutes" : "");
    table.add({handler.name, handler.is_payload ? "any" : fmt::format("{}", handler.opcode),
               std::string(ir::scope_name(handler.scope)), declared,
               fmt::format("{}", instruction_count(verified)), touches(verified.effects)});
  }
  return fmt::format("{}: {} verified\n{}", options.path,
                     counted(checked.program.handlers().size(), "handler"), table.text(2));
}

// The mistakes of a file for editors: those that are kept.
std::string errors_json_text(const HandlerFile& file) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("path", file.path).key("errors").begin_array();
  for (const ir::Diagnostic& mistake : file.mistakes.kept()) {
    json.begin_object().field("line", mistake.location.line);
    json.field("column", mistake.location.column).field("rule", ir::rule_name(mistake.rule));
    json.field("message", mistake.message).field("hint", mistake.hint).end_object();
  }
  json.end_array().end_object();
  return out + "\n";
}

Result<Ending> check(const CheckOptions& options) {
  HandlerFile file = EVERKERNEL_TRY(
      check_handlers(options.path, options.handlers_limit.value_or(kDefaultHandlersLimit)));
  if (options.json && !file.verified) {
    if (deliver_text(errors_json_text(file)) != Ending::done) return Ending::undelivered;
    return fail(Code::invalid_argument,
                fmt::format("{}: {}", file.path, counted(file.mistakes.count(), "mistake")),
                "the object on standard output lists them");
  }
  const Checked checked = EVERKERNEL_TRY(show(options, std::move(file)));
  if (options.json) return deliver_text(json_text(options, checked));
  if (options.print || options.emit) return deliver_text(checked.printed + checked.code);
  return deliver_text(table_text(options, checked));
}

}  // namespace

Command check_command() {
  Command command("check", "Verify a file of handlers; show it or the code made from it");
  CheckOptions& options = command.set_action(check);
  command.add_path("FILE", options.path, "Handlers in the handler language (docs/handlers.md)");
  command.add_flag("--print", options.print, "Print the handlers as the parser understood them");
  command.add_choice("--emit", options.emit, {"llvm", "cuda"},
                     "Print the code generated for the CPU, or for the GPU as a file\n"
                     "that nvcc compiles alone");
  command.add_bytes("--handlers-limit", options.handlers_limit,
                    "Longest file of handlers, 64MiB by default");
  command.add_memory_limit();
  command.add_json(options.json);
  command.set_footer(
      "Examples:\n"
      "  everkernel check ops.ek\n"
      "  everkernel check ops.ek --print\n"
      "  everkernel check ops.ek --emit cuda > ops.cu && nvcc -ptx ops.cu\n"
      "Each mistake is shown as FILE:LINE:COLUMN with its line and a hint; the exit status is 2.\n"
      "With --json, `errors` lists them, for editors.");
  return command;
}

}  // namespace everkernel::cli
