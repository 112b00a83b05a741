#!/bin/bash
# config.json, held against transformers: the tables that import reads it by have every key that transformers reads, and
# variants of it, made from those tables, are imported with transformers' loss or refused by name (tests/hf_keys.py,
# tests/hf_variants.py).
#
# Run from the project's root. EVERY=n: one of n variants is tried (default: 20); 1: all of the 2600 or so
# (tests/again). MODELS: of which models (default: all). BUILD: where the program is (default: build).
# PYTHON: one with torch and transformers.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

python=
for candidate in ${PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import numpy, torch, transformers' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then echo "skip hf_variants no Python with numpy, torch and transformers here"; exit 0; fi

"$python" tests/hf_keys.py 2>"$log" || echo "not ok hf_keys it ended with code $?: $(tail -1 "$log")"
# shellcheck disable=SC2046,SC2086 # words
"$python" tests/hf_variants.py "$trivium" "${EVERY-20}" \
    ${MODELS-gpt2 bert t5 $(sed -n 's/^    X(\([a-z0-9_]*\)).*/\1/p' models/llama/families/family.h)} 2>"$log" ||
    echo "not ok hf_variants it ended with code $?: $(tail -1 "$log")"
