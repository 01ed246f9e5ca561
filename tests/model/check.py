#!/usr/bin/env python3
"""Checks the models of queues, queue.pml and recover.pml, with Spin: exhaustively, or with mistakes
put in.

    check.py model SPIN CC FOLDER     every configuration has no error and reaches its steps
    check.py quick SPIN CC FOLDER     the same of the few configurations that take seconds
    check.py mutants SPIN CC FOLDER   every mutant is found, by the property that forbids it

The verifiers are built in FOLDER, which is created if needed. Prints a table for each of the two
models, with one line for each run; exit 1 if a run fails. A search that was cut short by depth,
memory or time proves nothing and counts as a failure.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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


LAPS = "lost_claim lost_floor next_lap noted_for_room"
SLEEPS = "woke_up found_when_armed rang_for_other lost_claim"
FEEDS = "woke_up found_when_armed"
FENCES = "fence_deferred lost_fence"
WAITS = "woken_host waited_by_note passed_by_noted"
CLOSES = "refused cancelled_without_outcome gave_up_hole"
# The long item of queue 0, or of queue 1, ends after one that another worker must take.
LONG = "LONG=0 LONG_FOR=1"
LONG_BESIDE_FENCE = "LONG=0 LONG_AT=1 LONG_FOR=1"
OWN_QUEUE = "ITEMS0=1 ITEMS1=1 ANY_ORDER RING_OWN_QUEUE LOOK_FIRST LONG=0 LONG_FOR=0 LONG_QUEUE=1"
FENCE = "FENCE=1 BATCH=1"
WIDE_FENCE = "QUEUES=1 PLACES=4 FENCE=2 BATCH=2"

# QUEUES 2, PLACES 2, WORKERS 2, ITEMS0 2, ITEMS1 2, PRODUCERS 1, CLAIMS 1 unless said.
QUEUE = [
    Run("1 and 1 items", "ITEMS0=1 ITEMS1=1 ANY_ORDER LONG=0 LONG_FOR=0 LONG_QUEUE=1", SLEEPS),
    Run("2 and 2 items", "ANY_ORDER", SLEEPS),
    Run("3 and 1 items", "ITEMS0=3 ITEMS1=1 ANY_ORDER", f"{LAPS} {SLEEPS}"),
    Run("claims of two", "ITEMS0=3 ITEMS1=1 FIRST=2 CLAIMS=2",
        f"{LAPS} {SLEEPS} claimed_two published_ahead"),
    Run("laps, polled", "ITEMS0=3 ITEMS1=1 FIRST=2 CLAIMS=2 POLL",
        LAPS + " claimed_two published_ahead"),
    Run("two laps and more", "ITEMS0=5 ITEMS1=3 FIRST=2 CLAIMS=2 POLL",
        LAPS + " claimed_two published_ahead missed_floor"),
    Run("eager floor", "ITEMS0=3 ITEMS1=2 EAGER POLL", LAPS),
    Run("floor by a walk", "ITEMS0=5 ITEMS1=3 FIRST=2 CLAIMS=2 WALK POLL", LAPS + " claimed_two"),
    Run("copy before claim", "ITEMS0=4 ITEMS1=3 FIRST=2 CLAIMS=2 POLL COPY_BEFORE_CLAIM",
        LAPS + " claimed_two"),
    Run("long item", "ITEMS1=1 " + LONG, SLEEPS),
    Run("long item, 3 workers", "QUEUES=1 WORKERS=3 PLACES=4 ITEMS0=3 FIRST=2 LONG=0 LONG_FOR=2",
        SLEEPS),
    Run("ring for own queue", "RING_OWN_QUEUE LOOK_FIRST LONG=1 LONG_FOR=1 LONG_QUEUE=1", SLEEPS),
    Run("ring for own queue, laps",
        "ITEMS0=3 ITEMS1=1 FIRST=2 RING_OWN_QUEUE LOOK_FIRST LONG=0 LONG_AT=1 LONG_FOR=2",
        f"{LAPS} {SLEEPS}"),
    Run("2 producers", "QUEUES=1 PRODUCERS=2", SLEEPS + " lost_reservation published_ahead"),
    Run("2 producers, laps", "QUEUES=1 ITEMS0=4 PRODUCERS=2 POLL",
        LAPS + " lost_reservation published_ahead"),
    Run("2 producers, by two", "QUEUES=1 ITEMS0=4 PRODUCERS=2 FIRST=2 CLAIMS=2 POLL",
        LAPS + " lost_reservation claimed_two"),
    Run("waiter", "QUEUES=1 WAITS=0", f"{SLEEPS} {WAITS}"),
    Run("waiter, laps", "QUEUES=1 ITEMS0=3 WAITS=0 CLAIMS=2 POLL", f"{LAPS} {WAITS} claimed_two"),
    Run("waiter, two laps", "QUEUES=1 ITEMS0=5 WAITS=0 POLL", f"{LAPS} {WAITS}"),
    Run("waiter, 2 producers", "QUEUES=1 PRODUCERS=2 WAITS=0 POLL", WAITS + " lost_reservation"),
    Run("fence", "ITEMS0=3 ITEMS1=1 " + FENCE, f"{LAPS} {SLEEPS} {FENCES} fence_by_floor"),
    Run("fence, laps", f"QUEUES=1 ITEMS0=3 {FENCE}", f"{LAPS} {SLEEPS} {FENCES} fence_by_floor"),
    Run("fence, eager floor", f"QUEUES=1 ITEMS0=3 {FENCE} EAGER ANY_ORDER",
        f"{LAPS} {SLEEPS} {FENCES} fence_by_floor"),
    Run("fence, floor by a walk", f"QUEUES=1 ITEMS0=4 {FENCE} EAGER WALK",
        f"{LAPS} {SLEEPS} {FENCES} fence_by_floor"),
    Run("fence of two", WIDE_FENCE + " ITEMS0=5 FIRST=2 CLAIMS=2",
        f"{LAPS} {SLEEPS} {FENCES} fence_by_floor claimed_two"),
    Run("fence, long item", f"ITEMS1=1 ANY_ORDER {FENCE} {LONG_BESIDE_FENCE}",
        f"{SLEEPS} {FENCES}"),
    Run("feed", "QUEUES=1 ITEMS0=3 FEED", FEEDS + " lost_claim next_lap noted_for_room"),
    Run("feed, laps", "QUEUES=1 ITEMS0=5 FEED POLL", "lost_claim next_lap noted_for_room"),
    Run("feed, long item", f"QUEUES=1 FIRST=2 FEED {LONG}", FEEDS),
    Run("feed, 3 workers", "QUEUES=1 WORKERS=3 PLACES=4 ITEMS0=3 FIRST=2 FEED LONG=0 LONG_FOR=2",
        FEEDS),
    Run("producer dies", "DIES", SLEEPS + " died"),
    Run("hostile", "ITEMS0=1 HOSTILE=3", SLEEPS + " bad_copy place_not_free"),
    Run("hostile, 3 writes", "ITEMS0=1 HOSTILE=3 POLL", "bad_copy place_not_free next_lap"),
    Run("hostile, polled", "ITEMS0=1 HOSTILE=5 POLL", "bad_copy place_not_free next_lap"),
    Run("hostile, claims of two", "ITEMS0=1 HOSTILE=4 CLAIMS=2 POLL",
        "bad_copy place_not_free claimed_two"),
    Run("hostile, floor by a walk", "ITEMS0=1 HOSTILE=4 WALK POLL", "place_not_free next_lap"),
    Run("hostile, copy before claim", "ITEMS0=1 HOSTILE=5 POLL COPY_BEFORE_CLAIM",
        "bad_copy place_not_free next_lap"),
    Run("close", "QUEUES=1 CLOSE DIES", f"{SLEEPS} {CLOSES} died"),
    Run("close, stop", "QUEUES=1 CLOSE STOP", f"{SLEEPS} {CLOSES}"),
    Run("close, fence", f"QUEUES=1 CLOSE {FENCE}", f"{SLEEPS} {CLOSES} {FENCES}"),
    Run("close, beside a queue", "ITEMS0=1 CLOSE STOP DIES POLL", CLOSES + " died"),
    Run("close, 2 producers", "QUEUES=1 PRODUCERS=2 CLOSE DIES POLL",
        CLOSES + " died lost_reservation published_ahead"),
    Run("close, waiter", "QUEUES=1 WAITS=0 CLOSE POLL", f"{CLOSES} {WAITS}"),
    Run("close, one worker", "QUEUES=1 WORKERS=1 WAITS=0 CLOSE STOP POLL", f"{CLOSES} {WAITS}"),
    Run("close, waiter, laps", "QUEUES=1 WORKERS=1 ITEMS0=3 WAITS=0 CLOSE POLL",
        f"{CLOSES} {WAITS} next_lap noted_for_room"),
    Run("close, hostile", "ITEMS0=1 HOSTILE=3 CLOSE POLL", "bad_copy place_not_free"),
    Run("cancel", "QUEUES=1 ITEMS0=3 FIRST=2 CLOSE CANCEL DIES POLL",
        f"{CLOSES} {LAPS} cancelled_by_worker died"),
    Run("cancel, waiter", "QUEUES=1 WAITS=0 CLOSE CANCEL POLL",
        f"{CLOSES} {WAITS} cancelled_by_worker"),
]

LOSSES = "lost_before_effects lost_before_outcome hole fault_that_ran fault_that_did_not"

# PLACES 2, WORKERS 2, ITEMS 4, PRODUCERS 1, LOSSES 1, AHEAD 1 unless said.
RECOVER = [
    Run("loss", "", LOSSES + " bound_arrived"),
    Run("loss, bound far ahead", "FIRST=2 AHEAD=2", LOSSES + " passed_ended"),
    Run("two losses", "PRODUCERS=2 LOSSES=2", LOSSES),
    Run("two losses, pure items", "PRODUCERS=2 ITEMS=6 FIRST=2 LOSSES=2 AHEAD=2 PURE=18",
        LOSSES + " passed_ended ran_again"),
    Run("4 places", "PLACES=4 PRODUCERS=2 ITEMS=6 FIRST=2 AHEAD=2", LOSSES + " passed_ended"),
    Run("stop at the first hole",
        "PRODUCERS=2 ITEMS=6 FIRST=2 LOSSES=2 AHEAD=2 STOP_AT_HOLE", LOSSES),
]

CONFIGURATIONS = {"queue.pml": QUEUE, "recover.pml": RECOVER}

# One of each kind: sleeping, laps, waiting, fences, a run, a hostile producer, closing, a loss.
QUICK = {"1 and 1 items", "laps, polled", "waiter, laps", "fence, laps", "feed",
         "hostile, 3 writes", "close, one worker", "loss, bound far ahead"}

STUCK = r"invalid end state"
WRONG_ENTRY = r"body\[|copy=="
TOO_EARLY = r"ended\[queue\]|ended\[0\]"
WRONG_RESULT = r"result=="
AFTER_CLOSED = r"state\["

QUEUE_MUTANTS = [
    # Entries and places.
    Run("no_lap_bit", "QUEUES=1 ITEMS0=3 POLL", found_by=WRONG_ENTRY),
    Run("first_ticket_in_odd_lap", "QUEUES=1 ITEMS0=1 POLL", found_by=WRONG_ENTRY),
    Run("lap_before_body", "QUEUES=1 ITEMS0=1 POLL", found_by=WRONG_ENTRY),
    Run("reserve_by_addition", "QUEUES=1 ITEMS0=4 PRODUCERS=2 POLL", found_by=STUCK),
    Run("room_without_note", "QUEUES=1 ITEMS0=4 PRODUCERS=2 POLL", found_by=STUCK),
    Run("noted_before_note", "QUEUES=1 ITEMS0=4 PRODUCERS=2 POLL", found_by=TOO_EARLY),
    # Taking.
    Run("tail_believed", "QUEUES=1 ITEMS0=1 POLL", found_by=WRONG_ENTRY),
    Run("filled_believed", "QUEUES=1 PRODUCERS=2 POLL", found_by=WRONG_ENTRY),
    Run("waits_for_entry", "ITEMS0=1 ITEMS1=1 WORKERS=1 DIES", found_by=STUCK),
    Run("double_claim", "QUEUES=1 ITEMS0=1 POLL", found_by=r"effects"),
    Run("copy_before_look", "QUEUES=1 ITEMS0=1 POLL", found_by=WRONG_ENTRY),
    Run("check_before_copy", "ITEMS0=1 HOSTILE=2 POLL", found_by=r"copy==1"),
    Run("no_floor_check", "ITEMS0=1 HOSTILE=3 POLL", found_by=TOO_EARLY),
    Run("floor_without_lap_bit", "ITEMS0=1 HOSTILE=5 POLL", found_by=TOO_EARLY),
    Run("floor_stored", "QUEUES=1 ITEMS0=5 POLL", found_by=STUCK),
    # Outcomes and fences.
    Run("outcome_before_effects", "QUEUES=1 ITEMS0=1 WAITS=0 POLL", found_by=r"effects"),
    Run("outcome_without_lap_bit", "QUEUES=1 ITEMS0=5 POLL", found_by=TOO_EARLY),
    Run("no_second_look_at_noted", "QUEUES=1 WORKERS=1 ITEMS0=5 WAITS=0 POLL",
        found_by=WRONG_RESULT),
    Run("fence_looks_at_last", WIDE_FENCE + " ITEMS0=3", found_by=TOO_EARLY),
    Run("fence_ignores_floor", "QUEUES=1 ITEMS0=3 " + FENCE, found_by=STUCK),
    Run("visit_removes", "QUEUES=1 " + FENCE, found_by=STUCK),
    # Sleeping.
    Run("armed_after_look", "QUEUES=1 ITEMS0=1", found_by=STUCK),
    Run("armed_as_bit", "QUEUES=1 " + LONG, found_by=STUCK),
    Run("armed_read_before_entry", "QUEUES=1 ITEMS0=1", found_by=STUCK),
    Run("no_ring_for_others", "QUEUES=1 FIRST=2 " + LONG, found_by=STUCK),
    Run("feed_rings_once", f"QUEUES=1 FIRST=2 FEED {LONG}", found_by=STUCK),
    Run("ring_ignores_deferred", f"ITEMS1=1 ANY_ORDER {FENCE} {LONG_BESIDE_FENCE}",
        found_by=STUCK),
    Run("bell_read_before_entry", "QUEUES=1", found_by=STUCK),
    Run("bell_resets", "QUEUES=1 ITEMS0=1 CLOSE STOP", found_by=STUCK),
    Run("bell_resets_while_open", OWN_QUEUE, found_by=STUCK),
    Run("arms_without_look", OWN_QUEUE, found_by=STUCK),
    Run("look_before_sleepers", "QUEUES=1 ITEMS0=1 WAITS=0 POLL", found_by=STUCK),
    Run("sleepers_read_early", "QUEUES=1 ITEMS0=1 WAITS=0 POLL", found_by=STUCK),
    Run("wake_read_late", "QUEUES=1 ITEMS0=1 WAITS=0 POLL", found_by=STUCK),
    # Closing.
    Run("accepted_means_ended", "QUEUES=1 ITEMS0=1 WAITS=0 CLOSE POLL", found_by=STUCK),
    Run("drain_waits_for_tail", "QUEUES=1 ITEMS0=1 CLOSE DIES POLL", found_by=STUCK),
    Run("drain_leaves_valid", "QUEUES=1 ITEMS0=1 CLOSE POLL", found_by=r"due"),
    Run("no_seal", "QUEUES=1 ITEMS0=1 CLOSE POLL", found_by=AFTER_CLOSED),
    Run("closed_before_outcomes", "QUEUES=1 ITEMS0=1 CLOSE POLL", found_by=AFTER_CLOSED),
    Run("outcome_read_before_closed", "QUEUES=1 ITEMS0=1 WAITS=0 CLOSE POLL",
        found_by=WRONG_RESULT),
    Run("cancelled_without_second_look", "QUEUES=1 WORKERS=1 ITEMS0=3 WAITS=0 CLOSE POLL",
        found_by=WRONG_RESULT),
    Run("close_rings_once", "QUEUES=1 ITEMS0=1 CLOSE DIES", found_by=STUCK),
    Run("close_wakes_nobody", "QUEUES=1 ITEMS0=1 WAITS=0 CLOSE POLL", found_by=STUCK),
]

RAN_TWICE = r"ran>>"

RECOVER_MUTANTS = [
    Run("tail_read_twice", "FIRST=2", found_by=STUCK),
    Run("no_fence_behind_taken", "", found_by=RAN_TWICE),
    Run("runs_above_bound", "", found_by=RAN_TWICE),
    Run("runs_all_again", "", found_by=RAN_TWICE),
    Run("forgets_ended", "FIRST=2 AHEAD=2", found_by=STUCK + r"|ended"),
    Run("skips_only_valid", "FIRST=2 AHEAD=2", found_by=STUCK),
    Run("skips_above_floor", "ITEMS=5", found_by=STUCK),
]

MUTANTS = {"queue.pml": QUEUE_MUTANTS, "recover.pml": RECOVER_MUTANTS}

# How the verifiers are compiled: a short search takes less time than optimising it.
OPTIMISE = {"model": "-O2", "quick": "-Og", "mutants": "-O0"}


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


def check(run, model, what, spin, compiler, folder):
    """Generates, compiles and runs the verifier of one configuration or mutant of a model."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    started = processor_seconds()
    (folder / model.name).write_bytes(model.read_bytes())  # the trail is written beside it
    is_mutant = what == "mutants"
    output = ""
    for command in ([spin, *defines(run, is_mutant), "-a", model.name],
                    [compiler, OPTIMISE[what], f"-DMEMLIM={MEMORY_MB}", "-DSAFETY", "-o", "pan",
                     "pan.c"]):
        succeeded, said = call(command, folder)
        output += said
        if not succeeded:
            return Result(output, processor_seconds() - started, f"{Path(command[0]).name} failed")
    _, said = call(["./pan", f"-m{MAX_DEPTH}", "-b"] + (["-w18"] if is_mutant else []), folder)
    judge = complaint_of_mutant if is_mutant else complaint_of_configuration
    return Result(output + said, processor_seconds() - started, judge(run, said))


def show_failure(run, model, what, result, spin, folder):
    """Prints the output of pan, and the last steps that led to an unexpected error."""
    print(result.output)
    if not list(folder.glob("*.trail")):
        return
    _, trail = call([spin, *defines(run, what == "mutants"), "-t", "-p", "-g", model.name], folder)
    steps = [line for line in trail.splitlines() if "c_code" not in line]
    print("\n".join(steps[-TRAIL_LINES:]))


def check_all(runs, model, what, spin, compiler, base):
    print(f"{model.name:30} {'states':>10} {'depth':>6} {'memory MB':>10} {'CPU s':>6}  verdict")
    failures = 0
    for run in runs:
        folder = base / model.stem / re.sub(r"\W+", "_", run.name)
        result = check(run, model, what, spin, compiler, folder)
        good = f"found: {result.figure(ERROR)}" if what == "mutants" else "no error"
        verdict = f"FAILED: {result.complaint}" if result.complaint else good
        print(f"{run.name:30} {result.figure(STATES):>10} {result.figure(DEPTH):>6}"
              f" {result.figure(MEMORY):>10} {result.seconds:6.1f}  {verdict}", flush=True)
        if result.complaint:
            failures += 1
            show_failure(run, model, what, result, spin, folder)
    return failures


def main(arguments):
    assert QUICK <= {run.name for runs in CONFIGURATIONS.values() for run in runs}
    quick = {model: [run for run in runs if run.name in QUICK]
             for model, runs in CONFIGURATIONS.items()}
    sets = {"model": CONFIGURATIONS, "mutants": MUTANTS, "quick": quick}
    if len(arguments) != 4 or arguments[0] not in sets:
        print("usage: check.py model|quick|mutants SPIN CC FOLDER", file=sys.stderr)
        return 2
    what, spin, compiler, folder = arguments
    count = failures = 0
    for model, runs in sets[what].items():
        failures += check_all(runs, Path(__file__).with_name(model), what, spin, compiler,
                              Path(folder) / what)
        count += len(runs)
    print(f"{what}: {count} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
