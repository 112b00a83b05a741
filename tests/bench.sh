#!/bin/bash
# make bench's own arithmetic, and the library that lets PyTorch be loaded without CUDA's: tests/bench_arithmetic.py
set -u -o pipefail
PYTHONPATH=tools/bench exec python3 -B tests/bench_arithmetic.py
