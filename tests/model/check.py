#!/usr/bin/env python3
"""Checks the model of the ring, ring.pml, with Spin: exhaustively, or with mistakes put in.

    check.py model SPIN CC FOLDER     every configuration is free of errors and reaches its steps
    check.py quick SPIN CC FOLDER     the same of the few configurations that take seconds
    check.py mutants SPIN CC FOLDER   every mutant is found, by the property that forbids it

The verifiers are built in FOLDER, which is created if needed. Prints a table with one line for
each run; exit 1 if a run fails. A search that was cut short by depth, memory or time proves nothing
and counts as a failure.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).with_name("ring.pml")
MEMORY_MB = 3000
MAX_DEPTH = 50_000
SECONDS_A_RUN = 240
TRAIL_LINES = 60
# Figures in the output of pan.
STATES = r"(\d+) states, stored"
DEPTH = r"depth reached (\d+)"
MEMORY = r"([\d.]+)\s+total actual memory usage"
ERROR = re.compile(r"^pan:\d+: (.*) \(at depth", re.M)
# Messages of pan about a search that was not exhaustive.
CUT_SHORT = re.compile(
    r"max search depth too small|depth limit|out of memory|pan: reached|Search not completed"
    r"|Bit statespace|Hash-Compact|aborting|VECTORSZ|timed out"
)


@dataclass(frozen=True)
class Run:
    name: str
    macros: str
    reaches: str = ""  # of a configuration: the REACH marks that the search must reach
    found_by: str = ""  # of a mutant: the message it must be found with, a regular expression

    @property
    def is_liveness(self):
        return "LIVENESS" in self.macros.split()


BASIC = "lost_claim reaped_for_room woke_up"
LAPS = BASIC + " claimed_next_lap"
DEFERS = "took_deferred gave_up_sleep gave_up_late"
STOPS = "refused stop_wakes cancel_waits_for_publish cancelled_published"
BATCH = "SLOTS=4 ITEMS=5 FIRST=3 FENCE=2 BATCH=2"
QUOTA = "FIRST=2 YIELDS=1 FAULTS=2 LIMITED=7"

# SLOTS 3, WORKERS 3, ITEMS 4, PRODUCERS 1, CLAIMS 1 unless said. n slots hold n - 1 items.
CONFIGURATIONS = [
    Run("core, 2 slots", "SLOTS=2", LAPS),
    Run("core, 3 slots", "FIRST=2 ITEMS=5 CLAIMS=2", LAPS + " wakes_two claimed_two"),
    Run("core, 4 slots", "SLOTS=4 FIRST=3 ITEMS=5", LAPS + " wakes_two"),
    Run("quota of 1", QUOTA, f"{LAPS} {DEFERS} yielded over_quota"),
    Run("quota of 2", "SLOTS=4 FIRST=3 LIMITED=15 QUOTA=2", f"{BASIC} {DEFERS} over_quota"),
    Run("batch", BATCH + " CLAIMS=2 AWAITS=4", f"{LAPS} {DEFERS} fence_waited claimed_two"),
    Run("stop", "STOP FIRST=2 ITEMS=3 YIELDS=1",
        f"{BASIC} {DEFERS} {STOPS} yielded cancelled_yield"),
    Run("stop, all at once", BATCH + " STOP WORKERS=2 CLAIMS=2 YIELDS=1 FAULTS=2 LIMITED=15",
        f"{LAPS} {DEFERS} {STOPS} yielded over_quota fence_waited cancelled_yield left_claimed"),
    Run("SHUTDOWN", "STOP SHUTS=1 FIRST=2", f"{LAPS} {STOPS}"),
    Run("bell", "BELL WORKERS=2 FIRST=2 CLAIMS=2", LAPS + " heard_bell claimed_two"),
    Run("helper", "HELPERS=1 WORKERS=2 FIRST=2 YIELDS=1", f"{LAPS} {DEFERS} yielded"),
    Run("helper, stop", "STOP HELPERS=1 WORKERS=1 FIRST=2 CLAIMS=2 YIELDS=1",
        f"{LAPS} {DEFERS} {STOPS} yielded cancelled_yield left_claimed"),
    Run("2 producers", "PRODUCERS=2", LAPS + " published_ahead"),
    Run("2 producers, stop", "STOP PRODUCERS=2 WORKERS=2 YIELDS=1",
        f"{LAPS} {DEFERS} {STOPS} yielded cancelled_yield published_ahead"),
    Run("progress", "LIVENESS WORKERS=2 PRODUCERS=2 YIELDS=1", LAPS + " took_deferred yielded"),
    Run("progress, quota", "LIVENESS WORKERS=2 " + QUOTA, f"{LAPS} {DEFERS} yielded over_quota"),
    Run("progress, batch", BATCH + " LIVENESS WORKERS=2 CLAIMS=2 AWAITS=4",
        f"{LAPS} {DEFERS} fence_waited"),
]

# One of each kind: a lap, a stop with everything in it, waiting, helping, progress.
QUICK = {"core, 2 slots", "stop, all at once", "bell", "helper, stop", "progress, batch"}

WRONG_PAYLOAD = r"assertion violated \(copy==\(ticket\+1\)\)"
STUCK = r"invalid end state"
LIVELOCK = r"acceptance cycle"

MUTANTS = [
    Run("no_release_at_publish", "", found_by=WRONG_PAYLOAD),
    Run("no_acquire_at_claim", "", found_by=WRONG_PAYLOAD),
    Run("payload_read_before_claim", "", found_by=WRONG_PAYLOAD),
    Run("done_before_effects", "", found_by=r"effect\["),
    Run("double_claim", "", found_by=r"held|ended"),
    Run("lost_wakeup", "", found_by=STUCK),
    Run("fence_does_not_wait", BATCH, found_by=r"ended"),
    Run("recycle_before_reap", "PRODUCERS=2", found_by=r"status|ended"),
    Run("quota_not_given_back", QUOTA, found_by=STUCK),
    Run("putback_loses_slot", QUOTA, found_by=STUCK),
    Run("yield_counts_done", QUOTA, found_by=r"done_count"),
    Run("cancel_against_claim", "STOP", found_by=r"assertion"),
    # Mistakes that look correct: each shows why a part of the protocol is needed.
    Run("full_ring", "", found_by=WRONG_PAYLOAD),
    Run("head_relaxed", "", found_by=WRONG_PAYLOAD),
    Run("list_before_status", "YIELDS=1", found_by=r"held|as_was"),
    Run("sleep_beside_list", "YIELDS=1", found_by=STUCK),
    Run("sleep_through_stop", "STOP", found_by=STUCK),
    Run("reserve_after_stop", "STOP", found_by=r"noted"),
    Run("cancel_waits_with_lock", BATCH + " STOP WORKERS=2", found_by=STUCK),
    Run("shutdown_leaves_sleepers", "STOP SHUTS=1", found_by=STUCK),
    Run("batch_not_held", BATCH + " AWAITS=4", found_by=STUCK),
    Run("helper_defers_silently", "HELPERS=1 WORKERS=1 YIELDS=1", found_by=STUCK),
    Run("nap_chosen_before_sleep", "HELPERS=1 WORKERS=1 YIELDS=1", found_by=STUCK),
    Run("helper_outlives_stop", "STOP HELPERS=1 WORKERS=1", found_by=r"cancelled|held|done_stores"),
    Run("bell_without_second_look", "BELL WORKERS=2", found_by=STUCK),
    Run("quota_overshoot", "LIVENESS WORKERS=2 " + QUOTA, found_by=LIVELOCK),
    Run("list_first", "LIVENESS SLOTS=4 WORKERS=1 FENCE=2 BATCH=1 AWAITS=0", found_by=LIVELOCK),
]


@dataclass
class Result:
    output: str
    seconds: float  # of processor time
    complaint: str  # empty if the run is as expected

    def figure(self, pattern):
        match = re.search(pattern, self.output)
        return match.group(1) if match else "-"


def processor_seconds():
    """Processor time of the commands so far; unlike wall time, other processes do not add to it."""
    times = os.times()
    return times.children_user + times.children_system


def defines(run, is_mutant):
    macros = run.macros.split() + ([f"MUTANT_{run.name}"] if is_mutant else [])
    return [f"-D{macro}" for macro in macros]


def call(command, folder):
    """Whether a command succeeded, and its standard output and error; a timeout is in the text."""
    try:
        done = subprocess.run(command, cwd=folder, timeout=SECONDS_A_RUN, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return False, f"timed out after {SECONDS_A_RUN} s: {command[0]}\n"
    return done.returncode == 0, done.stdout


def complaint_of_configuration(run, output):
    if message := ERROR.search(output):
        return message.group(1)
    if cut := CUT_SHORT.search(output):
        return f"search cut short: {cut.group()}"
    if not re.search(r"errors: 0$", output, re.M):
        return "no count of errors"
    if "Full statespace search" not in output or "Partial Order Reduction" not in output:
        return "not the search that was asked for"
    if missed := set(run.reaches.split()) - set(re.findall(r"^reached: (\w+)$", output, re.M)):
        return "never reached: " + ", ".join(sorted(missed))
    return ""


def complaint_of_mutant(run, output):
    message = ERROR.search(output)
    if not message or not re.search(r"errors: [1-9]", output):
        return "not found"
    if not re.search(run.found_by, message.group(1)):
        return f"found by something else: {message.group(1)}"
    return ""


def check(run, is_mutant, spin, compiler, folder):
    """Generates, compiles and runs the verifier of one configuration or mutant."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    started = processor_seconds()
    (folder / MODEL.name).write_bytes(MODEL.read_bytes())  # the trail is written beside it
    # A mutant is found at once, so that compiling takes most of its time.
    flags = ["-O0" if is_mutant else "-O2", f"-DMEMLIM={MEMORY_MB}"]
    flags += [] if run.is_liveness else ["-DSAFETY"]
    verify = ["./pan", f"-m{MAX_DEPTH}", "-b"] + (["-w18"] if is_mutant else [])
    verify += ["-a", "-f"] if run.is_liveness else []
    output = ""
    for command in ([spin, *defines(run, is_mutant), "-a", MODEL.name],
                    [compiler, *flags, "-o", "pan", "pan.c"]):
        succeeded, said = call(command, folder)
        output += said
        if not succeeded:
            return Result(output, processor_seconds() - started, f"{Path(command[0]).name} failed")
    _, said = call(verify, folder)
    output += said
    judge = complaint_of_mutant if is_mutant else complaint_of_configuration
    return Result(output, processor_seconds() - started, judge(run, said))


def show_failure(run, is_mutant, result, spin, folder):
    """Prints the output of pan, and the last steps that led to an unexpected error."""
    print(result.output)
    if not list(folder.glob("*.trail")):
        return
    _, trail = call([spin, *defines(run, is_mutant), "-t", "-p", "-g", MODEL.name], folder)
    steps = [line for line in trail.splitlines() if "c_code" not in line]
    print("\n".join(steps[-TRAIL_LINES:]))


def check_all(runs, is_mutant, spin, compiler, base):
    print(f"{'run':26} {'states':>10} {'depth':>6} {'memory MB':>10} {'CPU s':>6}  verdict")
    failures = 0
    for run in runs:
        folder = base / re.sub(r"\W+", "_", run.name)
        result = check(run, is_mutant, spin, compiler, folder)
        good = f"found: {result.figure(ERROR)}" if is_mutant else "no error"
        verdict = f"FAILED: {result.complaint}" if result.complaint else good
        print(f"{run.name:26} {result.figure(STATES):>10} {result.figure(DEPTH):>6}"
              f" {result.figure(MEMORY):>10} {result.seconds:6.1f}  {verdict}", flush=True)
        if result.complaint:
            failures += 1
            show_failure(run, is_mutant, result, spin, folder)
    return failures


def main(arguments):
    assert QUICK <= {run.name for run in CONFIGURATIONS}
    sets = {"model": CONFIGURATIONS, "mutants": MUTANTS,
            "quick": [run for run in CONFIGURATIONS if run.name in QUICK]}
    if len(arguments) != 4 or arguments[0] not in sets:
        print("usage: check.py model|quick|mutants SPIN CC FOLDER", file=sys.stderr)
        return 2
    what, spin, compiler, folder = arguments
    failures = check_all(sets[what], what == "mutants", spin, compiler, Path(folder) / what)
    print(f"{what}: {len(sets[what])} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
