#!/bin/bash
# What a training job leaves: a failing or interrupted evaluation loses no step, and a refused job changes no file.
#
# Run from the project's root. BUILD: where the program is (default: build). ONLY=NAME: one test.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_TRAIN=$$.$RANDOM # every process of a job has it in its environment, and so can be found
wait_step=0.02
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1

sizes=(--layers 1 --hidden 16 --heads 2 --seq 16 --global-batch 4 --threads 1)
job() { # RANKS [ARGUMENTS...]
    local ranks=$1
    shift
    env "$marker" "$trivium" launch -n "$ranks" train --device cpu "${sizes[@]}" "$@"
}
not_ok() { echo "not ok $1: $2"; sed 's/^/#   /' out err; }
says() { grep -q -- "$1" err; }
latest() { [ "$(cat "$1/latest" 2>/dev/null)" = "$(printf 'step-%08d' "$2")" ]; }

# data NAME TOKENS PLACE: llm.c's format, tokens below 100, and one of 120 at a place, if it is not 0
data() {
    {
        printf '\x88\xd8\x34\x01\x01\0\0\0'
        # shellcheck disable=SC2059 # that is the point
        printf "$(printf '\\x%02x' $(($2 & 255)) $(($2 >> 8 & 255)))"'\0\0'
        head -c 1012 /dev/zero
        for ((i = 0; i < $2; i++)); do
            # shellcheck disable=SC2059
            printf "$(printf '\\x%02x' $((i == $3 && i > 0 ? 120 : (i * 37 + i / 7) % 100)))"'\0'
        done
    } >"$1"
}
# An evaluation that takes minutes: of a long text, with little to train on
long_evaluation() {
    [ -e long.txt ] || for ((i = 0; i < 400; i++)); do cat "$demo"; done >long.txt
    job "$1" --data "$demo" --val-data long.txt "${@:2}" >out 2>err &
}

# ---- evaluations ----
refused_before_the_first_step() {
    local name=validation_data_are_checked_before_the_first_step code ranks
    for ranks in 1 4; do
        job $ranks --vocab 100 --data train.bin --val-data bad.bin --steps 3 --save said-$ranks --metrics "" >out 2>err
        code=$?
        if [ $code != 2 ] ||
            ! says "warning: bad.bin: token 120 at position 200 is not below vocab=100.*training continues" ||
            ! says "E_DATA.*the evaluation after step 3 failed: bad.bin: token 120"; then
                not_ok $name "code $code"; return; fi
        [ "$(cat said-$ranks/latest)" = step-00000003 ] || { not_ok $name "its steps are lost"; return; }
    done
    # of clicks, ids
    if "$trivium" data synth-clicks --to few.bin --samples 400 --rows 100 >out 2>err &&
        "$trivium" data synth-clicks --to many.bin --samples 400 --rows 200 >out 2>err &&
        job 2 --arch dlrm --heads 1 --seq 1 --dp 2 --data few.bin --val-data many.bin --steps 3 \
        --metrics never.jsonl >out 2>err ||
        ! says "warning: many.bin: id 1[0-9]* of sample [0-9]* is beyond the 100 rows"; then
            not_ok $name "ids are not checked"; return; fi
    # an evaluation of three batches does not read that token
    job 1 --vocab 100 --data train.bin --val-data bad.bin --eval-batches 3 --steps 1 --metrics "" >out 2>err ||
        { not_ok $name "samples are refused that are not evaluated"; return; }
    echo "ok $name"
}

# The file changes while the job runs; two of its four ranks cannot read a sample, in the middle of a batch
evaluation_fails() {
    local name=evaluation_that_fails_costs_no_step code
    cp good.bin changing.bin
    job 4 --dp 2 --tp 2 --vocab 100 --data train.bin --val-data changing.bin --steps 300 --save fails \
        --metrics fails.jsonl >out 2>err &
    wait_for 60 grep -qs '"step":20,' fails.jsonl || { not_ok $name "it does not get that far"; end_all; wait; return; }
    dd if=bad.bin of=changing.bin conv=notrunc status=none
    wait $!
    code=$?
    if [ $code != 2 ] || ! says "warning: the evaluation after step 250 failed: changing.bin: token 120" ||
        ! says "E_DATA .*; all steps are done"; then not_ok $name "code $code"; return; fi
    if ! latest fails 300 || grep -q val_loss fails.jsonl; then
        not_ok $name "not saved, or evaluated all the same"; return
    fi
    echo "ok $name"
}

# asked NAME CODE STEP WORDS OPTIONS...: the job is asked to stop when the checkpoint of that step is there, and its
# evaluation runs; with a time limit, that asks
asked() {
    local name=$1 code step=$3 words=$4
    long_evaluation 2 --tp 2 --save "$name" --metrics "$name.jsonl" "${@:5}"
    wait_for 60 latest "$name" "$step" ||
        { not_ok "$name" "the evaluation begins before the save has ended"; end_all; wait; return; }
    sleep 0.2
    [[ "${*:5}" == *--time-limit* ]] || kill -USR1 "$(pids_of launch | head -1)"
    wait_for 30 eval "! kill -0 $! 2>/dev/null" || end_all
    wait $!
    code=$?
    if [ $code != "$2" ] || ! says "$words"; then not_ok "$name" "code $code, not $2"; return; fi
    if ! latest "$name" "$step" || grep -q val_loss "$name.jsonl"; then
        not_ok "$name" "another step, or evaluated"; return
    fi
    echo "ok $name"
}
early="ended early, after [0-9]* of [0-9]* batches: the job was asked to stop"

# ---- the file of metrics ----
# untouched WORDS OPTIONS...: a job that does no step leaves the rows of the run before it
untouched() {
    local words=$1
    shift
    "$trivium" train "${sizes[@]}" --val-fraction 0 --metrics rows.jsonl "$@" >out 2>err
    cat out >>err
    if ! says "$words"; then echo "does not say $words"; return 1; fi
    if ! cmp -s rows.jsonl rows.before || [ -e rows-1.jsonl ]; then
        echo "$*: the rows are not as they were"; return 1
    fi
}
refused_leaves_the_rows() {
    local name=jobs_that_do_no_step_leave_the_rows why
    "$trivium" train "${sizes[@]}" --val-fraction 0 --metrics rows.jsonl --steps 4 --save rows >out 2>err
    cp rows.jsonl rows.before
    [ "$(grep -c '"loss"' rows.jsonl)" = 4 ] || { not_ok $name "the first run has no rows"; return; }
    why=$(untouched "nothing left to do" --steps 4 --resume rows && untouched "nowhere is no checkpoint" \
        --resume nowhere &&
        untouched "seed=7 is requested" --steps 8 --resume rows --seed 7 &&
        untouched "hidden" --steps 8 --resume rows --hidden 32 &&
        untouched "memory-limit" --memory-limit 0.001 && untouched "E_IO" --save rows.jsonl &&
        untouched "E_IO" --trace absent/trace &&
        untouched "E_DATA" --data absent) || { not_ok $name "$why"; return; }
    echo "ok $name"
}

# A second job finds another at work, and the rows of the first one are whole: every step once, and nothing else
second_job() {
    local name=second_job_leaves_the_rows first code
    job 1 --val-fraction 0 --metrics shared.jsonl --steps 1000000 --save shared >out 2>err &
    first=$!
    wait_for 60 grep -qs '"step":20,' shared.jsonl || { not_ok $name "it does not begin"; end_all; wait; return; }
    job 1 --val-fraction 0 --metrics shared.jsonl --steps 3 >second 2>&1
    code=$?
    job 1 --val-fraction 0 --metrics shared.jsonl --metrics-append --resume nowhere >third 2>&1
    sleep 0.3
    kill -USR1 "$(pids_of launch | head -1)"
    wait $first
    cat second third >err
    if [ $code != 1 ] || ! grep -q "E_IO .*metrics=shared.jsonl: another job writes this file" second
    then not_ok $name "the second one: code $code"; return; fi
    if grep -v '"save_ms"' shared.jsonl | awk -F'[:,]' '$2 != NR { exit 1 }' &&
        ! grep -q save_ms <(head -n -1 shared.jsonl) &&
        [ -z "$(ls shared-*.jsonl 2>/dev/null)" ]
    then echo "ok $name"; else not_ok $name "the rows are not whole"; fi
}
new_run() {
    local name=new_run_keeps_the_earlier_rows k
    for k in 2 3 4; do "$trivium" train "${sizes[@]}" --val-fraction 0 --metrics many.jsonl --steps $k >out 2>err; done
    if [ "$(cat many-1.jsonl many-2.jsonl many.jsonl | grep -o '^{"step":[0-9]*' | grep -o '[0-9]*$' | tr -d '\n')" = \
        121231234 ] &&
        says "earlier run are in many-2.jsonl"
    then echo "ok $name"; else not_ok $name "rows are lost"; fi
}

# ---- checkpoints of other runs ----
train() { "$trivium" train "${sizes[@]}" --val-fraction 0 --metrics "" --log warn "$@" >>out 2>>err; }
steps() { (cd "$1" && echo step-* | sed 's/step-0*//g'); }
# --keep counts what this run has saved: after it went back, and when it begins again in the folder
other_runs() {
    local name=keep_counts_the_steps_of_this_run more
    for more in "" --save-async; do
        rm -rf kept
        : >out >err
        train --steps 40 --save kept --save-every 10 --keep 0 &&
            train --steps 18 --resume kept/step-00000010 --save kept --save-every 2 --keep 2 $more ||
            { not_ok $name "it fails"; return; }
        if [ "$(steps kept)" != "16 18" ] || [ "$(steps kept/aside-1)" != "20 30 40" ]; then
            not_ok $name "after going back: $(steps kept)"; return
        fi
        says "3 checkpoints of another run, up to step 40, are in kept/aside-1" ||
            { not_ok $name "no line names the folder"; return; }
        # what was set aside goes on; and a run that is refused moves nothing
        train --steps 42 --resume kept/aside-1 --save elsewhere ||
            { not_ok $name "what was set aside cannot be resumed"; return; }
        train --steps 4 --save kept --memory-limit 0.001
        [ ! -e kept/aside-2 ] || { not_ok $name "a refused run moves checkpoints"; return; }
        train --steps 4 --save kept --save-every 1 $more || { not_ok $name "it fails"; return; }
        if [ "$(steps kept)" != "3 4" ] || [ "$(steps kept/aside-2)" != "16 18" ]; then
            not_ok $name "from scratch: $(steps kept)"; return
        fi
        # the same run goes on: what it has made counts
        train --steps 6 --resume kept --save kept --save-every 1 --keep 3 $more || { not_ok $name "it fails"; return; }
        if [ "$(steps kept)" != "4 5 6" ] || [ -e kept/aside-3 ]; then
            not_ok $name "going on: $(steps kept)"; return
        fi
    done
    echo "ok $name"
}
tokens_of_two_batches() {
    local name=tokens_seen_counts_samples
    "$trivium" train "${sizes[@]}" --val-fraction 0 --metrics first.jsonl --steps 4 --save batches >out 2>err
    "$trivium" train "${sizes[@]}" --global-batch 16 --val-fraction 0 --metrics second.jsonl --steps 5 \
        --resume batches >out 2>err
    if grep -q '"tokens_seen":512[,}]' second.jsonl; then
        echo "ok $name"
    else
        not_ok $name "not 4 x 4 x 16 + 16 x 16"
    fi
}

# ---- other files: a job that is refused leaves those of an earlier one ----
other_files() {
    local name=refused_jobs_leave_traces_and_records file
    : >out >err
    for file in trace record; do
        local more=(--trace trace)
        [ $file = trace ] || more=(--dp 2 --servers 1 --server-mode async --clip 0 --server-record record)
        job 2 --val-fraction 0 --metrics "" --steps 4 --save of-$file "${more[@]}" >>out 2>>err
        [ -s $file ] || { not_ok $name "no $file"; return; }
        cp $file before
        job 2 --val-fraction 0 --metrics "" --steps 4 "${more[@]}" --resume of-$file --seed 7 >>out 2>>err
        job 2 --val-fraction 0 --metrics "" --steps 4 "${more[@]}" --memory-limit 0.001 >>out 2>>err
        cmp -s before $file || { not_ok $name "$file is not as it was"; return; }
        job 2 --val-fraction 0 --metrics "" --steps 5 "${more[@]}" >>out 2>>err
        ! cmp -s before $file && [ ! -e $file.new ] || { not_ok $name "$file is not replaced"; return; }
    done
    echo "ok $name"
}

# ---- defaults, and what is seldom meant ----
# A newcomer's run: no loss jumps, and no norm (at twice the rate one of the first twenty steps had a norm of 30 to 160)
smooth() {
    local name=defaults_train_smoothly
    "$trivium" train --device cpu --val-fraction 0 --metrics smooth.jsonl --threads 1 >out 2>err
    sed -n 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/p' smooth.jsonl >err
    if [ "$(wc -l <err)" = 100 ] && awk 'NR > 1 && $1 > last + 0.5 || $2 > 8 { exit 1 } { last = $1 }' err
    then echo "ok $name"; else not_ok $name "a loss that jumps, or a norm above 8"; fi
}
remarks() {
    local name=warmup_without_an_end_and_resume_without_save
    : >out >err
    train --steps 5 --warmup 4 &&
        says "warmup=4 of steps=5: the last step has lr=0.0005, and min-lr=5e-05 is not reached; use more steps, "\
"or --warmup 3" ||
        { not_ok $name "no line warns of warmup 4"; return; }
    : >err
    train --steps 5 --warmup 3 --save remarks && [ ! -s err ] || { not_ok $name "warmup 3 is fine"; return; }
    printf 'steps = 50\nwarmup = 5\n' >shortened.ini
    train --config shortened.ini --steps 5 && [ ! -s err ] || { not_ok $name "a shortened run is fine"; return; }
    train --steps 7 --log info --resume remarks && says "not be saved; give --save" ||
        { not_ok $name "no line advises --save"; return; }
    : >err
    train --steps 5 --log info --resume remarks && ! says "not be saved" ||
        { not_ok $name "nothing is left to save"; return; }
    train --steps 9 --log info --resume remarks --save remarks && ! says "not be saved" ||
        { not_ok $name "it is saved"; return; }
    echo "ok $name"
}

# ---- all of it ----
data train.bin 1000 0
data good.bin 300 0
data bad.bin 300 200
all=(
    "refused_before_the_first_step"
    "evaluation_fails"
    "refused_leaves_the_rows"
    "second_job"
    "new_run"
    "other_runs"
    "tokens_of_two_batches"
    "other_files"
    "smooth"
    "remarks"
    "asked stops_in_an_evaluation 75 4 'evaluation after step 4 $early' --steps 8 --save-every 4 --eval-every 4"
    "asked stops_in_the_last_evaluation 0 8 'evaluation after step 8 $early' --steps 8"
    "asked saves_beside_an_evaluation 75 4 'evaluation after step 4 $early' --steps 8 --save-every 4 \
--eval-every 4 --save-async"
    "asked time_limit_ends_an_evaluation 75 4 'evaluation after step 4 $early' --steps 8 --save-every 4 \
--eval-every 4 --time-limit 8"
)
for test in "${all[@]}"; do
    [[ -n "${ONLY-}" && "$test" != *"$ONLY"* ]] || eval "$test"
done
