#!/bin/bash
# tests/more/remedies.sh with more plans, and others.
CASES=4000 SEED=2 tests/more/remedies.sh
