"""Work on what was handed in, each piece in a process of its own: whatever a text does to the grader's own code, it
stops this piece and no other.

A process that uses more than `seconds` of CPU time itself ends by the default action of SIGPROF, which no code in C
holds up. The programs that it starts do not count: they have limits of their own, and under bubblewrap they end with
it."""
import itertools
import multiprocessing
import multiprocessing.connection
import signal

from . import Trouble

SECONDS = 30         # of CPU time; one grade takes less than one


def _child(function, seconds, answer):
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        answer.send((function(), None))
    except Exception as failure:                              # whatever it is, it is this piece's
        answer.send((None, f"{type(failure).__name__}: {failure}" if not isinstance(failure, (OSError, Trouble))
                     else str(failure)))


def _begin(function, seconds):
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(function, seconds, there))
    process.start()
    there.close()
    return here, process


def _end(pipe, process, seconds):
    """What it has said: (result, None), or (None, why there is no result)."""
    try:
        said = pipe.recv()
    except EOFError:
        said = None
    pipe.close()
    process.join()
    late = f"it kept the grader busy for more than {seconds} s"
    return said or (None, late if process.exitcode == -signal.SIGPROF
                    else f"the grader's process ended with code {process.exitcode}")


def each(pieces, jobs=1, seconds=SECONDS):
    """Run (key, function) pairs; yield (key, result or None, why there is none) as they end. `jobs` at a time, begun in
    their order."""
    running, pieces = {}, iter(pieces)
    while True:
        for key, function in itertools.islice(pieces, max(1, jobs) - len(running)):
            pipe, process = _begin(function, seconds)
            running[pipe] = key, process
        if not running:
            return
        for pipe in multiprocessing.connection.wait(list(running)):
            key, process = running.pop(pipe)
            yield (key, *_end(pipe, process, seconds))


def one(function, seconds=SECONDS):
    """(the function's result, None), or (None, why there is none)."""
    return next(each([(None, function)], seconds=seconds))[1:]
