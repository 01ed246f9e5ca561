#!/usr/bin/env python3
"""Runs the programs that need a GPU, each with a limit, and writes one JSON (see gpu_check.sh).

Each step has a share of the time; time that a step does not use goes to the steps after it. A step
that reaches its limit is killed with all processes it started, and the report says so. A step whose
program is missing, or in which no test ran, has not passed. The JSON describes the machine and
contains no paths.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

BUDGET = 520  # seconds for a part; gpu_check.sh promises nine minutes for each
PARTS = ("bounded", "sessions")
KILL_PATIENCE = 5
TAIL_CHARACTERS = 4000
NO_GPU = 77
STANDARD_KEYS = {"name", "file", "line", "status", "result", "timestamp", "time", "classname",
                 "failures", "type_param", "value_param"}
SANITIZER_PLACES = ["/usr/local/cuda/bin", "/opt/cuda/bin"]
MOST_PROCESSES = 16  # at the same time: each has its own context in device memory


@dataclass
class Step:
    name: str
    program: str
    share: float  # of the time, relative to the other steps
    kind: str = "gtest"  # gtest, program, sanitizer or bench
    arguments: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    seconds: float = 0  # EVERKERNEL_SECONDS as a share of its limit; 0 = not set
    copies: int = 1  # processes at the same time, each with its own seeds
    shards: int = 1  # processes at the same time, each with a part of the tests
    tool: str = ""  # tool of compute-sanitizer under which it runs
    programs: int = 0  # random programs that all copies together must try; 0 = any number
    has_targets: bool = False  # of a benchmark: figures say whether they reach their targets


CACHE_VARIABLE = "EVERKERNEL_TEST_CACHE_DIR"
# The copies of a random test share the seeds from this one on.
FIRST_SEED = int(os.environ.get("EVERKERNEL_SEED") or str(random.randrange(1 << 31)), 0)
CUDA = {"EVERKERNEL_BACKEND": "cuda"}
SUBJECT = {"EVERKERNEL_SUBJECT": "gpu"}
# Under a sanitizer a batch is slow; with fewer trials it ends before the limit of its step.
SLOW = {"EVERKERNEL_TRIALS": "10"}
SESSION_TESTS = "*Session*:*sessions*:*RunningItems*:*ItemTimeouts*"
# A batch of this size takes some seconds.
SMALL = {"EVERKERNEL_TRIALS": "100"}
# For steps that spend their time in the compiler. One process runs on each core, because threads of
# one process would wait for a lock of the compiler. malloc keeps freed memory for the next program.
COMPILES = {
    "EVERKERNEL_WORKERS": "1",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824:"
                      "glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=268435456"}


def sanitizer_step(name, share, arguments):
    """A step under the tool that is the first word of its name."""
    return Step(name, "sanitizer_workload", share, "sanitizer", arguments, tool=name.split()[0])


def processors():
    """Number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def make_steps(quick, programs):
    cores = min(processors(), MOST_PROCESSES)
    number = {"EVERKERNEL_PROGRAMS": str(-(-programs // cores))} if programs else {}
    items = "--items=16384" if quick else "--items=100000"
    smoke = ["--smoke"] if quick else []
    groups = "--items=4096" if quick else "--items=8192"
    rounds = {"EVERKERNEL_LITMUS_ROUNDS": "1000000"} if quick else {}
    endurance = {"EVERKERNEL_ITEMS": "10000000" if quick else "1000000000"}
    return [
        Step("conformance", "cuda_conformance_test", 140, shards=cores,
             arguments=["--gtest_filter=-" + SESSION_TESTS]),
        # Kernels that stay would take turns on the GPU: one process has it alone.
        Step("sessions", "cuda_conformance_test", 60,
             arguments=["--gtest_filter=" + SESSION_TESTS]),
        Step("runs beside sessions", "run_test", 10, environment=CUDA,
             arguments=["--gtest_filter=*session*"]),
        Step("handler tables", "jit_test", 125, environment={**COMPILES, **SUBJECT},
             arguments=["--gtest_filter=-Generator.*:LlvmText.*:Pages.*"], seconds=0.2,
             shards=cores),
        Step("random programs", "cuda_differential_test", 90, environment={**COMPILES, **number},
             arguments=["--gtest_filter=*bit_for_bit"], seconds=0.8, copies=cores,
             programs=programs),
        Step("random arithmetic", "jit_test", 40, environment={**COMPILES, **SUBJECT},
             arguments=["--gtest_filter=Arithmetic*"], seconds=0.5, copies=cores),
        # These steps launch all the time: more processes would only wait for the GPU.
        Step("random rings", "random_ring_test", 45, environment={**CUDA, **SMALL}, seconds=0.3,
             copies=2),
        Step("random jobs", "random_job_test", 50, environment=CUDA, seconds=0.3, copies=4),
        Step("random sessions", "random_session_test", 45, environment=CUDA, seconds=0.4,
             arguments=["--gtest_filter=RandomSessions.*"]),
        Step("endurance of sessions", "endurance_test", 30, environment={**CUDA, **endurance}),
        # Calls that block run into their limits of five seconds.
        Step("calls beside sessions", "cuda_beside_session_test", 50),
        Step("ends of sessions", "process_end_test", 15, environment=CUDA),
        Step("planned runs", "run_test", 40, environment=CUDA, shards=cores,
             arguments=["--gtest_filter=-*session*"]),
        Step("litmus", "cuda_litmus_test", 100, environment=rounds, seconds=0.2),
        sanitizer_step("memcheck", 25, [items, "--only=drains"]),
        sanitizer_step("memcheck sessions", 35, [items, "--only=live"]),
        # No test compares all memory; memcheck finds writes outside of allocations.
        Step("memcheck rings", "random_ring_test", 55, environment={**CUDA, **SLOW}, seconds=0.3,
             copies=4, tool="memcheck"),
        Step("memcheck jobs", "random_job_test", 55, environment={**CUDA, **SLOW}, seconds=0.2,
             copies=4, tool="memcheck"),
        sanitizer_step("initcheck", 15, [items, "--only=drains"]),
        sanitizer_step("initcheck sessions", 25, [items, "--only=live"]),
        sanitizer_step("synccheck", 15, [items, "--only=drains"]),
        sanitizer_step("synccheck sessions", 25, [items, "--only=live"]),
        sanitizer_step("racecheck", 15, [groups, "--only=groups"]),
        Step("benchmarks", "cuda_bench", 90, "bench", smoke, has_targets=True),
        Step("live benchmarks", "live_bench", 45, "bench", smoke, has_targets=True),
        Step("live rates", "live_rate_bench", 45, "bench", smoke, has_targets=True),
    ]


# --- running -------------------------------------------------------------------------------------


@dataclass
class Ending:
    seconds: float
    status: object  # exit status, None when it was killed at its limit
    output: str
    note: str = ""


RUNNING = set()  # processes that were started and not yet waited for
# Held from the start of a process until it is in RUNNING, and for good when the check leaves.
STARTING = threading.RLock()


def leave(number, _frame):
    """Ends all running steps when the check itself is ended by a signal."""
    with STARTING:
        for process in list(RUNNING):
            kill_group_remains(process)
        os._exit(128 + number)


def kill_group(process):
    kill_group_remains(process)
    try:
        process.wait(KILL_PATIENCE)
        return ""
    except subprocess.TimeoutExpired:
        return "; it does not die"


def run(command, limit, environment):
    """Runs a command in its own process group; its output goes through a file."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            with STARTING:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env={**os.environ, **environment}, start_new_session=True)
                RUNNING.add(process)
        except OSError as error:
            return Ending(0, -1, "", f"cannot be started: {error.strerror}")
        note = ""
        try:
            status = process.wait(max(limit, 0.1))
        except subprocess.TimeoutExpired:
            status = None
            note = f"reached its limit of {limit:.0f} s" + kill_group(process)
        kill_group_remains(process)
        RUNNING.discard(process)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Ending(time.monotonic() - begin, status, text, note)


def kill_group_remains(process):
    """Kills processes that a program left behind, so that they do not disturb the next step."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def run_together(commands, limit, environments):
    """Runs all commands at the same time. The result has the longest time and the first failure."""
    with ThreadPoolExecutor(len(commands)) as pool:
        endings = list(pool.map(run, commands, [limit] * len(commands), environments))
    worst = next((ending for ending in endings if ending.note or ending.status != 0), endings[0])
    output = "\n".join(ending.output for ending in endings if ending is not worst)
    return Ending(max(ending.seconds for ending in endings), worst.status,
                  output + "\n" + worst.output, worst.note)


# --- reading the output of programs --------------------------------------------------------------


def skip_reasons(output):
    """Reasons by test: GoogleTest prints them, and leaves them out of its JSON."""
    pattern = re.compile(r": Skipped\n(.*?)\n?\[  SKIPPED \] (\S+)", re.S)
    return {name: reason.strip() for reason, name in pattern.findall(output)}


def read_gtest(path, output):
    """The tests of a GoogleTest program; None where there is no report."""
    try:
        # GoogleTest writes bytes that are not ASCII as \xE2, which is not JSON.
        text = re.sub(r"\\x([0-9A-Fa-f]{2})", r"\\u00\1", path.read_text())
        report = json.loads(text)
    except (OSError, ValueError):
        return None
    reasons = skip_reasons(output)
    tests = {"passed": 0, "failed": [], "skipped": {}, "properties": {}}
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            name = f'{suite["name"]}.{test["name"]}'
            properties = {key: test[key] for key in test if key not in STANDARD_KEYS}
            if properties:
                tests["properties"][name] = properties
            if test.get("failures"):
                tests["failed"].append(name)
            elif test.get("result") == "SKIPPED":
                reason = reasons.get(name, "not said")
                tests["skipped"].setdefault(reason, []).append(name)
            elif test.get("result") == "COMPLETED":
                tests["passed"] += 1
    return tests


def add_up(reports):
    """The tests of several processes as if one process had run them; recorded numbers are added."""
    total = {"passed": 0, "failed": [], "skipped": {}, "properties": {}}
    for tests in reports:
        total["passed"] += tests["passed"]
        total["failed"] += [name for name in tests["failed"] if name not in total["failed"]]
        for reason, names in tests["skipped"].items():
            known = total["skipped"].setdefault(reason, [])
            known += [name for name in names if name not in known]
        for name, properties in tests["properties"].items():
            known = total["properties"].setdefault(name, {})
            for key, value in properties.items():
                is_number = key in known and value.isdecimal() and known[key].isdecimal()
                known[key] = str(int(known[key]) + int(value)) if is_number else value
    return total


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def programs_tried(tests):
    return sum(int(properties.get("programs", 0)) for properties in tests["properties"].values())


def judge_gtest(result, ending, tests, backend, programs):
    if tests is None:
        detail = f"exit status {ending.status}, no report: {last_line(ending.output)}"
        result.update(status="failed", detail=detail)
        return
    result["tests"] = tests
    counts = f'{tests["passed"]} passed'
    if tests["skipped"]:
        counts += f', {sum(len(names) for names in tests["skipped"].values())} skipped'
    if len(tests["properties"]) == 1:
        for key, value in next(iter(tests["properties"].values())).items():
            counts += f", {key} {value}"
    if tests["failed"]:
        names = ", ".join(tests["failed"][:3])
        counts += f', {len(tests["failed"])} failed: {names}'
        result.update(status="failed", detail=counts)
    elif ending.status != 0:
        result.update(status="failed", detail=f"{counts}, exit status {ending.status}")
    elif tests["passed"] == 0:
        reason = next(iter(tests["skipped"]), "it has no tests")
        result.update(status="skipped", detail=reason)
    elif backend and backend not in ending.output:
        # A program that does not know the variable would run on the CPU, and pass.
        detail = f"{counts}; its output does not say that it ran on {backend}"
        result.update(status="failed", detail=detail)
    elif programs_tried(tests) < programs:
        result.update(status="failed", detail=f"{counts}; time was over before {programs} programs")
    else:
        result.update(status="passed", detail=counts)


def sanitizer_summaries(output):
    return [line.strip("= ") for line in re.findall(r"^.*SUMMARY:.*$", output, re.M)]


def judge_summaries(result, ending, processes):
    """Fails a step that passed under a sanitizer if a process has no summary of the sanitizer."""
    summaries = sanitizer_summaries(ending.output)
    if result["status"] == "passed" and len(summaries) < processes:
        result.update(status="failed", detail="it ended well and has no summary")
    elif summaries:
        result["detail"] += f"; {summaries[-1]}"


def judge_sanitizer(result, ending):
    summary = sanitizer_summaries(ending.output)
    said = re.findall(r"^error: .*$", ending.output, re.M)  # by the program
    detail = "; ".join(summary[-1:] + said[-1:])
    detail = detail or last_line(ending.output)
    if ending.status == NO_GPU:
        result.update(status="skipped", detail=last_line(ending.output))
    elif ending.status == 0 and summary:
        result.update(status="passed", detail=detail)
    elif ending.status == 0:
        result.update(status="failed", detail="it ended well and has no summary")
    else:
        result.update(status="failed", detail=f"exit status {ending.status}: {detail}")


def judge_bench(result, ending, path):
    try:
        result["bench"] = json.loads(path.read_text())
    except (OSError, ValueError):
        result["bench"] = None
    if ending.status == NO_GPU:
        result.update(status="skipped", detail=last_line(ending.output))
    elif ending.status != 0 or result["bench"] is None:
        unanswered = (result["bench"] or {}).get("unanswered", last_line(ending.output))
        result.update(status="failed", detail=f"exit status {ending.status}: {unanswered}")
    else:
        result.update(status="passed", detail=f'{len(result["bench"]["results"])} figures')


def missed_text(row):
    """A figure that missed a target: its time, and what it is compared with."""
    compared = [f'{each["times"]:.2f} times and {each["more_ns"] / 1e3:+.2f} us beside '
                f'"{each["than"]}"' for each in row.get("comparisons", [])]
    if "least_ratio" in row or not compared:
        compared.append(f'{row["ratio_to_floor"]:.2f} x floor')
    time_ns = row["median_ns"]
    time_text = f"{time_ns / 1e6:.2f} ms" if time_ns >= 1e6 else f"{time_ns / 1e3:.2f} us"
    return f'{row["question"]} / {row["contender"]}: {", ".join(compared)}, {time_text}'


def judge_targets(name, bench):
    """A row that says which figures of a step reached their targets."""
    rows = [row for row in (bench or {}).get("results", []) if "meets_target" in row]
    missed = [missed_text(row) for row in rows if not row["meets_target"]]
    result = {"name": f"targets of {name}", "seconds": 0, "missed": missed}
    if not rows:
        return {**result, "status": "missing", "detail": "no figure has a target"}
    detail = f"{len(rows) - len(missed)} of {len(rows)} met"
    if missed:
        detail += ": missed " + "; ".join(missed)
    return {**result, "status": "failed" if missed else "passed", "detail": detail}


# --- steps ---------------------------------------------------------------------------------------


def find_sanitizer():
    found = shutil.which("compute-sanitizer")
    places = [os.path.join(os.environ.get("CUDA_HOME", ""), "bin"), *SANITIZER_PLACES]
    for place in places:
        path = os.path.join(place, "compute-sanitizer")
        if not found and os.access(path, os.X_OK):
            found = path
    return found


def make_command(step, program, report):
    command = [program, *step.arguments]
    if step.kind == "gtest":
        command.append(f"--gtest_output=json:{report}")
    elif step.kind == "bench":
        command.append(f"--json={report}")
    if not step.tool:
        return command
    return [find_sanitizer(), "--tool", step.tool, "--target-processes", "all",
            "--error-exitcode", "99", "--print-limit", "20", *command]


def run_step(step, folder, limit, scratch, code):
    result = {"name": step.name, "program": step.program, "limit_seconds": round(limit, 1),
              "seconds": 0}
    program = folder / step.program
    if not os.access(program, os.X_OK):
        return {**result, "status": "missing", "detail": f"there is no {program}"}
    if step.tool and not find_sanitizer():
        return {**result, "status": "missing", "detail": "there is no compute-sanitizer"}
    if limit < 1:
        return {**result, "status": "timeout", "detail": "no time was left for it"}
    environment = {CACHE_VARIABLE: str(code), **step.environment}
    if step.seconds:
        environment["EVERKERNEL_SECONDS"] = str(max(1, int(limit * step.seconds)))
    environments = [dict(environment) for _ in range(step.copies * step.shards)]
    for index in range(step.shards if step.shards > 1 else 0):
        environments[index]["GTEST_TOTAL_SHARDS"] = str(step.shards)
        environments[index]["GTEST_SHARD_INDEX"] = str(index)
    for index in range(step.copies if step.copies > 1 else 0):
        environments[index]["EVERKERNEL_SEED"] = str(FIRST_SEED + index)
        environments[index]["EVERKERNEL_SEED_STEP"] = str(step.copies)
    reports = [scratch / f"{step.name.replace(' ', '_')}_{index}.json"
               for index in range(len(environments))]
    commands = [make_command(step, str(program), report) for report in reports]
    ending = run_together(commands, limit, environments)
    result.update(arguments=step.arguments, processes=len(commands),
                  environment={key: value for key, value in environments[0].items()
                               if key != CACHE_VARIABLE},
                  seconds=round(ending.seconds, 2), exit_status=ending.status)
    if ending.status is None or ending.note:
        status = "timeout" if ending.status is None else "failed"
        result.update(status=status, detail=ending.note)
    elif step.kind == "gtest":
        tests = [read_gtest(report, ending.output) for report in reports]
        judge_gtest(result, ending, None if None in tests else add_up(tests),
                    environment.get("EVERKERNEL_BACKEND"), step.programs)
        if step.tool:
            judge_summaries(result, ending, len(commands))
    elif step.kind == "sanitizer":
        judge_sanitizer(result, ending)
    elif step.kind == "bench":
        judge_bench(result, ending, reports[0])
    else:
        result.update(status="passed" if ending.status == 0 else "failed",
                      detail=last_line(ending.output))
    if result["status"] != "passed":
        result["output_tail"] = ending.output[-TAIL_CHARACTERS:]
        first_failure = ending.output.find(": Failure\n")
        if first_failure >= 0:
            begin = max(ending.output.rfind("\n[ RUN", 0, first_failure), 0)
            result["output_failure"] = ending.output[begin:begin + 4 * TAIL_CHARACTERS]
    return result


def run_steps(steps, folder, end, options, keep):
    """Runs all steps, and calls keep(results) after each, so that a kill loses no results."""
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        code = options.code.resolve() if options.code is not None else Path(scratch) / "code"
        for index, step in enumerate(steps):
            left = end - time.monotonic()
            shares = sum(other.share for other in steps[index:])
            print(f"{step.name} …", flush=True)
            result = run_step(step, folder, left * step.share / shares, Path(scratch), code)
            print(f'  {result["status"]}: {result["detail"]} ({result["seconds"]:.1f} s)',
                  flush=True)
            results.append(result)
            if step.has_targets and not options.quick:
                results.append(judge_targets(step.name, result.get("bench")))
            keep(results)


# --- the machine ---------------------------------------------------------------------------------


def first_output(command, folder=None):
    """The output of a command, or None."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=10, cwd=folder)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class CannotRun(Exception):
    """The programs of the folder do not run on this machine at all."""


def find_gpu(folder):
    """The properties of the CUDA backend, or the reason why there is none."""
    program = str(folder / "everkernel")
    if not os.access(program, os.X_OK):
        is_there = first_output(["nvidia-smi", "-L"])
        return {"available": bool(is_there), "reason": "nvidia-smi finds no GPU"}
    ending = run([program, "info", "--json"], 60, {})
    if ending.status != 0:
        raise CannotRun(f"{ending.note} {last_line(ending.output)}".strip())
    try:  # a driver may print text before or behind it
        text = ending.output[ending.output.find("{"):ending.output.rfind("}") + 1]
        backends = json.loads(text)["backends"]
    except (ValueError, KeyError):
        return {"available": False, "reason": "everkernel info --json is not understood"}
    absent = {"available": False, "reason": "this build has no CUDA backend"}
    return next((backend for backend in backends if backend["id"] == "cuda"), absent)


def describe_machine(gpu):
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    fields = (first_output(query) or "unknown, unknown, unknown").splitlines()[0].split(", ")
    here = Path(__file__).resolve().parent
    return {
        "gpu": gpu.get("device") or fields[0],
        "driver": fields[1] if len(fields) > 1 else "unknown",
        "gpu_memory": fields[2] if len(fields) > 2 else "unknown",
        "commit": os.environ.get("EVERKERNEL_COMMIT")
        or first_output(["git", "rev-parse", "--short", "HEAD"], here) or "unknown",
        "host": f"{platform.system()} {platform.release()}, {processors()} processors",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


# --- the report ----------------------------------------------------------------------------------


def print_table(report, file):
    machine = report["machine"]
    print(f'\n{machine["gpu"]}, driver {machine["driver"]}, commit {machine["commit"]}')
    for step in report["steps"]:
        print(f'  {step["name"]:<16} {step["status"]:<8} {step["seconds"]:>7.1f} s  '
              f'{step["detail"][:160]}')
        for reason, names in step.get("tests", {}).get("skipped", {}).items():
            print(f'    skipped {len(names)} ({names[0]} …): {reason.splitlines()[0][:120]}')
    print(f'{report["verdict"]} in {report["seconds"]:.0f} s; JSON: {file}')


def part_of(step):
    return "sessions" if "sessions" in step.name or "live" in step.name else "bounded"


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description="see tools/gpu_check.sh")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/gpu/bin"))
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--quick", action="store_true", help="small sizes; no targets are judged")
    parser.add_argument("--budget", type=float, default=None, help="seconds for all steps")
    parser.add_argument("--part", choices=PARTS, help="the steps of bounded launches, or those of "
                        "sessions; without it both")
    parser.add_argument("--only", metavar="STEP", help="the name of one step")
    parser.add_argument("--programs", type=int, default=0, help="random programs that are enough")
    parser.add_argument("--code", type=Path, default=None, help="a folder where compiled code is "
                        "kept between checks; without it everything is compiled")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    begin = time.monotonic()
    folder = options.folder.resolve()
    if not folder.is_dir():
        print(f"error: there is no folder {options.folder}\n"
              "hint: cmake --preset gpu && cmake --build --preset gpu", file=sys.stderr)
        return 2
    steps = make_steps(options.quick, options.programs)
    if options.part is not None:
        steps = [step for step in steps if part_of(step) == options.part]
    if options.budget is None:
        options.budget = BUDGET * len({part_of(step) for step in steps})
    if options.only is not None:
        names = ", ".join(step.name for step in steps)
        steps = [step for step in steps if step.name == options.only]
        if not steps:
            print(f"error: there is no step '{options.only}'\nhint: {names}", file=sys.stderr)
            return 2
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    try:
        gpu = find_gpu(folder)
    except CannotRun as problem:
        print(f"error: {options.folder}/everkernel does not run here: {problem}\n"
              "hint: build it on a system that is not newer than this one", file=sys.stderr)
        return 2
    report = {"check": "gpu", "quick": options.quick, "budget_seconds": options.budget,
              "machine": describe_machine(gpu), "steps": [], "verdict": "not finished"}

    def keep(steps):
        report.update(steps=steps, seconds=round(time.monotonic() - begin, 1))
        options.out.write_text(json.dumps(report, indent=1) + "\n")

    if not gpu["available"]:
        report.update(verdict="no GPU", reason=gpu["reason"])
        keep([])
        print(f'skipped: {gpu["reason"]}')
        return NO_GPU
    run_steps(steps, folder, begin + options.budget, options, keep)
    is_passed = all(step["status"] == "passed" for step in report["steps"])
    report["verdict"] = "passed" if is_passed else "failed"
    keep(report["steps"])
    print_table(report, options.out)
    return 0 if is_passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
