"""A rank of a submission in Python: runs functions of the learner's file when judge.py asks for them, and says what
they gave.

    rank.py FILE SECONDS          SECONDS: of CPU time that one request may take

It runs in the sandbox, in one process with the learner's file, and nothing that it says is trusted. A line that begins
with a zero byte is a message, in JSON; all others are what the file prints. Only the standard library is there.
"""
import json
import os
import resource
import signal
import sys
import types

ADDRESSES = 4 << 30          # bytes


class Group:
    """Ranks that compute together; rank is this one's number among them."""

    def __init__(self, number, rank, size):
        self._number, self.rank, self.size = number, rank, size

    def all_reduce(self, numbers):
        """The sums over all ranks of the group, element by element, as a list. Every rank of the group has to call
        it."""
        say({"all_reduce": [self._number, list(numbers)]})
        return hear()["sums"]


def say(message):
    ours.write(f"\0{json.dumps(message)}\n")
    ours.flush()


def hear():
    line = asked.readline()
    if not line:
        os._exit(0)                                           # the judge has gone
    return json.loads(line, object_hook=decoded)


def decoded(fields):
    if "group" in fields:
        return Group(*fields["group"])
    return fields if {"name", "sums"} & set(fields) else types.SimpleNamespace(**fields)


def place_in(frame):
    """file:line, in function: the innermost of the learner's file; else ""."""
    while frame and frame.f_code.co_filename != path:
        frame = frame.f_back
    return f"{os.path.basename(path)}:{frame.f_lineno}, in {frame.f_code.co_name}" if frame else ""


def place_of(error):
    found, trace = "", error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == path:
            found = f"{os.path.basename(path)}:{trace.tb_lineno}, in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == path:
        found = f"{os.path.basename(path)}:{error.lineno}"
    return found


def raised(error):
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return {"raised": type(error).__name__, "text": text[:300], "at": place_of(error)}


def too_long(number, frame):
    say({"stuck": place_in(frame)})
    os._exit(1)


def run(module, name, calls):
    values = []
    for arguments in calls:
        function = getattr(module, name, None)
        if not callable(function):
            return {"raised": "AttributeError", "text": f"{os.path.basename(path)} has no function {name}", "at": "",
                    "call": len(values)}
        try:
            value = function(*arguments)
            json.dumps(value)
        except (Exception, SystemExit) as error:
            return {**raised(error), "call": len(values)}
        values.append(value)
    return {"values": values}


def main(seconds):
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    try:
        with open(path, encoding="utf-8") as f:
            exec(compile(f.read(), path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        say(raised(error))
        return
    say({"loaded": True})
    while True:
        request = hear()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        say(run(module, request["name"], request["calls"]))


path = sys.argv[1]
asked = os.fdopen(os.dup(0), encoding="utf-8")
ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)                  # input() finds nothing
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES if hard == resource.RLIM_INFINITY else min(ADDRESSES, hard), hard))
sys.stdout.reconfigure(line_buffering=True)                   # before the message that follows
main(float(sys.argv[2]))
