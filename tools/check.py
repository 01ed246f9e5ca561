#!/usr/bin/env python3
"""Configures, builds and tests presets of CMakePresets.json, and says where the time went.

    tools/check.py PRESET…      does it; ends with the ten slowest parts of these presets
    tools/check.py --slowest    prints the ten slowest parts of the last check of every preset

A part is the configuration, one target's compilation (seconds of all its jobs, which run side by
side) or one test. Exit status: that of the first step that failed, else 0.
"""

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SHOWN = 10
OBJECT = re.compile(r"(?:(?P<folder>.*)/)?CMakeFiles/(?P<target>[^/]+)\.dir/.*\.o$")


def target_of(output):
    """The target an output of the build belongs to: for objects that of their folder."""
    match = OBJECT.match(output)
    if not match:
        return "links and generated files"
    return match["target"].replace("_verify_interface_header_sets", " headers alone")


def log_lines(folder):
    path = folder / ".ninja_log"
    return set(path.read_text().splitlines()[1:]) if path.exists() else set()


def build_parts(preset, folder, before):
    """Seconds by target of the jobs in ninja's log that are not in the lines `before`."""
    seconds, jobs = defaultdict(float), defaultdict(int)
    for line in log_lines(folder) - before:
        begin, end, _, output, _ = line.split("\t")
        target = target_of(output)
        seconds[target] += (int(end) - int(begin)) / 1000
        jobs[target] += 1
    return [(seconds[t], f"{preset}: build {t} ({jobs[t]} jobs)") for t in seconds]


def test_parts(preset, junit):
    if not junit.exists():
        return []
    return [(float(case.get("time")), f"{preset}: test {case.get('name')}")
            for case in xml.parse(junit).getroot().iter("testcase")]


def step(command):
    print("$ " + " ".join(map(str, command)), flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


def check(preset):
    """Runs one preset. Returns the exit status, and leaves its parts in build/PRESET.parts.json."""
    folder, junit = BUILD / preset, BUILD / f"{preset}.tests.xml"
    junit.unlink(missing_ok=True)
    before = log_lines(folder)
    begin = time.monotonic()
    status = step(["cmake", "--preset", preset])
    parts = [(time.monotonic() - begin, f"{preset}: configure")]
    if status == 0:
        status = step(["cmake", "--build", "--preset", preset])
        parts += build_parts(preset, folder, before)
    built = time.monotonic()
    if status == 0:
        jobs = str(len(os.sched_getaffinity(0)))
        status = step(["ctest", "--preset", preset, "--parallel", jobs, "--output-junit", junit])
        parts += test_parts(preset, junit)
    print(f"{preset}: built in {built - begin:.0f} s, tested in {time.monotonic() - built:.0f} s")
    (BUILD / f"{preset}.parts.json").write_text(json.dumps(parts))
    return status


def print_slowest(presets):
    parts = []
    for preset in presets:
        path = BUILD / f"{preset}.parts.json"
        parts += json.loads(path.read_text()) if path.exists() else []
    print("\nslowest parts:")
    for seconds, name in sorted(parts, reverse=True)[:SHOWN]:
        print(f"{seconds:7.1f} s  {name}")


def main(arguments):
    if arguments == ["--slowest"]:
        print_slowest(path.name.split(".")[0] for path in sorted(BUILD.glob("*.parts.json")))
        return 0
    if not arguments or any(a.startswith("-") for a in arguments):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    BUILD.mkdir(exist_ok=True)
    begin = time.monotonic()
    status = 0
    for preset in arguments:
        status = status or check(preset)
    print_slowest(arguments)
    print(f"\n{'passed' if status == 0 else 'FAILED'}: {', '.join(arguments)} "
          f"in {(time.monotonic() - begin) / 60:.1f} minutes")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
