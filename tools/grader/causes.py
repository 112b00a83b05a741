"""Why claims fail: the cause of each, with a hint of its own. One cause often fails many claims, whose hints are about
something else.

A cause is what the tests have said, by the table below; what no row fits is a wrong result, and its claim's hint is the
cause's."""
import re

# These two are only what is seen; another claim may say why
NOT_FINITE, WRONG = "a result is not a finite number", "a wrong result"

# (what the lines say, its name, the hint). The first row that fits holds.
TABLE = [
    (r"E_TODO|is not written yet|is still to be written", "a function is not written yet",
     "the starter's comment says what it does; write one function, grade, then write the next"),
    (r"GRADED stuck|it did not end within", "a loop or a wait without an end",
     "which condition ends it, and which line brings it closer? The line above is where it was at the limit"),
    (r"AddressSanitizer|stack-overflow|heap-use-after-free|heap-buffer-overflow|stack-buffer-overflow|"
     r"global-buffer-overflow|double-free",
     "memory is used that is not its own",
     "look at the line above: which index or pointer is it, how large is the block, and has it been freed?"),
    (r"^(simt: )?data race", "a data race",
     "between a write and another thread's read or write of the same address there has to be a barrier, "
     "__syncthreads() for a block"),
    (r"^(simt: )?divergent barrier", "a barrier that not all threads reach",
     "all threads of a block have to reach __syncthreads(): no return, and no branch, before it"),
    (r"^(simt: )?missing lanes|waits at __shfl|waits at __sync", "lanes of a warp are missing",
     "all lanes that a mask names have to reach this instruction: no return, and no branch, before it"),
    (r"^(simt: )?out of bounds", "an access beyond its memory",
     "which thread and which index? A block at the edge has threads without an element"),
    (r"written outside|beyond the end of a block|wrote beyond|writes beyond", "a write beyond a buffer",
     "how many elements has the buffer, and what is the largest index that is written? It counts from 0"),
    (r"still in flight", "an operation is not awaited",
     "a request that was started is in flight until comm_wait: its buffers still belong "
     "to the library, and the next operation may meet its message"),
    (r"does not free what it allocates", "a memory leak",
     "each malloc needs its free, on every way out, also that of an error"),
    (r"groups that it has created", "a group is not destroyed", "each group_create needs its group_destroy"),
    (r"message truncated|ERR_TRUNCATE", "a message is longer than its receive",
     "which part does each rank send in this step, and which does its neighbor expect?"),
    (r"recv #.* did not finish within .*; rank \d+ waits in recv",
     "a deadlock: each rank waits for the other's message",
     "which rank sends first? Every receive needs its send, with the same count and the same tag"),
    (r"did not finish within .*; .*waits in", "a deadlock: ranks wait for each other in a circle",
     "read which rank waits for which, and in which call: does one start its receive too late, has one left its step "
     "early, or do two groups come in two orders?"),
    (r"E_TIMEOUT|did not finish within", "a rank waits for a message or a collective that never comes",
     "which rank sends it, to which rank, how many, and with which tag? Every receive needs its send"),
    (r"do not make the same collective calls|rank \d+ calls [^,]+, rank \d+", "the ranks call different collectives",
     "every rank of a group makes the same calls in the same order, also a rank that has nothing to give"),
    (r"some ranks came back from it", "a rank leaves while others wait",
     "every rank of a group makes the same calls: which one returns early?"),
    (r"division by zero|Floating point exception", "a division of integers by zero",
     "which divisor can be 0, and what should the result be then?"),
    (r"signal 6|abort\b|Assertion|free\(\)|corrupted|double free", "it aborted",
     "a block is freed twice, written beyond its end, or an assertion fails: the line above says which"),
    (r"\(SEGV|it crashed|Test failed with exception|has overwritten the memory", "a crash",
     "an address that is not its own: a null pointer, an index out of range, a write to what the caller lends for "
     "reading, "
     "memory that was freed, or a stack that is too small"),
    (r"calls comm_|\bmessages?; wanted|sent .* wanted|bytes .*wanted", "it sends another amount than the contract's",
     "count messages and bytes of one rank by hand, for the smallest case"),
    (r"the loss of step ([2-9]|\d\d+) is -?(nan|inf)",
     "step 1 is right, and a later step reads what is no longer valid",
     "what does it read that the step before has changed? In tests a value is NaN once it is out of date: with ZeRO "
     "the other ranks' part of a weight, from the update to the gather"),
    (r"gave OK, not E_|has to raise \w+; it gave", "an error is not refused",
     "what the contract calls an error has to return its status, or to raise its exception"),
    (r"failed as it should, but does not say", "an error's message lacks a value",
     "the contract says which values the sentence has"),
    (r"gave E_\w+, not E_", "an error has another status than the contract's",
     "the contract names the status of each error"),
    (r"\bgave E_\w+: ", "it returns an error where it should succeed",
     "the line above is your own FAIL, or that of a function you call"),
    (r" raises \w+: ", "it raises an error where it should give a result",
     "the line above is where: what has this name, this index or this divisor there?"),
    (r"\bis -?(nan|inf)\b|\byou say -?(nan|inf)\b|nan, (not|should)", NOT_FINITE,
     "where is 0 divided by 0, or infinity by infinity? Or was the result never written?"),
]


def of(lines):
    """(name, hint, line) of what a failed test has said; hint: "" where the claim's own is it."""
    for pattern, name, hint in TABLE:
        for line in lines:
            if re.search(pattern, line):
                return name, hint, line
    return WRONG, "", telling(lines)


class Cause:
    """name, hint, the claims that fail by it (texts), and the lines of the first of them."""

    def __init__(self, name, hint, lines, failed_on, held):
        self.name, self.hint, self.lines = name, hint, lines
        self.failed_on, self.held, self.claims = failed_on, held, []


def all_of(failed):
    """The causes, that of the most claims first; what is only seen comes last. failed: (text, outcome, hint),
    the claims in their order; an outcome without lines (of a hidden test) has no cause."""
    found = {}
    for text, outcome, hint in failed:
        lines = [line for line in outcome.why if not line.startswith("it did not run")]
        if not lines:
            continue
        name, own, line = of(lines)
        cause = found.setdefault(name, Cause(name, own or hint, [line, *lines], outcome.failed_on, outcome.held))
        cause.claims.append(text)
    return sorted(found.values(), key=lambda c: (c.name == WRONG, c.name == NOT_FINITE, -len(c.claims)))


def telling(lines):
    """The line of a failed test that tells most: not the place in the test, and no single word."""
    for line in lines:
        line = re.sub(r"^(ERROR: |.{1,60} gave E_[A-Z]+: (\[rank [^]]*\] )?)", "", line)
        if " " in line and not re.match(r"\S+\.(c|h|cu):\d+(:|$)", line) and not line.startswith("(on rank"):
            return line
    return lines[0] if lines else ""
