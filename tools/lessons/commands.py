"""Runs a page's blocks of commands and compares what they print with what the page says.

    sh run              has to end with code 0      sh run=2     with code 2      sh run long    only when asked for
    text output         right behind such a block: each of its lines has to be printed, in this order; `...` is any text
"""
import difflib
import os
import re
import signal
import subprocess
import tempfile
import time

LIMIT_S, LONG_LIMIT_S = 60, 600
MARK = "TRIVIUM_LESSON_BLOCK"


class Command:
    """A block to run, and the block with its expected output or None."""

    def __init__(self, block, code, is_long):
        self.block, self.code, self.is_long, self.expected = block, code, is_long, None


def commands(page):
    """([Command], [(line, what is wrong with the fences)])"""
    found, wrong = [], []
    if page.open_block:
        wrong.append((page.open_block.line, "this block is not closed"))
    before = None
    for block in page.blocks:
        words = block.info.split()
        match = re.fullmatch(r"sh run(?:=(\d+))?( long)?", " ".join(words))
        if match:
            before = Command(block, int(match.group(1) or 0), bool(match.group(2)))
            found.append(before)
        elif words[:2] == ["text", "output"]:
            problem = _output_problem(page, block, before)
            if problem:
                wrong.append((block.line, problem))
            else:
                before.expected = block
            before = None
        else:
            before = None
            if words[:1] == ["sh"] and len(words) > 1:
                wrong.append((block.line, f'"{block.info}" is not "sh run", "sh run=CODE", "sh run long" or "sh"'))
    return found, wrong


def _output_problem(page, block, before):
    between = "".join(text for line, text in page.prose if before and before.block.end <= line < block.line)
    if before is None or between.strip():
        return '"text output" has to stand right behind an "sh run" block'
    if not [line for line in block.lines if line.strip(" .")]:
        return "this output would be right whatever is printed; write out what has to be there"
    return None


def _ours(mark):
    """Processes that have this block's mark in their environment."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    out.append(int(pid))
        except OSError:
            pass
    return out


def _end_all(mark):
    """Ends what the block has left behind, and waits until it is gone."""
    for _ in range(50):
        pids = _ours(mark)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


def run(command, root, environment):
    """(exit code or None when it did not end in time, what it printed, seconds)"""
    mark = f"{MARK}={os.getpid()}-{command.block.line}-{time.time_ns()}"
    name, _, value = mark.partition("=")
    started = time.time()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(["bash", "-eu", "-o", "pipefail", "-c", command.block.text], cwd=root,
                                   stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, start_new_session=True, env={**environment, name: value})
        try:
            code = process.wait(LONG_LIMIT_S if command.is_long else LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_all(mark.encode())
            process.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
    return (code if code is None or code >= 0 else 128 - code), text.replace("\r\n", "\n"), time.time() - started


def _pattern(line):
    return re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\s*", re.S)


def compare(expected, printed):
    """None, or (the expected line that was not printed, its number in the block, a few lines that say what was there
    instead)."""
    lines = [line.rstrip() for line in printed.split("\n")]
    at = 0
    for number, line in enumerate(expected, 1):
        if not line.strip() or line.strip() == "...":
            continue
        pattern = _pattern(line)
        for i in range(at, len(lines)):
            if pattern.fullmatch(lines[i]):
                at = i + 1
                break
        else:
            return line, number, _explain(line, pattern, lines, at)
    return None


def _explain(line, pattern, lines, at):
    rest = [text for text in lines[at:] if text.strip()]
    out = [f"expected: {line}"]
    earlier = [i for i, text in enumerate(lines[:at]) if pattern.fullmatch(text)]
    if earlier:
        out.append(f"was printed in line {earlier[-1] + 1}, before what the lines above it stand for")
    score = difflib.SequenceMatcher(b=line, autojunk=False)

    def likeness(text):
        score.set_seq1(text)
        return score.ratio()
    near = max(rest, key=likeness, default=None)
    if near is None:
        out.append("printed:  nothing more")
    else:
        out.append(f"nearest:  {near}")
        out.append("          " + _difference(near, line))
    return out


def _difference(near, line):
    """Where the nearest line is another: marks below it; or, where `...` makes marks useless, the part that is not in
    it."""
    if "..." not in line:
        differs = [True] * len(near)
        for match in difflib.SequenceMatcher(a=near, b=line, autojunk=False).get_matching_blocks():
            differs[match.a:match.a + match.size] = [False] * match.size
        return "".join("^" if d else " " for d in differs).rstrip()
    at, parts = 0, line.rstrip().split("...")
    for i, part in enumerate(parts):
        found = (0 if near.startswith(part) else -1) if i == 0 else near.find(part, at)
        if found < 0:
            return f"has no \"{part}\"" + (f" behind \"{near[:at][-30:]}\"" if at else " at its beginning"
                                           if i == 0 else "")
        at = found + len(part)
    return f"has \"{near[at:]}\" at its end"
