#!/bin/bash
# train --nvtx: a stand-in for a profiler (tests/nvtx/profiler.c) hears ranges that nest, with the names of a trace. In
# a build without NVTX's header the option is refused. BUILD: where the program is (default: build); DEVICE: cpu or cuda
# (default: cpu).
set -u -o pipefail
trivium=${BUILD:-build}/trivium
device=$([ "${DEVICE:-cpu}" = cpu ] && echo cpu || echo cuda)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
small=(--device "$device" --layers 2 --hidden 16 --heads 2 --seq 8 --global-batch 8 --micro-batch 4 --val-fraction 0 \
    --metrics "" --steps 2 --fuse off)

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out" "$work/err" 2>/dev/null | head -40
}

if grep -q 'this build has no NVTX' <<<"$("$trivium" train "${small[@]}" --nvtx 2>&1)"; then
    "$trivium" train "${small[@]}" --nvtx >"$work/out" 2>"$work/err"
    if [ $? = 2 ] && grep -q 'E_CONFIG.*nvtx=on.*nvtx3/nvToolsExt.h was not found; put its folder into CPATH' \
        "$work/err"; then
        echo "ok nvtx_without_its_header_is_refused"
    else not_ok nvtx_without_its_header_is_refused "something else is said"; fi
    exit
fi

# the header of the build: where the compiler finds it, or the toolkit's
toolkit=$(make -s --no-print-directory -p -n NVCC="${NVCC-}" 2>/dev/null |
    sed -n 's/^NVTX_CFLAGS := .*-isystem \([^ ]*\).*/\1/p' | head -1)
${CC:-cc} -shared -fPIC -O1 ${toolkit:+-isystem "$toolkit"} -o "$work/profiler.so" tests/nvtx/profiler.c \
    2>"$work/err" ||
    { not_ok nvtx_stand_in "does not compile"; exit; }

# heard NAME RANKS OPTIONS...: the ranges of rank 0 are in $work/log
heard() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$work/log"
    NVTX_INJECTION64_PATH=$work/profiler.so NVTX_LOG=$work/log OMP_NUM_THREADS=1 "$trivium" train \
        "${small[@]}" --nvtx "$@" >"$work/out" 2>"$work/err" ||
        { not_ok "$name" "exit code $?"; return 1; }
    grep -q 'no profiler' "$work/err" && { not_ok "$name" "a profiler is attached"; return 1; }
    [ "$(tail -1 "$work/log")" = "depth 0 at the end" ] ||
        { not_ok "$name" "ranges are open at the end, or none was heard"; return 1; }
}

# each range in the one that it is a part of
nests() { # NAME: "DEPTH NAME of what", as it is in the log, must be there COUNT times
    local want=$1 n=$2
    [ "$(grep -c "^$want\$" "$work/log")" = "$n" ] || { not_ok nvtx_ranges_nest_and_have_our_names \
        "not $n times: '$want'"; sed 's/^/#   /' "$work/log" | head -60; exit; }
}
heard nvtx_ranges_nest_and_have_our_names 1 || exit
nests '> step [12]' 2
nests '  > forward and backward' 2
nests '    > F [01]' 4
nests '    > B [01]' 4
nests '      > linear h1.qkv forward' 4
nests '      > linear h0.fc2 backward_input' 4
nests '      > linear h0.fc2 backward_weight' 4
nests '      > gelu h0.gelu backward_weight' 0 # has no weights
nests '  > update' 2
[ "$(grep -c '>' "$work/log")" = "$(grep -c '<$' "$work/log")" ] && echo "ok nvtx_ranges_nest_and_have_our_names" ||
    not_ok nvtx_ranges_nest_and_have_our_names "not as many ends as beginnings"

# losses are the same with it; a profiler that is missing is reported; not together with a trace
"$trivium" train "${small[@]}" --nvtx >"$work/with" 2>"$work/err"
"$trivium" train "${small[@]}" >"$work/without" 2>/dev/null
if grep -q 'no profiler is attached.*nsys profile' "$work/err" &&
    [ "$(grep -o 'loss [0-9.]* | norm [0-9.]*' "$work/with")" = "$(grep -o 'loss [0-9.]* | norm [0-9.]*' \
    "$work/without")" ]
then echo "ok nvtx_changes_no_number_and_says_that_nobody_listens"
else not_ok nvtx_changes_no_number_and_says_that_nobody_listens "other losses, or no word"; fi
"$trivium" train "${small[@]}" --nvtx --trace "$work/t" >"$work/out" 2>"$work/err"
if [ $? = 2 ] && grep -q 'E_CONFIG.*nvtx=on with trace=' "$work/err"; then echo "ok nvtx_beside_a_trace_is_refused"
else not_ok nvtx_beside_a_trace_is_refused "not refused"; fi
