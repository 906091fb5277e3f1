#!/usr/bin/env python3
"""One profile of several calibrations of a machine, on standard output.

    python3 scripts/combine-profiles.py CALIBRATION... --name avx2 [--comment TEXT] [--add "(columns-at-once 16)"] > NEW

What else runs on a machine, or beside it on its host, makes kernels slower for seconds or minutes, in which a calibration
measures many of its entries: three of one machine differ by up to 2.4 times. Such work only adds. So a time is the least that
any calibration has, and a rate the most. What a calibration computes of two times, either of which may have been disturbed,
is the median (of an even count the lower one): what it takes that things are away, but for reading them, or have aged,
`pointwise-per-second`, and sizes of caches. `speedup` is the most, as a calibration takes it itself, up to the number of
threads: what is beyond is that one of them was disturbed. An entry that some lack is taken from the others. What is away
takes no less where more lies between, and what has aged no less later.
"""
import argparse
import re
import statistics
import sys

LEAST = {"measured", "launch-seconds", "next-launch-seconds"}
MOST = {"bytes-per-second", "cache-bytes-per-second", "last-cache-bytes-per-second"}
READING = 0  # the first of the four numbers behind (away BYTES
NAME_WORDS = {"measured": -1, "away": 2, "speedup": 2, "aged": 2}  # how many words say what an entry is of; -1: all but the last


def read(path):
    """[(words that name an entry, its numbers)], in the order of the file."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r";.*", "", file.read())
    entries = []
    for form in re.findall(r"\(([^()]+)\)", text):
        words = form.split()
        count = NAME_WORDS.get(words[0], 1)
        if words[0] != "like":
            entries.append((tuple(words[:count]), [float(word) for word in words[count:]]))
    return entries


def pick(name, column, values):
    kind = name[0]
    if kind == "speedup":
        return min(float(name[1]), max(values))
    if kind in LEAST or (kind == "away" and column == READING):
        return min(values)
    return max(values) if kind in MOST or kind.startswith("flops-") else statistics.median_low(values)


def combine(paths):
    """{name: numbers}; what the first calibration lacks lies behind what it follows in the others."""
    order, found = [], {}
    for path in paths:
        at = -1
        for name, numbers in read(path):
            if name not in found:
                order.insert(at + 1, name)
                found[name] = []
            at = order.index(name)
            found[name].append(numbers)
    combined = {name: [pick(name, i, values) for i, values in enumerate(zip(*found[name]))] for name in order}
    before = {"away": [0.0] * 4, "aged": [0.0] * 2}
    for name in order:
        if name[0] in before:
            combined[name] = before[name[0]] = [max(pair) for pair in zip(combined[name], before[name[0]])]
    return combined


def number(kind, value):
    return f"{value:.0f}" if kind.endswith("cache-bytes") or kind == "threads" else f"{value:.4g}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("calibrations", nargs="+")
    parser.add_argument("--name", required=True)
    parser.add_argument("--comment", default="", help="what it is of; lines of it begin with ;")
    parser.add_argument("--add", action="append", default=[], help="an entry that is not measured, as it stands in a profile")
    args = parser.parse_args()
    for line in args.comment.splitlines():
        print(f"; {line}")
    print(f"(profile {args.name}\n  (like cpu)")
    for entry in args.add:
        print(f"  {entry}")
    for name, numbers in combine(args.calibrations).items():
        print("  (" + " ".join([*name, *(number(name[0], value) for value in numbers)]) + ")")
    print(")")


if __name__ == "__main__":
    sys.exit(main())
