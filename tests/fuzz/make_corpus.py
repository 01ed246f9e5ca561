#!/usr/bin/env python3
"""Writes the stored seeds of the fuzz targets into corpus/<target>/ beside this file.

Seeds are made from numbers typed here, never by the library. `--check` writes nothing and fails
when a stored file differs from what this script would write.
"""

import pathlib
import struct
import sys

MAX = 0xFFFFFFFF
CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def words(*values):
    return struct.pack(f"<{len(values)}I", *values)


def slot(status=0, opcode=0, tenant=0, priority=2, *args):
    return words(status, opcode, tenant, priority, *args, *[0] * (12 - len(args)))


def control(observables=0, **changes):
    content = [0] * (160 + observables)
    content[2] = 3
    content[3] = MAX
    content[32] = 1_000_000
    for name, value in changes.items():
        content[int(name.removeprefix("w"))] = value
    return words(*content)


def io(op=0, status=0, tag=0):
    return words(op, 5, 6, 0x89ABCDEF, 1, 4096, status, tag)


def packed(*values):
    return words(*values, *[0] * (12 - len(values)))


def compact(opcode, *args, lap=1):
    return words(opcode | lap << 31, *args, *[0] * (3 - len(args)))


def full(opcode, *args, lap=1):
    args = [*args, *[0] * (12 - len(args))]
    displaced = sum((args[4 * i] >> 31) << (16 + i) for i in range(3))
    for i in range(3):
        args[4 * i] = args[4 * i] & 0x7FFFFFFF | lap << 31
    return words(1 | lap << 31, opcode, 3, 2 | displaced, *args)


def queue_header(entry_bytes=16, capacity=4, first=0, outcome_bytes=1):
    end = (256 + capacity * outcome_bytes + 63) // 64 * 64
    faults = 0 if outcome_bytes == 16 else end
    length = end if faults == 0 else (end + capacity * 4 + 63) // 64 * 64
    return (words(0x31514B45, 1, entry_bytes, capacity) + struct.pack("<Q", first) +
            words(outcome_bytes, 0) +
            struct.pack("<7Q", 64 + capacity * entry_bytes, length, 64, 128, 192, 256, faults) +
            bytes(40))


def npy(dictionary, version=1, length=None):
    size = len(dictionary) if length is None else length
    return (b"\x93NUMPY" + bytes((version, 0)) +
            struct.pack("<H" if version == 1 else "<I", size) + dictionary.encode())


NPY = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"

ALL_STATUSES = b"".join(slot(s, 40 + s % 2, s, 2, s // 2, s % 3) for s in range(9))

SEEDS = {
    "ring": {
        "empty": b"",
        "one_empty_slot": slot(),
        "vector": slot() + slot(1, 2, 9, 2, 5, 7, 11) + slot() + slot(),
        "all_statuses": ALL_STATUSES,
        "unknown_status": slot(MAX, 40, MAX, MAX, MAX, MAX),
        "fault_codes": slot(7, 40, 0, 0x00020002) + slot(7, 40, 0, 0xFFFF0004),
        "one_window": slot(1, 40, 3, 2, 7, 0) + slot(3, 40, 3, 2, 7, 1) + slot(6, 40, 3, 2, 7, 2),
        "many_windows": b"".join(slot(1, 40, 0, 2, (i * 37) << 16, i % 2) for i in range(70)),
        "falling_tickets": b"".join(slot(1, 40 + i % 3, 0, 2, 40 - i) for i in range(40)),
        "batch": slot(1, 1, 6, 2, 10, 32) + slot(1, 0, 6) + slot(1, 7, 6, 2, 2, 99),
        "one_byte_short": ALL_STATUSES[:-1],
        "one_byte_over": slot() + b"\0",
        "one_word": words(1),
    },
    "queue": {
        "compact": compact(0) + compact(64, 1, 2, 3) + compact(2, 1, 161, lap=0),
        "full": full(64, 0x80000001, 2, 3, 4, 5, MAX, 7, 8, MAX, 10, 11, 12),
        "full_of_an_odd_lap": full(7, 3, 9, lap=0),
        "torn": full(64, 1)[:32] + full(64, 1, lap=0)[32:],
        "file": struct.pack("<QQ", 5, 4) + bytes(48) + compact(0) * 3 + compact(0, lap=0),
        "file_with_any_tail":
            struct.pack("<QQ", MAX << 32, MAX) + words(1) + bytes(44) + full(0) * 4,
        "header": queue_header(),
        "header_with_results": queue_header(64, 8, 32, 16),
        "header_that_lies": queue_header(16, 1 << 20),
        "zeros": bytes(320),
    },
    "control": {
        "fresh": control(),
        "shutdown_four_tenants": control(8, w0=1, w4=MAX, w5=MAX, w6=MAX, w33=9, w34=9, w35=9),
        "counters": control(2, w1=MAX, w64=3, w65=9, w97=5, w127=MAX, w128=7, w136=1, w143=2,
                            w144=1, w160=99),
        "base_zero": control(w2=0, w31=1),
        "base_wraps": control(w2=MAX, w4=1),
        "base_past_table": control(w2=32),
        "priorities_7": control(w130=1, w131=2, w132=5, w133=6, w134=7),
        "one_byte_short": control()[:-1],
        "one_word_short": control()[:-4],
        "epoch_minimum": control()[:516],
        "metrics_minimum": control()[:512],
        "done_minimum": control(w1=5)[:8],
        "done_short": control()[:4],
        "broken_word": control()[:6],
        "empty": b"",
    },
    "debug_log": {
        "empty": b"",
        "no_room": words(0),
        "fresh": words(0, *[0] * 8),
        "one_record": words(4, 1, 2, 3, 16, 0, 0, 0, 0),
        "full": words(8, 1, 2, 3, 16, 5, 6, 7, 32),
        "words_left_over": words(4, 1, 2, 3, 16, 77, 77),
        "inside_a_record": words(3, 1, 2, 3, 16),
        "past_the_end": words(8, 1, 2, 3, 16),
        "largest_cursor": words(MAX, 1, 2, 3, 16),
        "largest_multiple": words(MAX - 3, 1, 2, 3, 16),
        "broken_word": words(0, 1)[:-1],
    },
    "io_queue": {
        "one_empty": io(),
        "read_published": io(1, 1, 77),
        "each_status": b"".join(io(1 + s % 3, s) for s in (0, 1, 2, 3, 0x10, 0x11)),
        "error": io(2, 0x11, 13),
        "unknown": io(9, 4) + io(MAX, MAX, MAX),
        "largest": io(3, 1, 5) * 64,
        "too_many": io() * 65,
        "one_byte_short": io()[:-1],
        "half_a_slot": io() + io()[:16],
        "empty": b"",
    },
    "npy": {
        "u1": npy((NPY % ("|u1", "False", "(7,)")).ljust(117) + "\n"),
        "f4": npy((NPY % ("<f4", "False", "(2, 3)")).ljust(117) + "\n"),
        "i4_of_version_2": npy(NPY % ("<i4", "False", "()"), 2),
        "u4_of_version_3": npy(NPY % ("<u4", "False", "(0, 4294967296)"), 3),
        "other_order_of_keys": npy("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<u4\"}"),
        "fortran": npy(NPY % ("<u4", "True", "(2, 3)")),
        "big_endian": npy(NPY % (">u4", "False", "(2,)")),
        "records": npy("{'descr': [('a', '<u4')], 'fortran_order': False, 'shape': (1,)}"),
        "absurd": npy(NPY % ("<u4", "False", "(99999999999, 99999999999)")),
        "lies_about_its_length": npy(NPY % ("<u4", "False", "(2,)"), length=65535),
        "not_a_dictionary": npy("{'descr'"),
        "unknown_version": npy("{}", 9),
        "empty": b"",
    },
    "packed": {
        "vector": packed(0x00010402, 0x00000202, 10, 32, 1, 64),
        "nothing": packed(),
        "eleven_arguments": packed(0x00110B01, *range(1, 12)),
        "twelve_arguments": packed(0x00110C01),
        "ops_23": packed(0x00000017),
        "ops_24": packed(0x00000018),
        "fence_inside": packed(0x00070001),
        "backwards": packed(0x02010302, 0x00000102, 1, 2, 3),
        "offset_past_total": packed(0x03110201, 1, 2),
        "arguments_nobody_reads": packed(0x02110301, 1, 2, 3),
        "all_ones": packed(*[MAX] * 12),
        "short": words(0x00110101, 7),
    },
    "canary": {"crash": b"crash"},
    # The texts written by hand, each with the choices of a few changes.
    "handler_tree": {path.stem: path.read_bytes() + bytes(range(24))
                     for path in (CORPUS / "handler_text").glob("*.ek")},
}


def main():
    wanted = {CORPUS / target / name: data for target, seeds in SEEDS.items()
              for name, data in seeds.items()}
    if sys.argv[1:] == ["--check"]:
        # Handler text is written by hand, as .ek files.
        stored = {path: path.read_bytes() for path in CORPUS.glob("*/*") if path.suffix != ".ek"}
        different = sorted(str(path) for path in wanted.keys() | stored.keys()
                           if wanted.get(path) != stored.get(path))
        for path in different:
            print(f"differs: {path}")
        return 1 if different else 0
    for path, data in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
