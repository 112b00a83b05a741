#!/bin/bash
# trivium schedule, from outside: what it says of small schedules, in text, JSON and SVG, and what it refuses.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=${BUILD:-build}/trivium
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}

run() { "$trivium" schedule "$@" >"$work/out" 2>"$work/err"; }

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out" "$work/err"
}

# says NAME TEXT... -- OPTIONS...: succeeds, and each text is somewhere in the output
says() {
    local name=$1 texts=()
    shift
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    run "$@" || { not_ok "$name" "exit code $?"; return; }
    for text in "${texts[@]}"; do
        grep -qF -- "$text" "$work/out" || { not_ok "$name" "does not say: $text"; return; }
    done
    echo "ok $name"
}

# refuses NAME CODE TEXT OPTIONS...: one line with that code and text, exit code 2
refuses() {
    local name=$1 code=$2 text=$3
    shift 3
    run "$@"
    local exit_code=$?
    if [ $exit_code != 2 ]; then not_ok "$name" "exit code $exit_code"
    elif [ "$(wc -l <"$work/err")" != 1 ]; then not_ok "$name" "not one line"
    elif ! grep -q "^$code .*$text" "$work/err"; then not_ok "$name" "does not say $code ... $text"
    else echo "ok $name"; fi
}

# ---- text ----
says schedule_draws_1f1b \
    'stage  0  F0 F1 .  .  B0--- F2 B1--- .  B2---' \
    'stage  1  .  F0 B0--- F1 B1--- F2 B2---' \
    '12 = 9 of work + 3 idle' '(p-1)(F+B) = 3' -- --schedule 1f1b --pp 2 --microbatches 3
says schedule_draws_gpipe \
    'stage  0  F0 F1 F2 .  .  .  .  .  .  B0--- B1--- B2---' '(p-1)(F+B) = 6' -- --schedule gpipe --pp 3 \
    --microbatches 3
says schedule_draws_interleaved \
    'stage  0  F0 F1 f0 f1 F2 .  b0--- F3' 'bubble   1.5; closed form (p-1)(F+B)/v = 1.5' \
    -- --schedule interleaved --pp 2 --microbatches 4 --chunks 2
says schedule_draws_letters_where_numbers_do_not_fit 'stage  0  FFFFFFFFFF' -- --schedule gpipe --pp 2 --microbatches 40
says schedule_too_large_to_draw 'too large to draw' 'closed form (p-1)(F+B) = 189' -- --pp 64 --microbatches 256
says schedule_counts_messages 'closed form (p-1)(F+B) = 3 without transfers' '23 = 3 of work + 20 idle' \
    -- --pp 2 --microbatches 1 --time-c 8.5
says schedule_of_one_stage '1f1b: 1 stage, 1 microbatch;' '0 idle' -- --pp 1 --microbatches 1
says schedule_has_help '--microbatches' '--time-f' -- --help

says schedule_draws_weight_gradients 'stage  3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 W0' 'W0 its weight gradients' \
    '(p-1)(F+Bi-W) = 3' \
    -- --schedule zb-h1 --pp 4 --microbatches 8
says schedule_tells_a_parallelogram 'bubble   0; closed form (p-1)(F+Bi-2W) = 0' \
    'with a sum over all stages at the end, 3' \
    -- --schedule zb-h2 --pp 4 --microbatches 8
says schedule_draws_two_directions 'chimera: 4 stages, 4 microbatches, in two directions' \
    'small letters: the other direction' '(p-2)B (if F = B or m = p) = 4' \
    -- --schedule chimera --pp 4 --microbatches 4
says schedule_tells_versions 'stage  0  F 0 0 0 1  B 0 0 0 1  2 versions' 'stage  1  F 0 0 1 1  B 0 0 1 1  1 version' \
    -- --schedule pipedream --pp 2 --microbatches 2
says schedule_follows_times '33 = 30 of work + 3 idle' -- --schedule zb-2p --pp 2 --microbatches 6 --time-f 2 \
    --time-b 3 --time-w 1 --memory 2
says schedule_uses_the_memory_it_has '32 = 30 of work + 2 idle' -- --schedule zb-2p --pp 2 --microbatches 6 --time-f 2 \
    --time-b 3 --time-w 1
says schedule_of_all 'zb-v                 25.5       1.5         0         0       4' \
    'dualpipe               25' '2bw ' \
    -- --all --pp 4 --microbatches 8
says schedule_of_all_tells_why_not 'chimera         not of this shape: a pipeline in both directions takes an even pp' \
    -- --all --pp 3 --microbatches 6
run --schedule zb-v --pp 2 --microbatches 4 --csv && cp "$work/out" "$work/zb-v.csv"
says schedule_of_a_file "$work/zb-v.csv: 2 stages, 4 microbatches, 2 chunks a stage" 'bubble   0;' -- \
    --schedule "file:$work/zb-v.csv"
sed -i 's/0F1/0X1/' "$work/zb-v.csv"
refuses schedule_refuses_a_broken_file E_CONFIG 'line 2, cell 2: "0X1" is no action' --schedule "file:$work/zb-v.csv"
refuses schedule_refuses_two_pipelines_as_a_file E_CONFIG 'schedule=dualpipe is two pipelines' --schedule dualpipe --csv
refuses schedule_refuses_an_odd_pp E_CONFIG 'even pp and 2 microbatches or more, and there are pp=3' \
    --schedule chimera --pp 3
refuses schedule_refuses_too_few_microbatches E_CONFIG 'pp=4 and 2 microbatches' --schedule 2bw --pp 4 --microbatches 2
refuses schedule_refuses_weights_longer_than_backward E_CONFIG 'time-w=3 is part of time-b=2' --time-w 3

# ---- JSON ----
read_json='
import json, sys
d = json.load(sys.stdin)
assert [d[k] for k in ("schedule", "pp", "microbatches", "chunks")] == ["interleaved", 4, 8, 2], d
assert d["bubble"] == 4.5 and d["makespan"] == 28.5 and abs(d["bubble_fraction"] - 4.5 / 28.5) < 1e-15, d
assert d["peak_in_flight"] == [11, 9, 7, 5] and len(d["stages"]) == 4, d
for s in d["stages"]:
    work = sum(a["end"] - a["start"] for a in s["actions"])
    ids = sorted((a["kind"], a["chunk"], a["microbatch"]) for a in s["actions"])
    assert work == 24 and ids == sorted((k, c, m) for k in "FB" for c in range(2) for m in range(8)), s["stage"]
'
if run --schedule interleaved --pp 4 --microbatches 8 --chunks 2 --json; then
    if ! command -v python3 >/dev/null; then echo "skip schedule_json there is no python3 to read it with"
    elif python3 -c "$read_json" <"$work/out" 2>"$work/err"; then echo "ok schedule_json"
    else not_ok schedule_json "not what it should hold"; fi
else not_ok schedule_json "exit code $?"; fi

# ---- SVG ----
svg=$work/chart.svg
if ! run --schedule interleaved --pp 4 --microbatches 8 --chunks 2 --svg "$svg"; then not_ok schedule_svg "exit code $?"
elif [ "$(grep -c '<title>' "$svg")" != 128 ]; then
    not_ok schedule_svg "$(grep -c '<title>' "$svg") boxes, not 4 x 8 x 2 x 2"
elif command -v xmllint >/dev/null && ! xmllint --noout "$svg" 2>"$work/err"; then not_ok schedule_svg "not XML"
else echo "ok schedule_svg"; fi

run --svg "$work/no/such/folder.svg"
if [ $? = 1 ] && grep -q '^E_IO .*no/such/folder.svg' "$work/err"; then echo "ok schedule_svg_that_cannot_be_written"
else not_ok schedule_svg_that_cannot_be_written "no E_IO"; fi

# ---- what is refused ----
refuses schedule_refuses_a_share_that_it_does_not_read E_USAGE \
    'held: this schedule does not read it; give --schedule zb-2p' --held 0.5
refuses schedule_refuses_chunks_of_1f1b E_CONFIG 'chunks=2 needs a schedule of chunks; use schedule interleaved' \
    --chunks 2
refuses schedule_refuses_chunks_of_one_stage E_CONFIG 'pp=1' --schedule interleaved --pp 1 --chunks 2
refuses schedule_refuses_odd_groups E_CONFIG 'groups of pp=4, and there are 6 .*such as 8' --schedule interleaved \
    --pp 4 --microbatches 6
refuses schedule_refuses_unknown_names E_USAGE 'gpipe, 1f1b, interleaved' --schedule zigzag
refuses schedule_refuses_what_is_too_large E_CONFIG 'the limit is' --pp 512 --microbatches 1000000

# What a command prints is what it makes: on a full disk it has failed, with one line. But a run of training has
# trained.
for command in schedule "show memory" "show mesh --json" help; do
    name=schedule_output_lost_by_${command//[ -]/_}
    # shellcheck disable=SC2086
    "$trivium" $command >/dev/full 2>"$work/err"
    code=$?
    : >"$work/out"
    if [ $code = 1 ] && [ "$(grep -c '^E_IO .*standard output\|^E_IO .*cannot write' "$work/err")" = 1 ]; then
        echo "ok $name"
    else
        not_ok "$name" "exit code $code"
    fi
done
if "$trivium" train --steps 1 --val-fraction 0 >/dev/full 2>"$work/err"; then
    echo "ok schedule_output_lost_by_train"
else
    not_ok schedule_output_lost_by_train "exit code $?"
fi
