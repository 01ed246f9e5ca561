#!/usr/bin/env python3
"""Puts mistakes into the library, one at a time, and checks that `make test` would find each.

    tools/mutants.py [NAME…]    all mutants, or those whose names contain NAME

Works on a copy of the tree in build/mutants. A mutant names the tests of its module that must find
it; they run as ctest runs them in `make test`. Prints one line for each mutant: the test that
failed, or that none did. Exit status 1 if a mutant was not found, could not be applied or does not
compile.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build/mutants/tree"
BUILD = TREE / "build/ci"
LOG = ROOT / "build/mutants/log.txt"
TEST_SECONDS = 60  # a mutant that hangs is found by then


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str  # text that occurs once in the file
    new: str
    tests: str  # names of ctest entries, each also the program it runs unless PROGRAMS says so


# Programs that entries run under another name.
PROGRAMS = {"cuda_text_test": ["jit_test"],
            "simulated_cuda_conformance_test": ["cuda_conformance_test", "simulated_cuda"]}

MUTANTS = [
    # Wire format and telemetry.
    Mutant("a ring takes one slot more than it has", "src/protocol/ring_writer.cpp",
           "if (end && *end <= slot_count) return {};",
           "if (end && *end <= slot_count + 1) return {};", "protocol_test"),
    Mutant("a packed slot may hold one word more", "src/protocol/packed.cpp",
           "if (metadata_words + argument_words > kSlotArgs) {",
           "if (metadata_words + argument_words > kSlotArgs + 1) {", "protocol_test"),
    Mutant("a fault elsewhere hides a stall", "src/telemetry/snapshot.cpp",
           "done_delta == 0 && runnable_slots > 0",
           "done_delta == 0 && runnable_slots > 0 && occupancy.fault == 0", "telemetry_test"),
    Mutant("idle tenants count for fairness", "src/telemetry/snapshot.cpp",
           "    if (count == 0) continue;\n", "", "telemetry_test"),
    # Handlers.
    Mutant("rotations use 4 bits of the count", "src/ir/semantics.cpp",
           "static_cast<int>(b & 31)", "static_cast<int>(b & 15)", "ir_test"),
    Mutant("loops are free", "src/ir/interpreter.cpp", "    --frame_.fuel;\n", "", "ir_test"),
    Mutant("an index may be the length", "src/jit/llvm_memory.cpp",
           "fault_unless(builder_.CreateICmpULT(index, limit),",
           "fault_unless(builder_.CreateICmpULE(index, limit),", "jit_test"),
    Mutant("device shifts use 4 bits of the count", "src/jit/device/values.cuh",
           "return a << (count & 31);", "return a << (count & 15);", "cuda_text_test"),
    Mutant("damaged code is loaded", "src/jit/code_cache.cpp",
           "if (sha256(payload) != header.checksum)",
           "if (payload.empty() && sha256(payload) != header.checksum)", "code_cache_test"),
    # Planning.
    Mutant("a write does not wait for readers", "src/planner/hazard_scan.cpp",
           "      wait_for_readers(item, state);\n", "      state.forget_readers();\n",
           "random_job_test run_test"),
    Mutant("items of other tenants are equal", "src/planner/equal_items.hpp",
           " && tenant(other) == tenant(item)) return", ") return", "run_test random_job_test"),
    Mutant("a wave may exceed its budget", "src/planner/waves.cpp",
           "return used_bytes_ <= input_.budget_bytes;",
           "return used_bytes_ <= 2 * input_.budget_bytes;", "planner_test planner_property_test"),
    Mutant("promotion needs both kinds of heat", "src/planner/policy.cpp",
           "request.hot_opcodes >= kHotOpcodes || request.hot_windows",
           "request.hot_opcodes >= kHotOpcodes && request.hot_windows", "planner_test"),
    # The CPU backend.
    Mutant("a drain ends although slots moved", "src/backend/cpu/drain.cpp",
           "  if (stamp != seen) {\n    seen = stamp;\n    return true;",
           "  if (stamp + 1 < seen) {\n    seen = stamp;\n    return true;", "drain_end_test"),
    Mutant("counts of a worker are lost", "src/backend/cpu/drain.cpp",
           "  tally.flush(ring_->control);\n", "", "cpu_conformance_test"),
    Mutant("a quota is not given back", "src/backend/cpu/worker.cpp",
           "  if (is_counted) ring_.return_quota(slot.tenant);\n", "", "cpu_conformance_test"),
    Mutant("poisoned items run", "src/backend/cpu/graph_work.cpp",
           "if (!may_be_poisoned || !is_poisoned(at.item, info)) outcome",
           "if (!may_be_poisoned || is_poisoned(at.item, info)) outcome", "run_test"),
    # Runs.
    Mutant("the queue of a run is full one ticket late", "src/runtime/run_feed.cpp",
           "noted_ + producer_.capacity() - producer_.tail();",
           "noted_ + producer_.capacity() + 1 - producer_.tail();", "run_test"),
    # Sessions.
    Mutant("a queue takes one item too many", "src/live/queue_core.hpp",
           "if (tail + count > notes_.noted() + words_.capacity()) return std::nullopt;",
           "if (tail + count > notes_.noted() + words_.capacity() + 1) return std::nullopt;",
           "random_session_test"),
    Mutant("an item ends before its effects", "src/backend/cpu/live_worker.cpp",
           "  const ItemRunner::End end =\n      runner_.run(",
           "  if (!live.words.has_results()) {\n"
           "    live.words.end(item.ticket, OutcomeCode::done, 0, {});\n  }\n"
           "  const ItemRunner::End end =\n      runner_.run(", "random_session_test"),
    Mutant("waiting threads ignore masks", "src/backend/cpu/live_worker.cpp",
           "admit(live.tenant, is_counted)) {\n    is_stuck_ = true;\n    return Take::nothing;",
           "admit(live.tenant, is_counted) && !only_short) {\n    return Take::nothing;",
           "random_session_test"),
    # CUDA.
    Mutant("an illegal address loses no device", "src/backend/cuda/cuda_error.cpp",
           '{700, "ILLEGAL_ADDRESS", Code::device_lost, kReplace}',
           '{700, "ILLEGAL_ADDRESS", Code::invalid_argument, kReplace}', "cuda_host_test"),
    Mutant("disabled tenants run on a GPU", "src/backend/cuda/device/submission.cuh",
           "!= 0 ? TenantStanding::enabled : TenantStanding::disabled",
           "!= 0 ? TenantStanding::enabled : TenantStanding::enabled",
           "simulated_cuda_conformance_test"),
]


def call(command, seconds=None):
    """Whether a command succeeded within its time, and its output, which is added to the log."""
    process = subprocess.Popen(command, cwd=TREE, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0] + "***Timeout\n"
    with open(LOG, "a") as log:
        log.write(f"\n$ {' '.join(map(str, command))}\n{output}")
    return process.returncode == 0, output


def programs_of(mutant):
    return [p for test in mutant.tests.split() for p in PROGRAMS.get(test, [test])]


def prepare(mutants):
    """Copies the tree and builds the programs that the mutants need."""
    shutil.rmtree(TREE.parent, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    targets = sorted({program for mutant in mutants for program in programs_of(mutant)})
    for command in (["cmake", "--preset", "ci"],
                    ["cmake", "--build", BUILD, "--target", *targets]):
        succeeded, output = call(command)
        if not succeeded:
            raise SystemExit(output + "\nmutants: the tree as it is does not build")


def verdict(mutant, path, text):
    """Whether a test found the mutant, and the line to print."""
    if text.count(mutant.old) != 1:
        return False, f"its text stands {text.count(mutant.old)} times in {mutant.file}, not once"
    path.write_text(text.replace(mutant.old, mutant.new))
    succeeded, output = call(["cmake", "--build", BUILD, "--target", *programs_of(mutant)])
    if not succeeded:
        return False, "does not compile"
    for test in mutant.tests.split():
        passed, output = call(["ctest", "--test-dir", BUILD, "-R", f"^{test}$",
                               "--output-on-failure", "--no-tests=error"], TEST_SECONDS)
        if "***Not Run" in output or "***Skipped" in output:
            return False, f"{test} did not run"
        if not passed:
            failed = re.search(r"\[  FAILED  \] (\S+)", output)
            ending = "ran into its time limit" if "***Timeout" in output else "crashed"
            return True, f"found by {test}: {failed.group(1) if failed else ending}"
    return False, f"NOT FOUND by {mutant.tests}"


def main(names):
    mutants = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    if not mutants:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    prepare(mutants)
    missed = 0
    for mutant in mutants:
        begin = time.monotonic()
        path = TREE / mutant.file
        text = path.read_text()
        try:
            is_found, what = verdict(mutant, path, text)
        finally:
            path.write_text(text)
        missed += not is_found
        print(f"{mutant.name}: {what} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants found; log: {LOG}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
