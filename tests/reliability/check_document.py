#!/usr/bin/env python3
"""Checks that the commands of docs/reliability.md run tests: every pattern of every gtest filter
matches a test of its program.

    check_document.py DOCUMENT PROGRAM_FOLDER
"""

import re
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r"`(\w+_test)(?: --gtest_filter=([^`\s]+))?`")


def has_tests(program, pattern):
    """Whether the program has a test of that name."""
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={pattern}"],
                            capture_output=True, text=True, check=True).stdout
    return any(line.startswith("  ") for line in listed.splitlines())


def main():
    document, folder = Path(sys.argv[1]), Path(sys.argv[2])
    commands = COMMAND.findall(document.read_text())
    if len(commands) < 20:
        sys.exit(f"{document}: only {len(commands)} commands: the format of the table has changed")
    wrong = []
    for name, patterns in commands:
        program = folder / name
        if not program.exists():
            wrong.append(f"there is no program {name}")
            continue
        for pattern in (patterns or "*").split(":"):
            if not has_tests(program, pattern):
                wrong.append(f"{name} has no test {pattern}")
    if wrong:
        sys.exit("\n".join(f"{document}: {line}" for line in wrong))


if __name__ == "__main__":
    main()
