// Planning rule 5 by example: every decision of the launch policy changes what runs.
#include "run_fixture.hpp"

namespace everkernel::test {
namespace {}  // namespace
}  // namespace everkernel::test
