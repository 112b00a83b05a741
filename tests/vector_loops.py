#!/usr/bin/env python3
"""The inner loops of CPU kernels, as objdump shows them: do they work on whole vectors, without a call and without
spills?

    tests/vector_loops.py OBJECT              every inner loop on vectors of an object: to write a row of the table from
    tests/vector_loops.py FOLDER NAME TABLE   check the objects in FOLDER against a table (tests/vector.txt)

A loop is a backward branch and what lies between; an inner loop has no other in it. A vector spills when it is stored
on the stack: a sum that found no register. Constants that are read from there are no spills: an operand in memory is
free."""
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ARITHMETIC = re.compile(r"v(add|sub|mul|div|max|min|sqrt|fn?m(add|sub)\d+|cmp\w*)p[sdh]$|vdpbf16ps$")
FMA = re.compile(r"vfn?m(add|sub)\d+p[sd]$|vdpbf16ps$")
SPILL = re.compile(r"%[yz]mm\d+,-?(0x[0-9a-f]+)?\(%r[sb]p[,)]")


@dataclass
class Loop:
    lines: list  # (mnemonic, operands)

    def on_vectors(self):
        return any(ARITHMETIC.match(m) and re.search("%[yz]mm", o) for m, o in self.lines)

    def has_fma(self):
        return any(FMA.match(m) for m, _ in self.lines)

    def calls(self):
        return any(m.startswith("call") for m, _ in self.lines)

    def spills(self):
        return sum(1 for m, o in self.lines if m.startswith("vmov") and SPILL.search(o))


def functions(path):
    """name -> [(address, mnemonic, operands)]"""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True,
                          check=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            found[name := head[1]] = []
        elif row := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(#.*)?$", line):
            found[name].append((int(row[1], 16), row[2], row[3]))
    return found


def inner_loops(code):
    ranges = set()
    for at, mnemonic, operands in code:
        target = re.match(r"([0-9a-f]+) <", operands) if mnemonic.startswith("j") else None
        if target and code[0][0] <= int(target[1], 16) <= at:
            ranges.add((int(target[1], 16), at))
    for first, last in sorted(ranges):
        if not any((f, l) != (first, last) and first <= f and l <= last for f, l in ranges):
            yield Loop([(m, o) for at, m, o in code if first <= at <= last])


def vector_loops(path, pattern=""):
    for name, code in functions(path).items():
        if re.match(pattern, name):
            yield from ((name, loop) for loop in inner_loops(code) if loop.on_vectors())


def show(path):
    for name, loop in vector_loops(path):
        more = ", fma" * loop.has_fma() + ", a call" * loop.calls()
        print(f"{name}: {len(loop.lines)} instructions, {loop.spills()} spills{more}")


def faults(folder, row):
    """Errors in the kernels of one row of the table, as sentences."""
    source, elems, pattern, wanted, spills, *needs = row.split()
    for elem in elems.split(","):
        loops = [loop for _, loop in vector_loops(folder / f"{source}{'' if elem == '-' else '.' + elem}.o", pattern)]
        clean = [loop for loop in loops if not loop.calls() and loop.spills() <= int(spills)]
        good = [loop for loop in clean if loop.has_fma() or "fma" not in needs]
        if len(good) < int(wanted) or ("all" in needs and clean != loops):
            found = "; ".join(f"{len(loop.lines)} instructions, {loop.spills()} spills" for loop in loops) or "none"
            yield f"{elem} has {len(good)} of {wanted} such loops, and in all: {found}"


def main():
    if len(sys.argv) == 2:
        return show(sys.argv[1])
    folder, name, table = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    bad = 0
    for row in table.read_text().splitlines():
        if row and not row.startswith("#"):
            wrong = list(faults(folder, row))
            title = f"vectors for {name}: {' '.join(row.split()[0:3:2])}"
            print(f"not ok {title}: {'. '.join(wrong)}" if wrong else f"ok {title}")
            bad += bool(wrong)
    return bad > 0


sys.exit(main())
