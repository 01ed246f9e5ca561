#!/usr/bin/env python3
"""Checks that every public symbol of include/everkernel has a doc comment.

    tools/public_docs.py ROOT [DOXYGEN]

Doxygen reads the headers with EXTRACT_ALL, and this script looks for empty descriptions in its XML.
Doxygen's own "is not documented" warnings leave out friends, and members of a namespace or class
that has no comment. Private members, namespace detail and friend classes need no comment. Any
warning of Doxygen about a comment fails the check too.
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SETTINGS = """
INPUT = "{root}/include/everkernel"
STRIP_FROM_PATH = "{root}"
OUTPUT_DIRECTORY = "{output}"
FILE_PATTERNS = *.hpp
RECURSIVE = YES
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
INHERIT_DOCS = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_NO_PARAMDOC = NO
WARN_FORMAT = "$file:$line: doc-error: $text"
"""
TYPES = {"class", "struct", "union", "concept"}


def run_doxygen(doxygen, root, output):
    """The roots of the XML files Doxygen made, and its warnings."""
    settings = SETTINGS.format(root=root, output=output)
    done = subprocess.run([doxygen, "-"], input=settings, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"error: {doxygen} failed\n{done.stderr}")
    files = sorted((output / "xml").glob("*.xml"))
    trees = [ElementTree.parse(file).getroot() for file in files]
    warnings = [line.replace(f"{root}/", "") for line in done.stderr.splitlines() if line.strip()]
    return [compound for tree in trees for compound in tree.findall("compounddef")], warnings


def is_documented(element):
    texts = (element.find("briefdescription"), element.find("detaileddescription"))
    return any("".join(text.itertext()).strip() for text in texts if text is not None)


def symbols(compound):
    """Yields (element, kind, name, location) of a compound's own symbols, itself included."""
    scope = compound.findtext("compoundname")
    if compound.get("kind") in TYPES:
        yield compound, compound.get("kind"), scope, compound.find("location")
    prefix = "" if compound.get("kind") == "file" else scope + "::"
    for member in compound.iter("memberdef"):
        kind, name = member.get("kind"), prefix + member.findtext("name")
        is_friend_class = kind == "friend" and not member.findtext("argsstring")
        if member.get("prot") == "private" or is_friend_class:
            continue
        place = member.find("location")
        yield member, kind, name, place
        for value in member.findall("enumvalue"):
            yield value, "enumerator", f"{name}::{value.findtext('name')}", place


def public_compounds(compounds):
    """The compounds that have symbols and lie outside private classes and namespace detail."""
    private = {c.findtext("compoundname") for c in compounds if c.get("prot") == "private"}
    for compound in compounds:
        parts = compound.findtext("compoundname").split("::")
        around = {"::".join(parts[:length]) for length in range(1, len(parts) + 1)}
        has_symbols = compound.get("kind") in TYPES | {"namespace", "file"}
        if has_symbols and "detail" not in parts and private.isdisjoint(around):
            yield compound


def main(arguments):
    if len(arguments) not in (1, 2):
        print("usage: public_docs.py ROOT [DOXYGEN]", file=sys.stderr)
        return 2
    root = Path(arguments[0]).resolve()
    doxygen = arguments[1] if len(arguments) == 2 else "doxygen"
    with tempfile.TemporaryDirectory() as output:
        compounds, problems = run_doxygen(doxygen, root, Path(output))

    seen = {c.find("location").get("file") for c in compounds if c.get("kind") == "file"}
    headers = {path.relative_to(root).as_posix() for path in root.glob("include/**/*.hpp")}
    problems += [f"{header}:1: unseen: Doxygen did not read it" for header in headers - seen]

    count = 0
    for compound in public_compounds(compounds):
        for element, kind, name, place in symbols(compound):
            count += 1
            if not is_documented(element):
                where = f"{place.get('file')}:{place.get('line')}"
                problems.append(f"{where}: undocumented: say what the {kind} `{name}` is for")

    # By file, then by line as a number.
    problems.sort(key=lambda text: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", text)])
    print("".join(f"{problem}\n" for problem in problems), end="")
    print(f"public_docs: {len(headers)} headers, {count} symbols, {len(problems)} problems")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
