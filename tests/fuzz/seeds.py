#!/usr/bin/env python3
"""What the fuzz targets start from, in one file, tests/fuzz/seeds: for each input a line "TARGET/NAME BYTES", its
bytes, and a line break.

    tests/fuzz/seeds.py TARGET FOLDER       puts each of the target's into FOLDER as a file, for libFuzzer
    tests/fuzz/seeds.py TARGET + FILE...    adds files to the target's, each under its name"""
import os
import sys

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")


def read():
    """{"target/name": bytes}"""
    out = {}
    with open(SEEDS, "rb") as file:
        while line := file.readline():
            name, size = line.split()
            out[name.decode()] = file.read(int(size))
            file.read(1)
    return out


def write(seeds):
    with open(SEEDS, "wb") as file:
        for name, data in sorted(seeds.items()):
            file.write(b"%s %d\n" % (name.encode(), len(data)) + data + b"\n")


if __name__ == "__main__":
    seeds, target = read(), sys.argv[1] + "/"
    if sys.argv[2] == "+":
        for path in sys.argv[3:]:
            with open(path, "rb") as file:
                seeds[target + os.path.basename(path)] = file.read()
        write(seeds)
    else:
        for name, data in seeds.items():
            if name.startswith(target):
                with open(os.path.join(sys.argv[2], name.removeprefix(target)), "wb") as file:
                    file.write(data)
