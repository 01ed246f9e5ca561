#!/usr/bin/env python3
"""Makes a job of a million items: 64 words are counted in 16,384 chunks of log text.

    examples/jobs/log_scan.py FOLDER [CHUNKS]

Writes job.json, items.bin, log_scan.ek and expected.bin to FOLDER. expected.bin is what
buffer-1.bin of the run must be: the counts, worked out here in another way. The text is drawn with
a fixed seed, so that every run is the same.
"""

import array
import random
import shutil
import sys
from pathlib import Path

CHUNK_BYTES = 64
DEFAULT_CHUNKS = 16_384
FOLD, COUNT, ALARM, GATHER, RANK = 64, 65, 66, 67, 68
# Handles: the counts, the winner, then one counter for each word, the chunks, and their folded
# copies.
COUNTS, WINNER, FIRST_COUNTER = 1, 2, 1000
FIRST_CHUNK, FIRST_FOLDED = 1_000_000, 2_000_000
# Four letters each, and no word overlaps itself; the last is rare and raises an alarm.
WORDS = (
    "disk read sync lock wait page fail open send recv node conn auth user host port "
    "load drop lost slow fast cold warm idle busy full free swap core heap leak gone "
    "push pull copy move link fork kill stop hung beat tick time late skew jump hold "
    "grow trim file path name size byte unit rack zone mesh hops ping echo bulk oops"
).split()
RARE = WORDS[-1]


def make_chunk(draw):
    """Words with a blank between them, some in capitals, cut to the length of a chunk."""
    text = ""
    while len(text) < CHUNK_BYTES:
        word = RARE if draw.random() < 0.0005 else draw.choice(WORDS[:-1])
        text += (word.upper() if draw.random() < 0.2 else word) + " "
    return text[:CHUNK_BYTES].encode()


def work_items(chunk_count):
    """Fold every chunk, look for every word in each, then bring the counts together."""
    items = array.array("I")
    needles = [int.from_bytes(word.encode(), "little") for word in WORDS]
    for chunk in range(chunk_count):
        folded = FIRST_FOLDED + chunk
        items.extend((FOLD, FIRST_CHUNK + chunk, folded, 0))
        if chunk % 16 == 0:  # the same item twice: the run drops the second
            items.extend((FOLD, FIRST_CHUNK + chunk, folded, 0))
        for index, needle in enumerate(needles):
            items.extend((COUNT, folded, FIRST_COUNTER + index, needle))
        items.extend((ALARM, folded, 0, needles[-1]))
    for index in range(len(WORDS)):
        items.extend((GATHER, FIRST_COUNTER + index, COUNTS, index))
    items.extend((RANK, COUNTS, WINNER, 0))
    return items


def job_text(chunks):
    """The job: one line a buffer. The items are in a file of their own."""
    buffers = [f'{{"handle": {COUNTS}, "zeros": {len(WORDS)}}}']
    buffers.append(f'{{"handle": {WINNER}, "zeros": 2}}')
    buffers += [f'{{"handle": {FIRST_COUNTER + i}, "zeros": 1}}' for i in range(len(WORDS))]
    for index, chunk in enumerate(chunks):
        words = ", ".join(str(word) for word in array.array("I", chunk))
        buffers.append(f'{{"handle": {FIRST_CHUNK + index}, "u32": [{words}]}}')
        buffers.append(f'{{"handle": {FIRST_FOLDED + index}, "zeros": {CHUNK_BYTES // 4}}}')
    return (
        '{ "handlers": "log_scan.ek",\n  "buffers": [\n    '
        + ",\n    ".join(buffers)
        + f' ],\n  "items_file": "items.bin",\n  "outputs": [{COUNTS}, {WINNER}] }}\n'
    )


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} FOLDER [CHUNKS]")
    folder = Path(sys.argv[1])
    chunk_count = int(sys.argv[2]) if len(sys.argv) == 3 else DEFAULT_CHUNKS
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(20)
    chunks = [make_chunk(draw) for _ in range(chunk_count)]
    items = work_items(chunk_count)
    counts = array.array("I", [sum(c.lower().count(w.encode()) for c in chunks) for w in WORDS])
    shutil.copy(Path(__file__).parent / "log_scan.ek", folder)
    (folder / "job.json").write_text(job_text(chunks))
    (folder / "items.bin").write_bytes(items.tobytes())
    (folder / "expected.bin").write_bytes(counts.tobytes())
    print(f"{len(items) // 4:,} items: {len(WORDS)} words to look for in {chunk_count:,} chunks")


if __name__ == "__main__":
    main()
