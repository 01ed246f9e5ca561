#!/usr/bin/env python3
"""Runs the tests that take long: campaigns of random input with fresh seeds, fuzzing, exhaustive
model checking, device compilers over many handlers, mutants of the library, and builds that
`make test` leaves out.

    tools/soak.py [--minutes N] [--only NAME]… [--seed N] [--list]

--minutes is the budget (120): parts of fixed length run first, campaigns share the remaining time.
--only runs the parts whose names contain NAME. --seed repeats a soak; without it the seed is drawn
and printed. Logs are in build/soak. If a part failed, the exit status is 1 and the command that
repeats the part is printed. Add each fault that a soak finds to `make test` as a fixed case.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "soak"
CORES = len(os.sched_getaffinity(0))
CI, ASAN, TSAN = BUILD / "ci/bin", BUILD / "asan/bin", BUILD / "tsan/bin"
FUZZED = ("control", "debug_log", "handler_text", "handler_tree", "io_queue", "npy", "packed",
          "queue", "ring")
LONGEST_MINUTES = 45  # of a part of fixed length
LEAST_SECONDS = 30  # of a campaign


@dataclass
class Part:
    name: str
    command: list
    share: int = 0  # of the time that campaigns have; 0: the part has a fixed length
    environment: dict = field(default_factory=dict)


def test(program, gtest_filter="*", folder=CI):
    return [folder / program, f"--gtest_filter={gtest_filter}"]


def fuzz(name):
    return Part(f"fuzz {name}",
                [ROOT / "tests/fuzz/run_fuzz.sh", ASAN / f"{name}_fuzz",
                 ROOT / "tests/fuzz/corpus" / name, LOGS / f"fuzz_{name}",
                 "-max_total_time=SECONDS"], share=4)


def simulated(name, program, share=0):
    """A test of the CUDA backend on the simulated GPU, as tests/simulator describes it to ctest."""
    return Part(f"{name} on the simulated GPU",
                ["ctest", "--test-dir", BUILD / "ci", "-C", "soak", "-R", f"^soak_{program}$",
                 "--output-on-failure", "--no-tests=error"], share)


def make_parts():
    everything = {"EVERKERNEL_SOAK": "1"}
    cases = {"RC_PARAMS": "max_success=20000"}
    model = [sys.executable, "-B", ROOT / "tests/model/check.py"]
    spin = ["spin", "cc", LOGS / "model"]
    return [
        # Fixed length.
        Part("stress", test("stress_test"), environment={"EVERKERNEL_ITEMS": "200000000"}),
        Part("endurance", test("endurance_test"), environment={"EVERKERNEL_ITEMS": "200000000"}),
        Part("endurance under TSan", test("endurance_test", folder=TSAN),
             environment={"EVERKERNEL_ITEMS": "4000000"}),
        Part("properties", test("property_test"), environment=cases),
        Part("properties of handler text", test("ir_property_test"), environment=cases),
        Part("properties of planning", test("planner_property_test"), environment=cases),
        Part("model", [*model, "model", *spin]),
        Part("model mutants", [*model, "mutants", *spin]),
        Part("device compilers", test("cuda_compile_test"), environment=everything),
        Part("conformance under ASan", test("cpu_conformance_test", folder=ASAN),
             environment=everything),
        Part("conformance under TSan", test("cpu_conformance_test", folder=TSAN),
             environment=everything),
        Part("failing system calls of the program", test("program_reliability_test"),
             environment=everything),
        Part("functions of numbers on all operands",
             test("number_functions_test", "-*every_result*"), environment=everything),
        Part("accuracy of functions of numbers", test("number_functions_test", "*every_result*"),
             environment=everything),
        simulated("handler tables", "jit_test"),
        simulated("conformance", "cuda_conformance_test"),
        simulated("conformance of sessions", "cuda_sessions"),
        simulated("planned runs", "run_test"),
        Part("build without LLVM", [ROOT / "tools/check.py", "no-llvm"]),
        Part("mutants of the library", [ROOT / "tools/mutants.py"]),
        # Campaigns.
        Part("random programs", test("jit_test", "Differential.*"), share=15),
        Part("random arithmetic", test("jit_test", "Arithmetic.*"), share=10),
        Part("random programs as CUDA text", test("jit_test", "Differential.*:Arithmetic.*"),
             share=8, environment={"EVERKERNEL_SUBJECT": "cuda_text"}),
        simulated("random programs", "cuda_differential_test", 15),
        Part("random rings", test("random_ring_test", "RandomRings.*"), share=8),
        simulated("random rings", "random_ring_test", 6),
        Part("random jobs", test("random_job_test", "RandomJobs.*"), share=8),
        simulated("random jobs", "random_job_test", 6),
        Part("random sessions", test("random_session_test"), share=8),
        simulated("random sessions", "random_session_test", 6),
        Part("random sessions under ASan", test("random_session_test", folder=ASAN), share=4),
        Part("random sessions under TSan", test("random_session_test", folder=TSAN), share=4),
        Part("mutated jobs", test("cli_run_test", "MutatedJobs.*"), share=4),
        Part("mutated jobs under ASan", test("cli_run_test", "MutatedJobs.*", ASAN), share=4),
        Part("flipped bits and signals",
             test("reliability_test", "FlippedBits.*:SignalsEveryMillisecond.*"), share=2),
        Part("flipped bits and signals under TSan",
             test("reliability_test", "FlippedBits.*:SignalsEveryMillisecond.*", TSAN), share=2),
        *map(fuzz, FUZZED),
    ]


# --- running -------------------------------------------------------------------------------------

PRINTING = threading.Lock()


def shell(part, environment):
    words = [f"{name}={value}" for name, value in environment.items()] + part.command
    return " ".join(str(word) for word in words)


def run(part, seconds, seed):
    """Runs one part; true if it passed."""
    environment = {**part.environment, "EVERKERNEL_SEED": str(seed)}
    if part.share:
        environment["EVERKERNEL_SECONDS"] = str(int(seconds))
    part.command = [str(word).replace("SECONDS", str(int(seconds))) for word in part.command]
    log = LOGS / (part.name.replace(" ", "_") + ".log")
    limit = seconds * 2 + 300 if part.share else LONGEST_MINUTES * 60
    begin = time.monotonic()
    with open(log, "w") as output:
        process = subprocess.Popen(part.command, cwd=ROOT, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **environment})
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = f"killed after {limit:.0f} s"
    with PRINTING:
        verdict = "passed" if status == 0 else f"FAILED ({status})"
        print(f"{verdict:8} {time.monotonic() - begin:7.0f} s  {part.name}", flush=True)
        if status != 0:
            tail = log.read_text(errors="replace").splitlines()[-30:]
            print("\n".join("    " + line for line in tail))
            print(f"    log: {log}\n    repeat: {shell(part, environment)}", flush=True)
    return status == 0


def build():
    """Builds the presets whose programs the parts run, without running their tests."""
    for preset in ("ci", "asan", "tsan"):
        for command in (["cmake", "--preset", preset], ["cmake", "--build", "--preset", preset]):
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def run_all(parts, minutes, seed):
    end = time.monotonic() + minutes * 60
    build()
    fixed = [part for part in parts if not part.share]
    campaigns = [part for part in parts if part.share]
    with ThreadPoolExecutor(CORES) as pool:
        results = list(pool.map(lambda part: run(part, 0, seed), fixed))
    left = max(0, end - time.monotonic()) * CORES
    shares = sum(part.share for part in campaigns)
    with ThreadPoolExecutor(CORES) as pool:
        results += pool.map(
            lambda part: run(part, max(LEAST_SECONDS, left * part.share / shares), seed), campaigns)
    return results


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    parts = [part for part in make_parts()
             if not options.only or any(name in part.name for name in options.only)]
    if not parts:
        parser.error(f"no part has a name with {' or '.join(options.only)}")
    if options.list:
        print("\n".join(part.name for part in parts))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}: repeat with --seed {options.seed}", flush=True)
    results = run_all(parts, options.minutes, options.seed)
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
