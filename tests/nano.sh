#!/bin/bash
# nano/ is what it says: its losses are its serial run's, and the large project's, in every layout; and its size.
# Last line: "N passed, N failed". BUILD: where trivium is. MY: a folder with lesson 29's layer.c, schedule.c and
# update.c, which take the place of nano's functions; one or more of them.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0
check() { # check NAME COMMAND...
    if "${@:2}"; then echo "ok $1"; passed=$((passed + 1)); else echo "FAILED $1"; failed=$((failed + 1)); fi
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader # no search for networks
run() { mpirun --oversubscribe --bind-to none -n "$1" "${@:2}"; }

# Losses of two files differ by at most a relative $3.
same() {
    paste "$1" "$2" |
        awk -v limit="$3" \
        'function abs(x) { return x < 0 ? -x : x }
        NF != 2 || abs($1 - $2) > limit * abs($1) { bad = 1 } END { exit bad || NR != 20 }'
}
losses() { sed -n 's/.*loss \([0-9.e+-]*\).*/\1/p'; }
nano() { run "$1" "$BUILD/$2" "${sizes[@]}" "${@:3}" | losses; }

mine=(-I.)
for name in ${MY:+layer schedule update}; do
    if [ -f "$MY/$name.c" ]; then mine+=("-DMY_${name^^}" "$MY/$name.c"); fi
done
if [ -n "${MY-}" ]; then echo "$(((${#mine[@]} - 1) / 2)) of your functions"; fi
mpicc -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers -o "$BUILD/nano" "${mine[@]}" nano/*.c -lm &&
    mpicc -O2 -DREAL=float -o "$BUILD/nano-fp32" "${mine[@]}" nano/*.c -lm || exit 1
sizes=(--layers 4 --hidden 32 --heads 4 --seq 32 --global-batch 8 --steps 20 --eps 1e-6 --warmup 3)
"$BUILD/trivium" train --device cpu --precision fp64 --val-fraction 0 --metrics "$out/large.jsonl" \
    --log quiet "${sizes[@]}" >"$out/log" || { cat "$out/log"; exit 1; }
python3 -c 'import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if "loss" in row: print(repr(row["loss"]))' "$out/large.jsonl" >"$out/large"
nano 1 nano >"$out/serial"
check "nano on one rank is the large project, 20 losses within 1e-12" same "$out/large" "$out/serial" 1e-12
for layout in "2 --dp 2" "2 --tp 2" "2 --pp 2" "4 --tp 2 --dp 2 --zero 1" "4 --pp 4 --recompute 1" \
    "4 --dp 4 --zero 1 --recompute 1" "8 --tp 2 --dp 2 --pp 2" \
    "8 --tp 2 --dp 2 --pp 2 --zero 1 --recompute 1" "8 --tp 4 --pp 2 --micro-batch 2"; do
    read -r -a words <<<"$layout"
    nano "${words[0]}" nano "${words[@]:1}" >"$out/layout"
    check "nano on $layout" same "$out/large" "$out/layout" 1e-12
done
nano 1 nano-fp32 >"$out/serial32"
nano 8 nano-fp32 --tp 2 --dp 2 --pp 2 --zero 1 >"$out/layout"
check "nano in fp32: 8 ranks are one, within 1e-5" same "$out/serial32" "$out/layout" 1e-5
check "nano in fp32 is nano in fp64, within 1e-4" same "$out/serial" "$out/serial32" 1e-4
check "nano has at most five files of code and 1000 lines" [ "$(cat nano/*.[ch] | wc -l)" -le 1000 \
    -a "$(ls nano/*.[ch] | wc -l)" -le 5 ]
lengths() { for file in nano/*.[ch]; do grep -q "^| \`$(basename "$file")\` | $(wc -l <"$file") |" nano/README.md ||
    return 1; done; }
check "nano/README.md says how long its files are" lengths
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
