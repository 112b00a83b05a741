#!/bin/bash
# tools/gpu-check without a GPU: what it does with stages that pass, fail, take too long or cannot run, played by
# stand-ins for the built programs; and that no report of a rehearsal reaches docs/benchmarks.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GPU_CHECK_FILTER GPU_CHECK_LIMIT GPU_TREE
export BUILD_NAME=$work/build GPU_CHECK_DEVICE=simt GPU_CHECK_DIR=$work/results GPU_CHECK_OUT=$work/docs

report() { if [ "$1" = 0 ]; then echo "ok gpu-check: $2"; else
    echo "not ok gpu-check: $2"; sed 's/^/    /' "$work/said"; fi; }
stand_in() { # PROGRAM LINE: a program that does that
    mkdir -p "$work/build-simt" "$work/build"
    printf '#!/bin/bash\n%s\n' "$2" | tee "$work/build-simt/$1" >"$work/build/$1"
    chmod +x "$work"/build*/*
}
check() { tools/gpu-check "$@" >"$work/said" 2>&1; } # its exit code
row() { grep -qE "^$1 +$2 +[0-9]+  .*$3" "$work/said"; } # STAGE RESULT WORDS: a line of the table

tools/gpu-check --list >"$work/said" && [ "$(grep -cE '^[a-z0-9-]+ +[0-9]+ s  ' "$work/said")" -ge 16 ]
report $? "--list names the stages and their limits"
check units-1 no-such-stage; [ $? = 2 ] && grep -q 'no stage is called no-such-stage; they are: machine build' \
    "$work/said" && [ ! -e "$GPU_CHECK_DIR/units-1.result" ]
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
cat >"$work/build-simt/trivium-tests" <<'END'
#!/bin/bash
echo "3 passed, 0 failed, 0 skipped"
[[ $TEST_FILES != *test_linear.c ]] || sleep 60
END
mkdir -p "$work/bin" && printf '#!/bin/bash\necho "GPU 0: a stand-in"\n' >"$work/bin/nvidia-smi" &&
    chmod +x "$work/bin/nvidia-smi"
cp "$work/build-simt/trivium-tests" "$work/build/"
PATH=$work/bin:$PATH GPU_CHECK_DEVICE=cuda GPU_CHECK_LIMIT=12 GPU_CHECK_FILTER=lib/ops/test_ check units-1
row units-1 'out of time' 'stopped after 12 s; [1-9][0-9]* passed, 0 failed, then came to no end'
report $? "a stage of tests that is ended at its limit keeps the counts of the files before"
stand_in trivium 'echo "{}"; exit 1'
GPU_CHECK_COMMIT=abc1234 check units-1; grep -q '^commit abc1234$' "$GPU_CHECK_DIR/units-1.result"
report $? "GPU_CHECK_COMMIT names what is built where there is no .git"
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
# a trivium that trains, and a PyTorch that counts how often it is begun
stand_in trivium 'case $1 in
    show) echo "\"total\": 1048576" ;;
    train) while [ "$1" != --metrics ]; do shift; done
        for i in 1 2 3 4; do
            echo "{\"step\":$i,\"step_ms\":5.0,\"tokens_per_s\":1,\"flops_per_token\":1,\"mfu\":0.5}"
        done >"$2" ;;
esac'
cat >"$work/bin/python3" <<'END'
#!/bin/bash
case "$*" in
    *gpt_torch.py*) echo begun >>"$TORCH_BEGUN"; while [ "$1" != --json ]; do shift; done
        echo '{"tokens_per_s": 7}' >"$2" ;;
esac
END
chmod +x "$work/bin/python3"
TORCH_BEGUN=$work/begun PYTHON=python3 PATH=$work/bin:$PATH BATCH=2 check bench-124m
row bench-124m passed 'batch 2 of 2' && [ "$(wc -l <"$work/begun")" = 1 ]
report $? "with BATCH, PyTorch is begun once a round: the first run is a result"
check nccl memcheck; row nccl 'not run' 'no GPU' && row memcheck 'not run' 'no GPU'
report $? "what needs a GPU is not run, and says so"

[ ! -e "$GPU_CHECK_OUT" ] && grep -q '"rehearsal": true' "$GPU_CHECK_DIR/report.json"
report $? "a rehearsal writes its report next to the logs, and nothing into docs/benchmarks"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1]))
assert {s["stage"]: s["result"] for s in r["stages"]}["units-2"] == "failed"' \
        "$GPU_CHECK_DIR/report.json" 2>>"$work/said"
    report $? "the report is JSON"
fi
if ! nvidia-smi -L >/dev/null 2>&1; then
    GPU_CHECK_DEVICE=cuda GPU_CHECK_DIR=$work/cuda check machine units-1; [ $? = 3 ] &&
        row machine 'not run' 'no GPU' && row units-1 'not run' 'no GPU' && [ ! -e "$GPU_CHECK_OUT" ]
    report $? "without a GPU nothing is measured, and nothing is written to docs/benchmarks"
fi
GPU_CHECK_DEVICE=opencl check machine; [ $? = 2 ]
report $? "a device that there is not is refused"
