#!/usr/bin/env python3
"""Seeds of a fuzz target in one file, tests/fuzz/corpus/NAME/seeds: for each a line "NAME BYTES", its bytes, and a
line break.

    tests/fuzz/seeds.py SEEDS FOLDER       puts each into FOLDER as a file, for libFuzzer
    tests/fuzz/seeds.py SEEDS + FILE...    adds files, each under its name"""
import os
import sys


def read(path):
    """{name: bytes}"""
    out = {}
    with open(path, "rb") as file:
        while line := file.readline():
            name, size = line.split()
            out[name.decode()] = file.read(int(size))
            file.read(1)
    return out


def write(path, seeds):
    with open(path, "wb") as file:
        for name, data in sorted(seeds.items()):
            file.write(b"%s %d\n" % (name.encode(), len(data)) + data + b"\n")


if __name__ == "__main__":
    seeds = read(sys.argv[1])
    if sys.argv[2] == "+":
        for path in sys.argv[3:]:
            with open(path, "rb") as file:
                seeds[os.path.basename(path)] = file.read()
        write(sys.argv[1], seeds)
    else:
        for name, data in seeds.items():
            with open(os.path.join(sys.argv[2], name), "wb") as file:
                file.write(data)
