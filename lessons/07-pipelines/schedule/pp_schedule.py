"""Exercise: three schedules (lesson 07, "Three orders"), and their costs, in Python.

    gpipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
    1f1b          stage i of p warms up with p - 1 - i forwards; then one forward, one backward; then it drains
    interleaved   1f1b over v chunks of the model per stage: virtual stage = chunk p + stage. Microbatches go in groups
                  of p: a group passes all chunks before the next one starts. Warm-up: 2 (p - 1 - i) + (v - 1) p; with v
                  = 1 it is 1f1b

name is one of these three. p: stages; v: chunks on each stage, 1 but for interleaved; m: microbatches; stage counts
from 0. Interleaved only gets an m that p divides.

An action is (kind, chunk, microbatch). Kinds are "F" and "B", and their transfers "RECV_F", "SEND_F", "RECV_B",
"SEND_B". A receive comes directly before the action that reads the message, a send directly after the action that
computes it: RECV_F F SEND_F, RECV_B B SEND_B. F of virtual stage k receives from k - 1 and sends to k + 1, B the other
way; beyond the model's ends there is no transfer. Start with 1f1b, which has v = 1."""


def schedule(name, p, v, m, stage):
    """The actions of this stage in their order, as a list."""
    raise NotImplementedError("schedule is not written yet")


def peak_in_flight(actions):
    """The largest number of (chunk, microbatch) pairs whose F has run, and not yet their B: walk the list and count."""
    raise NotImplementedError("peak_in_flight is not written yet")


def peak(name, p, v, m, stage):
    """The same by formula."""
    raise NotImplementedError("peak is not written yet")


def bubble(name, p, v, f, b):
    """The idle time of a stage in a step, by formula. f, b: time of a microbatch's forward and backward on one stage,
    all its chunks together. Transfers take no time."""
    raise NotImplementedError("bubble is not written yet")
