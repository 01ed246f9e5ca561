// A random job: a program of handlers, the buffers they use, and the items for run().
#pragma once

#include <string>
#include <vector>

#include "everkernel/abi/slot.hpp"
#include "everkernel/backend/item.hpp"
#include "everkernel/ir/verifier.hpp"
#include "everkernel/memory/buffer_table.hpp"
#include "support/jit_random.hpp"

namespace everkernel::test {

using abi::Word;

/// Turns of loops an item of these tests may take: more than any of them needs.
inline constexpr std::uint64_t kJobFuel = 3000;
/// Observables that handlers of these tests use, from control word 160 on.
inline constexpr Word kJobObservables = 32;

/// Handles that handlers can compute: first, first + stride, …
struct Handles {
  Word first = 1;
  Word stride = 1;
  Word count = 1;

  Word at(Word index) const { return first + index * stride; }
};

/// One buffer before a job.
struct JobBuffer {
  Word handle = 0;
  std::vector<Word> words = {};
  memory::Access access = memory::Access::read_write;
  Word owner = memory::kEveryTenant;
};

/// Handlers for the jobs of one batch.
struct JobProgram {
  std::string text = {};
  ir::VerifiedProgram verified;
  Handles handles = {};
  std::vector<std::string> kinds = {};  // of each handler: which template made it
};

/// One call of run.
struct Job {
  std::vector<abi::WorkItem> items = {};
  std::vector<backend::Origin> origins = {};  // one an item, or empty
  backend::Origin origin = {};
  bool is_ordered = true;
  std::vector<JobBuffer> buffers = {};
  std::vector<std::string> sections = {};  // names of the parts that the generator chose

  backend::Origin origin_of(std::size_t item) const {
    return origins.empty() ? origin : origins[item];
  }
};

/// The effects that items of this opcode may have; none for NOP.
const ir::Effects& effects_of(const ir::VerifiedProgram& program, Word opcode);
/// Whether an item with these effects is ordered against every other item.
bool is_barrier(const ir::Effects& effects);

/// Random handlers that verify.
JobProgram generate_program(Random& random);
/// The buffers of a batch; `randomize` gives them other words.
std::vector<JobBuffer> generate_buffers(Random& random, const Handles& handles);
void randomize(Random& random, std::vector<JobBuffer>& buffers);
/// A job whose result is defined: by the order of its items, or because it is the same in every
/// order.
Job generate_job(Random& random, const JobProgram& program, const std::vector<JobBuffer>& buffers);

/// Items, handlers that they use and buffers as text, shortened.
std::string describe(const JobProgram& program, const Job& job);

}  // namespace everkernel::test
