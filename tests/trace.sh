#!/bin/bash
# train --trace, from outside: the file, what is said of it, and what is refused.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=${BUILD:-build}/trivium
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
small=(--layers 2 --hidden 16 --heads 2 --seq 8 --global-batch 8 --val-fraction 0 --metrics "")

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out" "$work/err"
}

# traces NAME RANKS STEPS OPTIONS...: the file has just these steps (from otherData), and the run says so
traces() {
    local name=$1 ranks=$2 steps=$3
    shift 3
    rm -f "$work/t.json"
    "$trivium" launch -n "$ranks" train "${small[@]}" --trace "$work/t.json" "$@" >"$work/out" 2>"$work/err" ||
        { not_ok "$name" "exit code $?"; return; }
    grep -q "^trace .*: steps $steps, $ranks rank" "$work/out" ||
        { not_ok "$name" "does not say: steps $steps"; return; }
    grep -qE '^bubble [0-9.]+ ms per step, .*by the schedule' "$work/out" ||
        { not_ok "$name" "says nothing of the bubble"; return; }
    [ "$(grep -c '"name":"process_name"' "$work/t.json")" = "$ranks" ] ||
        { not_ok "$name" "not every rank is in the file"; return; }
    local said
    said=$(grep -oE '"name":"step [0-9]+","pid":0' "$work/t.json" | tr -dc '0-9\n' | sed 's/0$//' | paste -sd' ')
    [ "$said" = "$(seq -s' ' "${steps% to *}" "${steps#* to }")" ] ||
        { not_ok "$name" "the file has steps $said"; return; }
    echo "ok $name"
}

# refuses NAME CODE TEXT OPTIONS...: one line with that code and text, and no step is made
refuses() {
    local name=$1 code=$2 text=$3
    shift 3
    "$trivium" train "${small[@]}" "$@" >"$work/out" 2>"$work/err" && { not_ok "$name" "not refused"; return; }
    grep -q "$code .*$text" "$work/err" || { not_ok "$name" "does not say: $code $text"; return; }
    grep -q '^step ' "$work/out" && { not_ok "$name" "trained"; return; }
    echo "ok $name"
}

traces trace_of_the_third_and_fourth_step 2 '3 to 4' --pp 2 --steps 6
traces trace_of_a_run_that_is_too_short_for_that 1 '1 to 1' --steps 1
traces trace_of_the_steps_that_are_asked_for 1 '2 to 4' --steps 4 --trace-first 2 --trace-steps 9
# Shares of a link's rate need a file that says it.
shares() { # NAME FULL [OPTIONS...]
    local name=$1 full=$2
    shift 2
    "$trivium" launch -n 2 train "${small[@]}" --dp 2 --steps 2 --trace "$work/t.json" "$@" \
        >"$work/out" 2>"$work/err" || { not_ok "$name" "exit code $?"; return; }
    grep -q '"ph":"C","name":"link node","pid":1,.*"bytes_per_s":[1-9]' "$work/t.json" ||
        { not_ok "$name" "no bytes per second"; return; }
    [ "$(grep -oE '"link_bytes_per_s":\{[^}]*\}' "$work/t.json")" = "\"link_bytes_per_s\":{$full}" ] ||
        { not_ok "$name" "other rates than {$full}"; return; }
    [ "$(grep -c '"ph":"C","name":"link node"' "$work/t.json")" = "$(grep -c '"link node share"' "$work/t.json")" ] ||
        [ -z "$full" ] || { not_ok "$name" "a rate without its share"; return; }
    if [ -z "$full" ] && grep -q share "$work/t.json"; then not_ok "$name" "a share of nothing"; return; fi
    echo "ok $name"
}
shares trace_without_a_cluster_has_no_shares ''
shares trace_with_a_cluster_has_shares_of_its_rates '"node":7e9' --cluster cpu-2core
refuses trace_with_no_such_cluster E_DATA 'cluster' --steps 2 --trace "$work/t.json" --cluster nowhere
refuses trace_that_cannot_be_written E_IO "trace=$work/none/t.json.*another path" --steps 2 --trace "$work/none/t.json"
mkfifo "$work/pipe"
refuses trace_into_a_pipe E_IO "trace=$work/pipe is a pipe" --steps 2 --trace "$work/pipe"
refuses trace_behind_the_last_step E_CONFIG 'trace-first=5 is after the last step, and steps=4' --steps 4 \
    --trace "$work/t.json" --trace-first 5
refuses trace_first_of_no_trace E_CONFIG 'trace-first=2 without trace' --steps 4 --trace-first 2

# A trace that cannot be written costs no step, and is the job's end all the same: code 1.
timeout 60 "$trivium" launch -n 2 train "${small[@]}" --steps 5 --trace /dev/full >"$work/out" 2>"$work/err"
code=$?
if [ $code != 1 ] || ! grep -q '^step 5/5' "$work/out"; then not_ok trace_on_a_full_disk "code $code, not 1"
elif [ "$(grep -c E_ "$work/err")" = 1 ] && grep -q 'E_IO.*trace=/dev/full: No space left' "$work/err"
then echo "ok trace_on_a_full_disk"; else not_ok trace_on_a_full_disk "says something else"; fi
timeout 60 "$trivium" train "${small[@]}" --steps 2 --trace >(cat >"$work/t.json") >"$work/out" 2>"$work/err"
for _ in {1..50}; do grep -q '^]}' "$work/t.json" && break; sleep 0.1; done
if grep -q '^]}' "$work/t.json"; then echo "ok trace_into_a_process"
else not_ok trace_into_a_process "no whole trace"; fi

# An evaluation between traced steps takes none of their room, and is no part of the bubble.
small=(--layers 2 --hidden 16 --heads 2 --seq 8 --global-batch 8 --metrics "")
traces trace_with_evaluations_between_its_steps 2 '2 to 4' --tp 2 --steps 4 --trace-first 2 --trace-steps 3 \
    --eval-every 1 --val-fraction 0.5
if grep -q 'did not fit' "$work/err" || grep -q 'bubble -' "$work/out"; then
    not_ok trace_has_room_for_every_step "spans are missing"
else echo "ok trace_has_room_for_every_step"; fi

# --spike-guard undoes traced steps, again and again, a checkpoint saved between: each step is there once.
"$trivium" train "${small[@]}" --val-fraction 0 --threads 1 --lr 1e-2 --steps 120 --seed 1 --spike-guard 1 \
    --save "$work/guard" --save-every 2 \
    --trace "$work/g.json" --trace-first 60 --trace-steps 12 >"$work/out" 2>"$work/err"
twice=$(grep -oE '"name":"step [0-9]+","pid":0' "$work/g.json" | sort | uniq -d)
if [ -s "$work/g.json" ] && [ -z "$twice" ] && grep -q 'back to step' "$work/err"; then
    echo "ok trace_has_no_step_twice_when_the_guard_goes_back"
else not_ok trace_has_no_step_twice_when_the_guard_goes_back "twice: $twice"; fi

# Nothing left to do: what an earlier run has traced stays, and that nothing is traced is said.
cp "$work/g.json" "$work/kept.json"
"$trivium" train "${small[@]}" --val-fraction 0 --threads 1 --steps 120 --seed 1 --resume "$work/guard" \
    --trace "$work/g.json" >"$work/out" 2>"$work/err"
if cmp -s "$work/g.json" "$work/kept.json" && grep -q 'nothing will be traced' "$work/err"; then
    echo "ok trace_of_nothing_leaves_the_file_alone"
else not_ok trace_of_nothing_leaves_the_file_alone "the file changed, or nothing was said"; fi
