// Damages the tree of a handler program in any of its fields, as a program that builds trees in C++
// could: most results must be refused by the verifier.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "everkernel/abi/platform.hpp"
#include "everkernel/ir/program.hpp"

namespace everkernel::test {

/// Damages a tree. `Choices` has `Word below(Word count)` and `Word word()`, as Random does.
///
/// Every field of a node is named in a structured binding: a new field does not compile until it is
/// damaged too.
template <class Choices>
class TreeMutator {
 public:
  explicit TreeMutator(Choices& choices) : choices_(choices) {}

  /// Changes one field.
  void mutate(ir::Program& program) {
    auto& [handlers, constants, functions] = program;
    const Word drawn = choices_.below(30);
    if (drawn == 0 && !constants.empty()) return mutate(constants[index_in(constants)]);
    if (drawn < 4 && !functions.empty()) return mutate(functions[index_in(functions)]);
    if (handlers.empty() || choices_.below(40) == 0) {
      if (handlers.empty() || choices_.below(2) == 0) return handlers.emplace_back(), void();
      return handlers.push_back(handlers[index_in(handlers)]);
    }
    mutate(handlers[index_in(handlers)]);
  }

 private:
  using Word = abi::Word;

  template <class List>
  std::size_t index_in(const List& list) {
    return choices_.below(static_cast<Word>(list.size()));
  }

  // Enumerators that exist, the ones just behind, and one far outside.
  template <class Enum>
  void change(Enum& value, Word count) {
    const Word drawn = choices_.below(count + 3);
    value = static_cast<Enum>(drawn == count + 2 ? 255 : drawn);
  }

  // Indices that exist, the one just behind, and one far outside.
  template <class Id>
  void change_id(Id& id, std::size_t count) {
    const Word drawn = choices_.below(static_cast<Word>(count) + 2);
    id = static_cast<Id>(drawn > count ? 0xFFFFFFFFu : drawn);
  }

  void change(bool& value) { value = !value; }

  void change(std::uint32_t& value) {
    constexpr std::array<Word, 10> kWords = {
        0, 1, 2, 7, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FC00001, 0xFF800000};
    const Word drawn = choices_.below(kWords.size() + 2);
    value = drawn < kWords.size() ? kWords[drawn] : choices_.word();
  }

  void change(std::string& text) {
    const std::array<std::string, 9> kTexts = {
        "", "x", "a b", "1x", "payload", "while", "x\n}", "b\xC3\xA4r", std::string("n\0l", 3)};
    const Word drawn = choices_.below(kTexts.size() + 1);
    text = drawn < kTexts.size() ? kTexts[drawn] : std::string(100'000, 'n');
  }

  void change(ir::Location& location) {
    auto& [line, column] = location;
    change(choices_.below(2) == 0 ? line : column);
  }

  void change(ir::BufferRef& buffer, const ir::Body& body) {
    auto& [kind, handle] = buffer;
    choices_.below(2) == 0 ? change(kind, 4) : change_id(handle, body.exprs.size());
  }

  void mutate(ir::Handler& handler) {
    auto& [name, opcode, scope, is_pure, commutes, is_payload, text_bytes, location, body] =
        handler;
    switch (choices_.below(40)) {
      case 0:
        return change(name);
      case 1:
        return change(opcode);
      case 2:
        return change(scope, 3);
      case 3:
        return change(is_pure);
      case 4:
        return change(commutes);
      case 5:
        return change(is_payload);
      case 6:
        text_bytes = choices_.below(2) == 0 ? 65'537 : choices_.below(9);
        return;
      case 7:
        return change(location);
      default:
        return mutate(body);
    }
  }

  void mutate(ir::Constant& constant) {
    auto& [name, location, body, value] = constant;
    switch (choices_.below(8)) {
      case 0:
        return change(name);
      case 1:
        return change_id(value, body.exprs.size());
      default:
        return mutate(body);
    }
  }

  void mutate(ir::UserFunction& function) {
    auto& [name, parameters, result, text_bytes, location, body, value] = function;
    switch (choices_.below(12)) {
      case 0:
        return change(name);
      case 1:
        return change(result, 5);
      case 2:
        return change_id(value, body.exprs.size());
      case 3:
        if (!parameters.empty()) change(parameters[index_in(parameters)].name);
        return;
      case 4:
        if (!parameters.empty()) change(parameters[index_in(parameters)].type, 5);
        return;
      case 5:
        choices_.below(2) == 0 || parameters.empty() ? void(parameters.emplace_back())
                                                     : parameters.pop_back();
        return;
      default:
        return mutate(body);
    }
  }

  void mutate(ir::Body& body) {
    auto& [exprs, stmts, blocks, names, arguments, root] = body;
    const Word drawn = choices_.below(21);
    if (drawn == 20 && !arguments.empty()) {
      return change_id(arguments[index_in(arguments)], exprs.size());
    }
    if (drawn == 0) return change_id(root, blocks.size());
    if (drawn == 1 && !names.empty()) return change(names[index_in(names)]);
    if (drawn == 2 && !names.empty()) {
      std::string other = names[index_in(names)];
      names[index_in(names)] = std::move(other);  // a name that is there twice, or the same
      return;
    }
    if (drawn == 3) return resize(body);
    if (drawn < 6 && !blocks.empty()) return mutate(blocks[index_in(blocks)], body);
    if (drawn < 12 && !stmts.empty()) return mutate(stmts[index_in(stmts)], body);
    if (!exprs.empty()) mutate(exprs[index_in(exprs)], body);
  }

  // Nodes that nothing refers to, and nodes that are gone although something refers to them.
  void resize(ir::Body& body) {
    const bool grows = choices_.below(2) == 0;
    const auto resize_list = [&](auto& list) {
      if (grows) return list.emplace_back(), void();
      if (!list.empty()) list.pop_back();
    };
    switch (choices_.below(4)) {
      case 0:
        return resize_list(body.exprs);
      case 1:
        return resize_list(body.stmts);
      case 2:
        return resize_list(body.blocks);
      default:
        return resize_list(body.names);
    }
  }

  void mutate(ir::Block& block, const ir::Body& body) {
    auto& [statements, location] = block;
    switch (choices_.below(5)) {
      case 0:
        return change(location);
      case 1:
        statements.push_back(ir::StmtId{});
        return change_id(statements.back(), body.stmts.size());
      case 2:
        if (!statements.empty()) statements.pop_back();
        return;
      default:
        if (!statements.empty()) change_id(statements[index_in(statements)], body.stmts.size());
    }
  }

  void mutate(ir::Stmt& stmt, const ir::Body& body) {
    auto& [kind, name, buffer, operands, element, compound, has_step, inner, otherwise, location] =
        stmt;
    switch (choices_.below(12)) {
      case 8:
        return change(element, 5);
      case 6:
        if (compound && choices_.below(2) == 0) return compound.reset();
        compound.emplace();
        return change(*compound, 18);
      case 7:
        return change(has_step);
      case 0:
        return change(kind, 20);
      case 1:
        return change_id(name, body.names.size());
      case 2:
        return change(buffer, body);
      case 3:
        return change_id(inner, body.blocks.size());
      case 4:
        if (otherwise && choices_.below(2) == 0) return otherwise.reset();
        otherwise.emplace();
        return change_id(*otherwise, body.blocks.size());
      case 5:
        return change(location);
      default:
        return change_id(operands[choices_.below(4)], body.exprs.size());
    }
  }

  void mutate(ir::Expr& expr, const ir::Body& body) {
    auto& [kind, type, operand_count, unary, binary, function, atomic, builtin, buffer, name, bits,
           operands, location] = expr;
    switch (choices_.below(15)) {
      case 0:
        return change(kind, 13);
      case 1:
        return change(type, 5);
      case 2:
        return change(operand_count, 5);
      case 3:
        return change(unary, 3);
      case 4:
        return change(binary, 18);
      case 5:
        return change(function, 18);
      case 6:
        return change(atomic, 8);
      case 7:
        return change(builtin, 7);
      case 8:
        return change(buffer, body);
      case 9:
        return change_id(name, body.names.size());
      case 10:
        return change(bits);
      case 11:
        return change(location);
      default:
        return change_id(operands[choices_.below(3)], body.exprs.size());
    }
  }

  Choices& choices_;
};

}  // namespace everkernel::test
