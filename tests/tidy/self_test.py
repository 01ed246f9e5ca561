"""Shows that tidy and public_docs report each violation, and nothing else.

    self_test.py ROOT DOXYGEN

Each case is the clean tree with one edit (fixtures/cases.py) and must give just one violation, of
the expected rule at the expected place. For public_docs each doc comment of a documented header is
taken away in turn; the comment itself says which symbol must then be reported.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent / "fixtures"
DOC_COMMENT = r"///<? (\w+) (\S+)\n"  # kind, name
sys.dont_write_bytecode = True
sys.path.insert(0, str(FIXTURES))
from cases import CASES  # noqa: E402


def run(script, *arguments):
    """Exit status and lines of a script, without its closing summary."""
    command = [sys.executable, "-B", str(script), *map(str, arguments)]
    done = subprocess.run(command, text=True, capture_output=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()[:-1]


def apply(case, tree):
    path = tree / case.path
    if case.new is None:
        path.unlink()
    elif case.old is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.new if isinstance(case.new, bytes) else case.new.encode())
    else:
        text = path.read_bytes().decode()
        if text.count(case.old) != 1:
            raise SystemExit(f"{case.name}: {case.old!r} is not once in {case.path}")
        path.write_bytes(text.replace(case.old, case.new).encode())


def tidy_failures(tidy):
    status, found = run(tidy, FIXTURES / "clean")
    if status != 0 or found:
        yield f"the clean tree: exit {status}, {found}"
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch) / "tree"
            shutil.copytree(FIXTURES / "clean", tree)
            apply(case, tree)
            status, found = run(tidy, tree)
        if status != 1 or len(found) != 1 or not found[0].startswith(case.expected + ": "):
            yield f"{case.name}: expected {case.expected}, got exit {status}, {found}"


def untested_rules(tidy):
    """Every rule tidy can report has a case."""
    named = set(re.findall(r'(?:violation\(.*?|Violation\(.*?|Ban\()"([a-z-]+)"', tidy.read_text()))
    for rule in sorted(named - {case.expected.rsplit(" ", 1)[1] for case in CASES}):
        yield f"rule {rule} has no case"


def docs_failures(public_docs, doxygen):
    documented = FIXTURES / "documented"
    header = next(documented.rglob("*.hpp"))
    status, found = run(public_docs, documented, doxygen)
    if status != 0 or found:
        yield f"the documented header: exit {status}, {found}"
    text = header.read_text()
    for comment in re.finditer(DOC_COMMENT, text):
        kind, name = comment.groups()
        with tempfile.TemporaryDirectory() as scratch:
            edited = Path(scratch) / header.relative_to(documented)
            edited.parent.mkdir(parents=True)
            edited.write_text(text[: comment.start()] + "\n" + text[comment.end() :])
            status, found = run(public_docs, scratch, doxygen)
        expected = f": undocumented: say what the {kind} `{name}` is for"
        if status != 1 or len(found) != 1 or not found[0].endswith(expected):
            yield f"{kind} {name}: got exit {status}, {found}"


def main(root, doxygen):
    tools = Path(root) / "tools"
    failures = [
        *tidy_failures(tools / "tidy.py"),
        *untested_rules(tools / "tidy.py"),
        *docs_failures(tools / "public_docs.py", doxygen),
    ]
    for failure in failures:
        print(failure)
    print(f"self_test: {len(CASES)} cases of tidy, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
