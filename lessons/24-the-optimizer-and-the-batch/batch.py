#!/usr/bin/env python3
"""Numbers of a run's metrics (--metrics FILE), for lesson 24.

    batch.py loss FILE [SAMPLES]             mean loss of the last samples (default 1024)
    batch.py steps FILE TARGET               steps to the middle of the first 512 samples whose mean loss is below it
    batch.py noise FEW_FILE MANY_FILE        gradient, noise and noise scale from two runs with --lr 0 and two batch
                                             sizes
"""
import json
import sys


SEQ = 32        # --seq of this lesson's runs


def rows(path):
    """The rows of steps, and the samples of a step."""
    with open(path, encoding="utf-8") as f:
        steps = [row for row in map(json.loads, f) if "loss" in row]
    return steps, (steps[1]["tokens_seen"] - steps[0]["tokens_seen"]) // SEQ


def mean(numbers):
    return sum(numbers) / len(numbers)


def loss(path, samples=1024):
    steps, batch = rows(path)
    print(f"{len(steps)} steps, loss {mean([row['loss'] for row in steps[-max(1, int(samples) // batch):]]):.4f}")


def steps(path, target):
    taken, batch = rows(path)
    losses, window = [row["loss"] for row in taken], max(1, 512 // batch)
    for i in range(window + 1, len(losses) + 1):
        if mean(losses[i - window:i]) < float(target):
            print(f"{i - window // 2} steps, {(i - window // 2) * batch} samples")
            return
    print("not reached")


def noise(few_path, many_path):
    (few, b), (many, B) = rows(few_path), rows(many_path)
    few, many = (mean([row["grad_norm"] ** 2 for row in x]) for x in (few, many))
    gradient, trace = (B * many - b * few) / (B - b), (few - many) / (1 / b - 1 / B)
    print(f"squared norm {few:.3f} at batch {b}, {many:.3f} at {B}: gradient {gradient:.3f}, noise {trace:.2f}, "
          f"noise scale {trace / gradient:.2f} samples")


{"loss": loss, "steps": steps, "noise": noise}[sys.argv[1]](*sys.argv[2:])
