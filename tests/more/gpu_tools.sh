#!/bin/bash
# tools/gpu-check without a GPU: what it does with stages that pass, fail, take too long or cannot run, played by stand-ins for
# the built programs; and that no report of a rehearsal reaches docs/benchmarks.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GPU_CHECK_FILTER GPU_CHECK_LIMIT GPU_TREE
export BUILD_NAME=$work/build GPU_CHECK_DEVICE=simt GPU_CHECK_DIR=$work/results GPU_CHECK_OUT=$work/docs

report() { if [ "$1" = 0 ]; then echo "ok gpu-check: $2"; else echo "not ok gpu-check: $2"; sed 's/^/    /' "$work/said"; fi; }
stand_in() { # PROGRAM LINE: a program that does that
    mkdir -p "$work/build-simt" "$work/build"
    printf '#!/bin/bash\n%s\n' "$2" | tee "$work/build-simt/$1" >"$work/build/$1"
    chmod +x "$work"/build*/*
}
check() { tools/gpu-check "$@" >"$work/said" 2>&1; } # its exit code
row() { grep -qE "^$1 +$2 +[0-9]+  .*$3" "$work/said"; } # STAGE RESULT WORDS: a line of the table

tools/gpu-check --list >"$work/said" && [ "$(grep -cE '^[a-z0-9-]+ +[0-9]+ s  ' "$work/said")" -ge 16 ]
report $? "--list names the stages and their limits"
check --quick --list; [ $? = 0 ] && [ "$(awk '{ s += $2 } END { print s <= 540 }' "$work/said")" = 1 ] && [ "$(awk '{ printf "%s ", $1 }' "$work/said")" = "machine build smoke bench-124m units-1 step bench-kernels " ]
report $? "--quick is an order of its own, and its limits fit into nine minutes"
check units-1 no-such-stage; [ $? = 2 ] && grep -q 'no stage is called no-such-stage; they are: machine build' "$work/said" && [ ! -e "$GPU_CHECK_DIR/units-1.result" ]
report $? "an unknown stage is refused before anything runs"

check units-1; [ $? = 1 ] && row units-1 failed 'nothing is built'
report $? "tests without a build fail and say what to do"
stand_in trivium 'exit 1'
stand_in trivium-tests 'echo "3 passed, 0 failed, 0 skipped"'
check units-1; [ $? = 3 ] && row units-1 passed '3 passed, 0 failed' && grep -q '^REHEARSAL' "$work/said"
report $? "a stage that passes; stages that have not run make the exit code 3; a rehearsal says so"
stand_in trivium-tests 'echo "FAILED it"; echo "2 passed, 1 failed, 0 skipped"; exit 1'
check units-2; [ $? = 1 ] && row units-2 failed '2 passed, 1 failed' && row units-1 passed '3 passed'
report $? "a stage that fails; the results of others are kept"
check --pack "$work/kept.tgz" units-1 units-2; [ $? = 1 ] && tar tzf "$work/kept.tgz" >"$work/said" && grep -q 'units-1.log' "$work/said" && grep -q 'units-2.result' "$work/said" && [ ! -e "$work/kept.tgz.new" ]
report $? "--pack keeps results and logs after every stage, of those that failed too"
stand_in trivium-tests 'echo "3 passed, 0 failed, 0 skipped"; sleep 60'
{ GPU_CHECK_DIR=$work/killed GPU_CHECK_LIMIT=9 tools/gpu-check --pack "$work/early.tgz" units-1 units-2 >"$work/said" 2>&1 & } && ender=$!
for _ in {1..60}; do [ -e "$work/early.tgz" ] && break; sleep 0.5; done
kill $ender 2>/dev/null; wait $ender 2>/dev/null; tar tzf "$work/early.tgz" >>"$work/said" && grep -q 'units-1.result' "$work/said"
report $? "a run that is killed in its second stage leaves the first one's results"
losses() { # STEPS ON THE DEVICE...: a trivium whose five losses on the CPU are 9 8 7 6 5
    stand_in trivium 'list="9 8 7 6 5"; [[ $* != *"device cuda"* ]] || list="'"$*"'"
while [ "$1" != --metrics ]; do shift; done
printf "{\"loss\": %s}\n" $list >"$2"'
}
losses 9.01 8.01 7 6 5; check smoke; row smoke passed 'own --fuse off: off by 0.00125'
report $? "smoke: losses as the CPU's"
losses 9 8 7 6 5.2; check smoke; [ $? = 1 ] && row smoke failed 'own --fuse on: WRONG, off by 0.04'
report $? "smoke: a loss that is another fails, and says which way of computing it was"
stand_in trivium 'exit 1'
stand_in trivium-tests 'sleep 60'
GPU_CHECK_LIMIT=2 check units-1; [ $? = 1 ] && row units-1 'out of time' 'stopped after 2 s'
report $? "a stage that hangs is ended at its limit"
check bench-124m; [ $? = 1 ] && row bench-124m failed 'no batch fits'
report $? "a benchmark whose program fails is a failure"
check nccl memcheck; row nccl 'not run' 'no GPU' && row memcheck 'not run' 'no GPU'
report $? "what needs a GPU is not run, and says so"

[ ! -e "$GPU_CHECK_OUT" ] && grep -q '"rehearsal": true' "$GPU_CHECK_DIR/report.json"
report $? "a rehearsal writes its report beside the logs, and nothing into docs/benchmarks"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert {s["stage"]: s["result"] for s in r["stages"]}["units-2"] == "failed"' \
        "$GPU_CHECK_DIR/report.json" 2>>"$work/said"
    report $? "the report is JSON"
fi
if ! nvidia-smi -L >/dev/null 2>&1; then
    GPU_CHECK_DEVICE=cuda GPU_CHECK_DIR=$work/cuda check machine units-1; [ $? = 3 ] && row machine 'not run' 'no GPU' && row units-1 'not run' 'no GPU' && [ ! -e "$GPU_CHECK_OUT" ]
    report $? "without a GPU nothing is measured, and nothing is written to docs/benchmarks"
fi
GPU_CHECK_DEVICE=opencl check machine; [ $? = 2 ]
report $? "a device that there is not is refused"
