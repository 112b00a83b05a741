#!/usr/bin/env python3
"""Join the page of its parts: planner/explorer/join.py WASM OUT.

Each @@NAME@@ of page/index.html becomes what it names: a file of page/, the program (gzip, base64), the cluster files
(JSON). A word of the page that is no part stays, and fails the build. The result is one file that needs no other.
"""
import base64
import glob
import gzip
import json
import re
import sys

LIMIT = 1000000                                             # bytes: it has to open at once, also by mail

# From lessons only clusters: an exercise's own settings stay outside.
CLUSTERS = [path for pattern in ("configs/clusters/*.ini", "lessons/*/puzzle/*.ini") for path in glob.glob(pattern)
            if not path.endswith("exercise.ini")]


def part(name, wasm):
    if name == "wasm":
        with open(wasm, "rb") as file:
            return base64.b64encode(gzip.compress(file.read(), 9, mtime=0)).decode()
    if name == "clusters":
        return json.dumps({path: read(path) for path in sorted(CLUSTERS)}).replace("<", "\\u003c")
    text = read("planner/explorer/page/" + name)
    if name.endswith(".js") and "</script" in text:
        sys.exit(f"join.py: {name} has </script in it, which would end the page's script")
    return text


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    wasm, out = sys.argv[1:]
    page = re.sub(r"@@([\w.]+)@@", lambda match: part(match[1], wasm).strip(), read("planner/explorer/page/index.html"))
    if len(page.encode()) > LIMIT:
        sys.exit(f"join.py: the page has {len(page.encode())} bytes; at most {LIMIT}")
    with open(out, "w", encoding="utf-8") as file:
        file.write(page)
    print(f"{out}: {len(page.encode())} bytes")


main()
