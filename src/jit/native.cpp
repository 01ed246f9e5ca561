// LLVM IR to code in memory: optimise, compile to an object file, and map its pages executable and
// read only. A cache keeps the object file.
#include "everkernel/jit/native.hpp"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectFileInterface.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <algorithm>
#include <mutex>

#include "everkernel/base/version.hpp"
#include "everkernel/ir/printer.hpp"
#include "jit/fingerprint.hpp"
#include "jit/llvm_module.hpp"

namespace everkernel::jit {
namespace {

using ir::ItemFrame;
using ir::Word;

// Functions that generated code calls. None of them is on a hot path.

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

// The time of some LLVM passes grows with the square of a function's size or number of loops: a
// handler within the limits of the language could take 15 seconds. A handler above either of these
// limits gets only passes whose time grows linearly. Then no handler took more than 0.35 seconds,
// of which code generation, which cannot be interrupted, took half.
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

bool is_cancelled(const NativeOptions& options) {
  return options.is_cancelled != nullptr && options.is_cancelled->load(std::memory_order_relaxed);
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool is_light,
              const NativeOptions& options) {
  // Once compiling is cancelled, every pass that may be left out is.
  llvm::PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(
      [&options](llvm::StringRef, const llvm::Any&) { return !is_cancelled(options); });
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine, llvm::PipelineTuningOptions(), std::nullopt, &callbacks);
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

using Target = llvm::orc::JITTargetMachineBuilder;

// The target of this machine. It sets the relocation and code model that LLJIT's linker needs,
// because the object file is made outside of LLJIT.
Result<Target> find_target() {
  initialise_llvm();
  auto host = Target::detectHost();
  if (!host) return llvm_failure("this machine", host.takeError());
  host->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  host->setRelocationModel(llvm::Reloc::PIC_);
  host->setCodeModel(llvm::CodeModel::Small);
  return std::move(*host);
}

// The key of everything that the object file depends on. Fuel and lanes are no part of it: code
// reads them from the frame.
CodeKey key_of(const ir::VerifiedHandler& verified, const NativeOptions& options,
               const Target& target) {
  const std::string text = ir::print({.handlers = {verified.handler}});
  // LLVM lists the features in the order of a hash table.
  std::vector<std::string> features = target.getFeatures().getFeatures();
  std::ranges::sort(features);
  const std::string memory = fmt::format("{}", static_cast<int>(options.memory));
  const std::string feature_list = fmt::format("{}", fmt::join(features, ","));
  const CodeKeyPart parts[] = {
      {"kind", "native object"},    {"handler", text},
      {"memory", memory},           {"triple", target.getTargetTriple().str()},
      {"cpu", target.getCPU()},     {"features", feature_list},
      {"everkernel", version()},    {"sources", kSourceFingerprint},
      {"llvm", LLVM_VERSION_STRING}};
  return make_code_key(parts);
}

Failure cancelled() {
  return fail(Code::timeout, "native code: compiling was cancelled");
}

Result<std::unique_ptr<llvm::MemoryBuffer>> compile_object(const ir::VerifiedHandler& handler,
                                                           const std::string& symbol,
                                                           const NativeOptions& options,
                                                           Target target) {
  const bool is_light = is_large(handler);
  target.setCodeGenOptLevel(is_light ? llvm::CodeGenOptLevel::None
                                     : llvm::CodeGenOptLevel::Default);
  auto machine = target.createTargetMachine();
  if (!machine) return llvm_failure("this machine", machine.takeError());
  llvm::LLVMContext context;
  const auto module = make_module(handler, symbol, options, context);
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple().str());
  optimise(*module, **machine, is_light, options);
  if (is_cancelled(options)) return cancelled();
  auto object = llvm::orc::SimpleCompiler(**machine)(*module);
  if (!object) return llvm_failure("compiling", object.takeError());
  return std::move(*object);
}

/// Mapped code.
struct LoadedCode {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  NativeHandler::Entry entry = nullptr;
};

// Checks that the object file itself has the handler: a lookup by name could find the symbol
// elsewhere in the process.
llvm::Error check_symbol(llvm::orc::LLJIT& jit, const llvm::MemoryBuffer& object,
                         const std::string& symbol) {
  auto symbols =
      llvm::orc::getObjectFileInterface(jit.getExecutionSession(), object.getMemBufferRef());
  if (!symbols) return symbols.takeError();
  if (symbols->SymbolFlags.contains(jit.mangleAndIntern(symbol))) return llvm::Error::success();
  return llvm::createStringError("the object file lacks " + symbol);
}

// Links an object file's code into memory.
Result<LoadedCode> load_object(const Target& target, std::unique_ptr<llvm::MemoryBuffer> object,
                               const std::string& symbol) {
  // Handlers have no static initialisers, so that LLVM's support for them is not needed.
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(target)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .create();
  if (!jit) return llvm_failure("starting the linker", jit.takeError());
  // The error of lookup() lacks the details that the session reports. Both go into the message, and
  // neither to stderr.
  const auto reported = std::make_shared<std::string>();
  (*jit)->getExecutionSession().setErrorReporter([reported](llvm::Error error) {
    *reported += fmt::format(" ({})", llvm::toString(std::move(error)));
  });
  if (auto error = define_helpers(**jit)) return llvm_failure("helpers", std::move(error));
  if (auto error = check_symbol(**jit, *object, symbol)) {
    return llvm_failure("loading", std::move(error));
  }
  if (auto error = (*jit)->addObjectFile(std::move(object))) {
    return llvm_failure("loading", std::move(error));
  }
  auto address = (*jit)->lookup(symbol);
  if (!address) return llvm_failure("loading" + *reported, address.takeError());
  return LoadedCode{.jit = std::move(*jit), .entry = address->toPtr<NativeHandler::Entry>()};
}

// The code that the cache has under the key, if LLVM can load it.
std::optional<LoadedCode> load_cached(CodeCache& cache, const CodeKey& key, const Target& target,
                                      const std::string& symbol) {
  const auto bytes = cache.get(key);
  if (!bytes) return std::nullopt;
  const llvm::StringRef view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  auto loaded = load_object(target, llvm::MemoryBuffer::getMemBufferCopy(view), symbol);
  if (loaded) return std::move(*loaded);
  cache.reject(key, loaded.error().message);
  return std::nullopt;
}

}  // namespace

struct NativeHandler::Code {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

bool has_native_code() {
  return true;
}

NativeHandler::NativeHandler(std::unique_ptr<Code> code, Entry start, bool is_from_cache)
    : code_(std::move(code)), entry_(start), is_from_cache_(is_from_cache) {}
NativeHandler::NativeHandler(NativeHandler&&) noexcept = default;
NativeHandler& NativeHandler::operator=(NativeHandler&&) noexcept = default;
NativeHandler::~NativeHandler() = default;

Result<NativeHandler> NativeHandler::compile(const ir::VerifiedHandler& handler,
                                             const NativeOptions& options) {
  const auto target = EVERKERNEL_TRY(find_target());
  const auto finish = [](LoadedCode loaded, bool is_from_cache) {
    return NativeHandler(std::make_unique<Code>(Code{std::move(loaded.jit)}), loaded.entry,
                         is_from_cache);
  };
  CodeKey key;
  std::string symbol = "handler";
  if (options.cache != nullptr) {
    key = key_of(handler, options, target);
    symbol += "_" + key.text();  // an object file of another handler lacks it
    if (auto loaded = load_cached(*options.cache, key, target, symbol)) {
      return finish(*std::move(loaded), true);
    }
  }
  auto object = EVERKERNEL_TRY(compile_object(handler, symbol, options, target));
  if (options.cache != nullptr) {
    options.cache->put(key, std::as_bytes(std::span(object->getBuffer())));
  }
  return finish(EVERKERNEL_TRY(load_object(target, std::move(object), symbol)), false);
}

Result<std::string> emit_llvm(const ir::VerifiedProgram& program, const NativeOptions& options) {
  llvm::LLVMContext context;
  const auto module = make_module(program, options, context);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

}  // namespace everkernel::jit
