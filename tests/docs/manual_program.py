#!/usr/bin/env python3
"""Writes the C++ blocks of a document as one program, and its text blocks as what it prints.

    manual_program.py DOCUMENT PROGRAM OUTPUT
"""

import sys
from pathlib import Path


def blocks(document):
    """The fenced blocks of a document, as pairs of the word behind the fence and the text."""
    fence, lines = None, []
    for line in document.splitlines():
        if line.startswith("```"):
            if fence is None:
                fence, lines = line[3:], []
            else:
                yield fence, "".join(f"{one}\n" for one in lines)
                fence = None
        elif fence is not None:
            lines.append(line)


def main(document, program, output):
    found = list(blocks(Path(document).read_text(encoding="utf-8")))
    for fence, path in (("cpp", program), ("text", output)):
        text = "".join(text for kind, text in found if kind == fence)
        Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
