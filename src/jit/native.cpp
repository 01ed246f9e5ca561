// LLVM IR to code in memory: optimise, compile, and map the pages executable and read only.
#include "everkernel/jit/native.hpp"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <algorithm>
#include <mutex>

#include "jit/llvm_codegen.hpp"

namespace everkernel::jit {
namespace {

using ir::ItemFrame;
using ir::Word;

// What generated code calls. None of it is on a hot path.

Word access_code(const memory::BufferEntry* entry, Word tenant, Word needed) {
  if (entry->handle == 0) return static_cast<Word>(abi::FaultCode::bad_buffer_handle);
  const bool is_owner = entry->owner == memory::kEveryTenant || entry->owner == tenant;
  if (!is_owner || (entry->access & needed) != needed) {
    return static_cast<Word>(abi::FaultCode::permission_denied);
  }
  return static_cast<Word>(abi::FaultCode::index_out_of_range);
}

void print(ItemFrame* frame, Word fmt_id, Word a, Word b) {
  const ir::ItemHooks* hooks = frame->hooks;
  if (hooks != nullptr && hooks->print != nullptr) hooks->print(hooks->self, fmt_id, a, b);
}

void emit(ItemFrame* frame, Word a, Word b, Word c) {
  const ir::ItemHooks* hooks = frame->hooks;
  if (hooks != nullptr && hooks->emit != nullptr) hooks->emit(hooks->self, a, b, c);
}

Failure llvm_failure(std::string_view step, llvm::Error error) {
  return fail(Code::unsupported,
              fmt::format("native code: {}: {}", step, llvm::toString(std::move(error))),
              "run the handlers with the interpreter");
}

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

// Some of LLVM's passes take time that grows with the square of a function's size or loops: a
// handler well inside the language's limits could cost them a quarter of a minute. Above either of
// these, programs get the passes that grow with their size alone.
constexpr std::size_t kLargeHandler = 800;  // instructions
constexpr std::ptrdiff_t kManyLoops = 24;

bool is_large(const ir::VerifiedHandler& verified) {
  const ir::Body& body = verified.handler.body;
  const auto loops = std::ranges::count_if(body.stmts, [](const ir::Stmt& stmt) {
    return stmt.kind == ir::StmtKind::for_loop || stmt.kind == ir::StmtKind::each_loop ||
           stmt.kind == ir::StmtKind::while_loop;
  });
  return body.exprs.size() + body.stmts.size() > kLargeHandler || loops > kManyLoops;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool is_light) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  if (!is_light) {
    passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
    return;
  }
  llvm::FunctionPassManager light;
  light.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));  // variables into registers
  light.addPass(llvm::EarlyCSEPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(light)));
  pipeline.run(module, modules);
}

llvm::Error define_helpers(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap symbols;
  const auto add = [&](const char* name, auto* function) {
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                          llvm::JITSymbolFlags::Exported};
  };
  add("everkernel_access_code", &access_code);
  add("everkernel_print", &print);
  add("everkernel_emit", &emit);
  auto& dylib = jit.getMainJITDylib();
  if (auto error = dylib.define(llvm::orc::absoluteSymbols(std::move(symbols)))) return error;
  // On machines without the instruction, floor and fma are calls into the C library.
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      jit.getDataLayout().getGlobalPrefix());
  if (!process) return process.takeError();
  dylib.addGenerator(std::move(*process));
  return llvm::Error::success();
}

}  // namespace

struct NativeProgram::Code {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

bool has_native_code() {
  return true;
}

NativeProgram::NativeProgram(std::unique_ptr<Code> code, std::vector<Entry> entries)
    : code_(std::move(code)), entries_(std::move(entries)) {}
NativeProgram::NativeProgram(NativeProgram&&) noexcept = default;
NativeProgram& NativeProgram::operator=(NativeProgram&&) noexcept = default;
NativeProgram::~NativeProgram() = default;

Result<NativeProgram> NativeProgram::compile(const ir::VerifiedProgram& program,
                                             const NativeOptions& options) {
  initialise_llvm();
  auto host = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!host) return llvm_failure("this machine", host.takeError());
  host->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const bool is_light = std::ranges::any_of(program.handlers(), is_large);
  host->setCodeGenOptLevel(is_light ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default);
  auto machine = host->createTargetMachine();
  if (!machine) return llvm_failure("this machine", machine.takeError());

  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = generate(program, options, *context);
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple().str());
  optimise(*module, **machine, is_light);

  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(*host)).create();
  if (!jit) return llvm_failure("starting the compiler", jit.takeError());
  if (auto error = define_helpers(**jit)) return llvm_failure("helpers", std::move(error));
  llvm::orc::ThreadSafeModule safe(std::move(module), std::move(context));
  if (auto error = (*jit)->addIRModule(std::move(safe))) {
    return llvm_failure("compiling", std::move(error));
  }
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < program.handlers().size(); ++i) {
    auto address = (*jit)->lookup(entry_symbol(i));
    if (!address) return llvm_failure("compiling", address.takeError());
    entries.push_back(address->toPtr<Entry>());
  }
  return NativeProgram(std::make_unique<Code>(Code{std::move(*jit)}), std::move(entries));
}

Result<std::string> emit_llvm(const ir::VerifiedProgram& program, const NativeOptions& options) {
  llvm::LLVMContext context;
  const auto module = generate(program, options, context);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

}  // namespace everkernel::jit
