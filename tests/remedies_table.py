#!/usr/bin/env python3
"""What messages outside of plans (tests/remedies.py has those) print as a remedy is tried, by the cases of
tests/data/remedies/*.txt.

    remedies_table.py PROGRAM            all cases: a line "ok NAME" or "not ok NAME ..." each
    remedies_table.py PROGRAM --static   no case is run: each message of the sources that advises what can be typed has
                                         a case, is among those that plans meet (drawn.txt), or has a reason for neither
                                         (exceptions.txt)
    remedies_table.py PROGRAM --met FILE drawn.txt has the messages that are in FILE, which remedies.py has written, and
    no others
    FILES="data launch"                  cases of these files of tests/data/remedies
    ONLY=REGEX                           cases whose names it fits

A case is a name in brackets, and below it lines of bash, run one after the other in an empty folder, with the program,
$ROOT (the project), $F (what fixtures.bash has made), $R (a short run, on as many ranks as are launched), $M (make, in
the project), $PORT (one that is free) and $P (a Python with numpy, if there is one):

    [name]
    at     FILE WORDS        the source file of the message, and a part of its text there
    needs  COMMAND           the case is skipped where there is no such command; numpy, torch, transformers: no Python
                             with it
    needs  no-cuda           the case is skipped in a build with CUDA
    given  ...               what has to be there; any number of lines
    try    ...               prints the message
    take   REGEX             what the printed message advises; groups become {1} {2} in the lines after it
    then   ...               does as it advises: code 0, and the message does not come again

A message that advises several things has a `take` for each, and `given` and `try` are run in a new folder before each.
"""

import concurrent.futures
import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import remedy_places

PROGRAM = os.path.abspath(sys.argv[1])
ROOT = os.getcwd()
FOLDER = "tests/data/remedies"
LIMIT_S = 300


def cases():
    words = os.environ.get("FILES", "").split()
    for path in sorted(glob.glob(f"{FOLDER}/*.txt")):
        name = os.path.basename(path)[: -len(".txt")]
        if name in ("drawn", "exceptions") or words and name not in words:
            continue
        case = None
        for number, line in enumerate(open(path), 1):
            line = line.rstrip("\n")
            if line.startswith("["):
                if case:
                    yield case
                case = {"name": line.strip("[]"), "given": [], "advice": [], "where": f"{path}:{number}"}
            elif line and not line.startswith("#"):
                key, _, value = line.partition(" ")
                value = value.strip()
                if key == "given":
                    case["given"].append(value)
                elif key == "take":
                    case["advice"].append([value, []])
                elif key == "then":
                    case["advice"][-1][1].append(value)
                elif key in ("at", "try", "needs"):
                    case[key] = value
                else:
                    sys.exit(f"{path}:{number}: {key} is no word of a case")
        if case:
            yield case


def python_with(module):
    """The first of $PYTHON, python3 and the system's that has it; in the cases $P is one with numpy."""
    for candidate in (os.environ.get("PYTHON") or "python3", "python3", "/usr/bin/python3"):
        if subprocess.run([candidate, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return candidate
    return None


def make():
    """With the settings of this build, so that nothing is rebuilt."""
    build = os.path.dirname(PROGRAM)
    with open(build + "/settings") as settings, open(build + "/flags") as flags:
        cuda, werror = (
            "TRIVIUM_CUDA" in re.search("^TEST_CFLAGS=.*", settings.read(), re.M)[0],
            "-Werror" in flags.read(),
        )
    return f"make -C {ROOT} --no-print-directory CUDA={int(cuda)}{' WERROR=1' if werror else ''}"


MAKE = make()
PYTHONS = {module: python_with(module) for module in ("numpy", "torch", "transformers")}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class Place:
    """Where the lines of a case run; what they leave running ends with it."""

    def __init__(self, work):
        self.fixtures, self.groups = work + "/fixtures", []
        self.folder = tempfile.mkdtemp(dir=work)
        run = f"train --config {self.fixtures}/tiny.ini --data {self.fixtures}/text.txt --global-batch 12"
        self.environment = {
            **os.environ,
            "F": self.fixtures,
            "ROOT": ROOT,
            "R": run,
            "M": MAKE,
            "P": PYTHONS["numpy"] or "none",
            "PORT": free_port(),
            "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
        }

    def bash(self, line):
        """Its code, and all that it prints"""
        p = subprocess.Popen(
            ["bash", "-c", "set -e\n" + line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.groups.append(p.pid)
        try:
            said, _ = p.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGTERM)
            return 124, f"not done after {LIMIT_S} s"
        return p.returncode, said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


def text_of(case, texts):
    file, _, words = case["at"].partition(" ")
    return [text for text in texts.get(file, []) if words in text]


def lines_of(case, texts):
    """The texts of several lines with its words."""
    words = case["at"].partition(" ")[2]
    return [line for text in text_of(case, texts) for line in re.split(r"\n|\\n", text) if words in line]


def follow(place, case, printed, regex, then):
    """Why a piece of advice is none, or None."""
    for what in case["given"]:
        code, said = place.bash(what)
        if code:
            return f"given {what}: code {code}: {said[-300:]}"
    _, said = place.bash(case["try"])
    message = next((line for line in said.splitlines() for p in printed if p.search(line)), None)
    if message is None:
        return f"try {case['try']}: the message did not come, but: {said[-400:]}"
    advice = re.search(regex, message)
    if not advice:
        return f"the message does not say {regex}: {message}"
    for command in then:
        for number, group in enumerate(advice.groups(), 1):
            command = command.replace("{%d}" % number, group)
        code, said = place.bash(command)
        if any(p.search(said) for p in printed):
            return f"then {command}: the message comes again: {message}"
        if code:
            return f"then {command}: code {code}: {said[-400:]} after: {message}"
    return None


def fails(case, texts, work):
    """Why it does, or None."""
    printed = [remedy_places.pattern(text) for text in lines_of(case, texts)]
    if not printed:
        return f"{case['at']}: there is no such message"
    for regex, then in case["advice"]:
        with Place(work) as place:
            why = follow(place, case, printed, regex, then)
        if why:
            return why
    return None


def all_texts():
    texts = {}
    for file, text in remedy_places.places(PROGRAM, every=True):
        texts.setdefault(file, []).append(text)
    return texts


def listed(name):
    """Lines FILE | WORDS | REASON of exceptions.txt, FILE | TEXT of drawn.txt"""
    with open(f"{FOLDER}/{name}") as file:
        return [
            [part.strip() for part in line.rstrip("\n").split(" | ")]
            for line in file
            if line.strip() and not line.startswith("#")
        ]


def static():
    wanted = sorted(set(remedy_places.places(PROGRAM)))
    texts = all_texts()
    tried = {(case["at"].split(" ", 1)[0], text) for case in cases() for text in text_of(case, texts)}
    drawn = {(file, text) for file, text in listed("drawn.txt")}
    excepted = listed("exceptions.txt")
    reasons = {(file, text) for file, words, *why in excepted for text in texts.get(file, []) if words in text and why}
    bare = [place for place in wanted if place not in tried | drawn | reasons]
    stale = [f"{file} | {text}" for file, text in sorted(drawn) if text not in texts.get(file, [])]
    stale += [f"{case['where']}: {case['at']}" for case in cases() if not text_of(case, texts)]
    stale += [f"{e[0]} | {e[1]}" for e in excepted if not any(e[1] in text for text in texts.get(e[0], []))]
    needless = sorted(reasons & tried)
    print(
        f"# {len(wanted)} messages advise what can be typed: {len(set(wanted) & tried)} have a case, "
        f"{len(set(wanted) & drawn - tried)} more are "
        f"met by plans, {len(set(wanted) & reasons - tried - drawn)} have a reason for neither; "
        f"{len(tried - set(wanted))} others have a case, too"
    )
    for name, found in (
        ("each_message_that_advises_is_tried_or_has_a_reason", bare),
        ("no_line_of_the_lists_is_of_a_message_that_is_gone", stale),
        ("no_exception_is_tried", needless),
    ):
        print("ok" if not found else "not ok", "remedies_" + name)
        for place in found:
            print("#", place if isinstance(place, str) else " | ".join(place))
    return bool(bare or stale or needless)


def met(path):
    """The longest of the texts that fit a line."""
    places, found = remedy_places.places(PROGRAM), set()
    printed = [(file, text, remedy_places.pattern(text)) for file, text in places]
    for line in open(path):
        said = re.match(r"E_\w+ (\S+?):\d+ ", line)
        fit = [
            (file, text) for file, text, p in printed if said and os.path.basename(file) == said[1] and p.search(line)
        ]
        found.update([max(fit, key=lambda place: len(place[1]))] if fit else [])
    drawn = {(file, text) for file, text in listed("drawn.txt")}
    print("ok" if found == drawn else "not ok", "remedies_drawn_txt_has_what_plans_meet")
    for sign, some in (("+", found - drawn), ("-", drawn - found)):
        for file, text in sorted(some):
            print("#", sign, file, "|", text)
    return found != drawn


def has(what):
    if what == "no-cuda":
        return "CUDA=0" in MAKE
    return PYTHONS[what] if what in PYTHONS else shutil.which(what)


MAKING = threading.Lock()  # make writes into the project's build


def run_one(case, texts, work):
    if "needs" in case and not has(case["needs"]):
        return f"skip remedy_{case['name']} needs {case['needs']}"
    with MAKING if "$M" in case["try"] else contextlib.nullcontext():
        why = fails(case, texts, work)
    return f"not ok remedy_{case['name']}: {case['where']}: {why}" if why else f"ok remedy_{case['name']}"


def main():
    if "--static" in sys.argv:
        return static()
    if "--met" in sys.argv:
        return met(sys.argv[-1])
    texts, only, work = all_texts(), os.environ.get("ONLY", ""), tempfile.mkdtemp()
    try:
        os.mkdir(work + "/fixtures")
        with Place(work) as place:
            code, said = place.bash(f"cd $F; . {ROOT}/{FOLDER}/fixtures.bash")
        if code:
            print(f"not ok remedies_fixtures: code {code}: {said}")
            return True
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            bad = 0
            for line in pool.map(
                lambda case: run_one(case, texts, work), [c for c in cases() if re.search(only, c["name"])]
            ):
                print(line, flush=True)
                bad += line.startswith("not ok")
        return bad > 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


sys.exit(main())
