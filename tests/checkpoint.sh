#!/bin/bash
# Kill at any moment, restart, and nothing is lost: a job that saves all the time is killed at a random moment, a rank
# of it or all of it, as often as not in the middle of a save. It is started again from `latest`, and the last
# checkpoint must have the bytes of that of a job without a kill.
#
# Run from the project's root. BUILD: where the program is (default: build). KILLS: how many runs are killed (default:
# 5). SEED: which moments (default: from the clock, and said). ASYNC=1: instead, what tests/again has.
# ALL=1: that, too.
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
kills=${KILLS:-5}
RANDOM=${SEED:-$(($(date +%s) % 32768))}
seed=${SEED:-$RANDOM}
RANDOM=$seed
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_CHECKPOINT=$$.$RANDOM # every process of a job has it in its environment, and so can be found
steps=24

# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1

job() { # SAVE [ARGUMENTS...]
    local save=$1
    shift
    env "$marker" "$trivium" launch -n 4 train --device cpu --threads 1 --data "$demo" --layers 2 --hidden 64 \
        --heads 4 --seq 32 --global-batch 8 --steps $steps \
        --dp 2 --tp 2 --zero 1 --dropout 0.1 --val-fraction 0 --log warn --metrics "" --save "$save" \
        --save-every 1 --keep 2 "$@"
}

whole=whole # the job without a kill,
options=()  # and the other options of all jobs
same_bytes() { # the last steps of two folders
    local file last
    last=$(printf 'step-%08d' $steps)
    for file in "$whole/$last"/*; do cmp -s "$file" "$1/$last/$(basename "$file")" || return 1; done
}

job whole || { echo "not ok killed_job_resumes a job without a kill fails"; exit 1; }

# At least one checkpoint is there before the kill: a job that has none has nothing to resume.
wait_for_first() { # SAVE
    local until=$((SECONDS + 60))
    until [ -e "$1/latest" ]; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.01
    done
}

kill_one_run() { # NUMBER. Every other one is killed while a thread writes
    local save=killed-$1 victims beside=()
    [ $(($1 % 2)) = 0 ] || beside=(--save-async)
    beside+=("${options[@]}")
    job "$save" "${beside[@]}" >/dev/null 2>&1 &
    wait_for_first "$save" ||
        { echo "not ok killed_job_$1_resumes no checkpoint within a minute"; end_all; wait; return; }
    sleep 0.$((RANDOM % 60 + 10))
    if [ $((RANDOM % 2)) = 0 ]; then victims=$(pids $((RANDOM % 4))); else victims=$(pids); fi
    # shellcheck disable=SC2086 # several
    [ -z "$victims" ] || kill -KILL $victims 2>/dev/null
    wait
    end_all
    if ! job "$save" "${options[@]}" --resume "$save" >resumed 2>&1; then
        echo "not ok killed_job_$1_resumes (SEED=$seed) what latest names, $(cat \
            "$save/latest"), cannot be resumed: $(grep E_ resumed)"
    elif ! same_bytes "$save"; then
        echo "not ok killed_job_$1_resumes (SEED=$seed) it ends with other bytes"
    else
        echo "ok killed_job_$1_resumes"
    fi
    rm -rf "$save"
}

# Asked to stop: a last checkpoint, code 75, and the rest later is as if it had not been asked.
stops() { # NAME SAVE CODE
    local name=$1 save=$2 code=$3
    if [ "$code" != 75 ]; then echo "not ok $name exit code $code, not 75"; return; fi
    if ! job "$save" --resume "$save" >resumed 2>&1; then
        echo "not ok $name cannot be resumed: $(grep E_ resumed)"; return
    fi
    if same_bytes "$save"; then echo "ok $name"; else echo "not ok $name it ends with other bytes"; fi
}

asked_to_stop() { # SIGNAL NAME
    local save=asked-$1 launcher
    job "$save" >/dev/null 2>&1 &
    wait_for_first "$save" || { echo "not ok $2 no checkpoint within a minute"; end_all; wait; return; }
    launcher=$(pids_of launch | head -1)
    kill "-$1" "$launcher"
    wait $!
    stops "$2" "$save" $?
}

time_is_up() {
    job limited --time-limit 0.1 >/dev/null 2>&1
    stops time_limit_stops limited $?
}

# Replicas that train apart have one model every 101 steps only: the job goes on until then. (One time in a hundred it
# is there already.)
time_is_up_between_two_averages() {
    local name=time_limit_waits_for_the_average step code
    job apart --zero 0 --local-steps 101 --save-every 101000 --steps 101000 --time-limit 0.1 >/dev/null 2>&1
    code=$?
    step=$(sed 's/step-0*//' apart/latest)
    if [ $code = 75 ] && [ $((step % 101)) = 0 ]; then
        echo "ok $name"
    else
        echo "not ok $name code $code at step $step"
    fi
}

# Runs bash text with a small file system of its own in the folder `disk`; job works in it. Code 77: none can be mounted
# here.
with_a_disk() { # SIZE TEXT
    unshare -m true 2>/dev/null || return 77
    mkdir -p disk
    unshare -m bash -c "mount -t tmpfs -o size=$1 tmpfs disk || exit 77
        $(declare -f job)
        trivium='$trivium' marker='$marker' demo='$demo' work='$work' steps=$steps
        $2" 2>/dev/null
}

# There is room for one checkpoint and a half: the first is saved, the others fail and are counted, and the first is
# whole.
on_a_full_disk() { # NAME [OPTION]
    local name=$1 code
    with_a_disk 2300k \
        "job disk ${2-} --metrics full.jsonl >full 2>&1; code=\$?
        $trivium checkpoint inspect disk >inspected 2>&1 || exit 76; exit \$code"
    code=$?
    if [ $code = 77 ]; then echo "skip $name no file system can be mounted here"; return; fi
    if [ $code != 1 ]; then echo "not ok $name code $code, not 1: $(cat inspected)"; return; fi
    if [ "$(grep -c "E_" full)" != 1 ] || ! grep -q "E_IO.*No space left on device" full; then
        echo "not ok $name says $(grep E_ full)"; return
    fi
    if ! grep -q "step-00000001" inspected; then
        echo "not ok $name another one is latest: $(head -3 inspected)"; return
    fi
    if ! grep -q "\"step\":$steps,\"save_ms\".*\"save_failures\":$((steps - 1))}" full.jsonl; then
        echo "not ok $name counts $(grep save_failures full.jsonl | tail -1)"; return
    fi
    echo "ok $name"
}

# What was saved loads; nothing more can be saved in its folder.
on_a_read_only_disk() {
    local code
    with_a_disk 9m \
        "job disk --save-every 23 --steps 23 >/dev/null 2>&1 || exit 76; mount -o remount,ro disk
        job disk --resume disk >full 2>&1; code=\$?
        $trivium checkpoint inspect disk >inspected 2>&1 || exit 76; exit \$code"
    code=$?
    if [ $code = 77 ]; then echo "skip read_only_disk no file system can be mounted here"; return; fi
    if [ $code != 1 ]; then echo "not ok read_only_disk code $code, not 1: $(cat inspected)"; return; fi
    if [ "$(grep -c "E_" full)" != 1 ] || ! grep -q "E_IO.*Read-only file system" full; then
        echo "not ok read_only_disk says $(cat full)"; return
    fi
    if grep -q "step-00000023" inspected; then
        echo "ok read_only_disk"
    else
        echo "not ok read_only_disk $(head -3 inspected)"
    fi
}

# Rows of metrics that cannot be written are worth a line, and no step: training ends as it would, with code 1.
metrics_that_cannot_be_written() {
    local code name=metrics_that_cannot_be_written
    job unmeasured --metrics /dev/full >full 2>&1
    code=$?
    if [ $code != 1 ]; then echo "not ok $name code $code, not 1: $(head -1 full)"; return; fi
    if [ "$(grep -c 'warning.*metrics=/dev/full: No space left' full)" != 1 ] || [ "$(grep -c E_IO full)" != 1 ]
    then echo "not ok $name says $(cat full)"; return; fi
    if same_bytes unmeasured; then echo "ok $name"; else echo "not ok $name it ends with other bytes"; fi
}

# Rank 0 alone cannot write its metrics, after a save that every rank has passed over: it says so, and no rank waits for
# it.
metrics_on_a_full_disk() {
    local code
    with_a_disk 2300k "job disk --metrics disk/metrics.jsonl >full 2>&1" &
    local pid=$! until=$((SECONDS + 60))
    while kill -0 $pid 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.1; done
    if kill -0 $pid 2>/dev/null; then
        echo "not ok metrics_on_a_full_disk still there after a minute"; end_all; wait; return
    fi
    wait $pid
    code=$?
    if [ $code = 77 ]; then echo "skip metrics_on_a_full_disk no file system can be mounted here"; return; fi
    if [ $code = 1 ] && [ "$(grep -c "E_" full)" = 1 ] && grep -q "E_IO.*No space left on device" full; then
        echo "ok metrics_on_a_full_disk"
    else echo "not ok metrics_on_a_full_disk code $code: $(grep E_ full)"; fi
}

# Damage of every kind to a copy of the whole checkpoint: one line, code 2, and no hang, whatever reads it.
damage() { # NAME COMMAND: run in the copy, where $step and $shard are its names
    local step shard=rank-00002.safetensors code said
    step=$(cat whole/latest)
    rm -rf harmed
    cp -r whole harmed
    (cd harmed && eval "$2") || { echo "not ok damage_$1 the damage fails"; return; }
    timeout 10 "$trivium" checkpoint inspect harmed >inspected 2>said
    code=$?
    said=$(head -c 300 said | tr '\n\0' '  ')
    if [ $code != 2 ] || [ "$(wc -l <said)" != 1 ] || ! grep -qE '^(\[rank[^]]*\] )?E_(DATA|FORMAT) ' said
    then echo "not ok damage_$1 code $code: $said"; else echo "ok damage_$1"; fi
}
# flip FILE BYTE: another value for one byte
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
damages() {
    damage latest_empty ': >latest'
    damage latest_missing 'rm latest'
    damage latest_above 'echo ../whole >latest'
    damage latest_absolute 'echo /etc >latest'
    damage latest_gone 'echo step-00000099 >latest'
    damage latest_escape 'printf "step-\e[2J\n" >latest'
    damage latest_zero_byte 'printf "step-0000\0\0\0\0\n" >latest'
    damage latest_huge 'head -c 100000 /dev/zero | tr "\0" 9 >latest'
    damage latest_folder 'rm latest; mkdir latest'
    damage latest_link_to_itself 'rm latest; ln -s latest latest'
    damage latest_pipe 'rm latest; mkfifo latest'
    damage shard_cut_off 'truncate -s -1 $step/$shard'
    damage shard_longer 'echo >>$step/$shard'
    damage shard_empty ': >$step/$shard'
    damage shard_missing 'rm $step/$shard'
    damage shard_pipe 'rm $step/$shard; mkfifo $step/$shard'
    damage shard_folder 'rm $step/$shard; mkdir $step/$shard'
    damage shard_bit_of_length 'flip $step/$shard 1'
    damage shard_bit_of_header 'flip $step/$shard 100'
    damage shard_bit_of_data 'flip $step/$shard 30001'
    damage shard_of_another_step 'cp step-00000023/$shard $step/$shard'
    damage shards_swapped 'cd $step; mv $shard x; mv rank-00001.safetensors $shard; mv x rank-00001.safetensors'
    damage manifest_missing 'rm $step/manifest.json'
    damage manifest_pipe 'rm $step/manifest.json; mkfifo $step/manifest.json'
    damage manifest_of_another_step 'cp step-00000023/manifest.json $step'
    damage manifest_cut_off 'truncate -s 300 $step/manifest.json'
    damage manifest_more_updates 'sed -i "s/\"update\": \"24\"/\"update\": \"23\"/" $step/manifest.json'
    damage manifest_other_scale 'sed -i "s/\"weight_decay\": 0/\"weight_decay\": 1/" $step/manifest.json'
    damage manifest_60_megabytes 'head -c 60000000 /dev/zero | tr "\0" " " >>$step/manifest.json'
}

# A failed save leaves nothing, and what killed jobs have left goes before a new job looks for room: as soon as there is
# room, saves work again.
room_is_made() {
    local code name=resume_after_room_is_made
    with_a_disk 2300k "job disk >full 2>&1; 
        mkdir disk/.step-00000077; head -c 500000 /dev/zero >disk/.step-00000077/x
        ls -A disk | grep step | tr '\n' ' ' >left
        mount -o remount,size=3100k disk; job disk --resume disk --keep 1 >healed 2>&1"
    code=$?
    if [ $code = 77 ]; then echo "skip $name no file system can be mounted here"; return; fi
    if [ "$(cat left)" != ".step-00000077 step-00000001 " ]
    then echo "not ok $name failed saves leave $(cat left)"; return; fi
    if [ $code = 0 ]; then echo "ok $name"; else echo "not ok $name code $code: $(grep E_ healed)"; fi
}

# The same in one job: it goes on while its saves fail, and saves when it is asked to stop.
room_is_made_meanwhile() { # NAME [OPTION]
    local code
    with_a_disk 2300k "$(declare -f wait_for pause pids pids_of)
        job disk --steps 1000000 --keep 1 ${2-} >full 2>&1 & sleep 0.1; job=\$!
        wait_for 60 grep -q 'is not saved' full || { kill -KILL \$(pids); exit 76; }
        mount -o remount,size=3100k disk; kill -USR1 \$(pids_of launch | head -1); wait \$job; code=\$?
        $trivium checkpoint inspect disk >inspected 2>&1 || exit 76; exit \$code"
    code=$?
    if [ $code = 77 ]; then echo "skip $1 no file system can be mounted here"; return; fi
    if [ $code = 75 ]; then echo "ok $1"; else echo "not ok $1 code $code: $(grep -h E_ full inspected | head -1)"; fi
}

# A second job in the folder of a running one gets a line with its owner; the first one's checkpoints and metrics are
# untouched, and the folder is free as soon as it has ended.
two_jobs() { # NAME [OPTION]
    local name=$1 save=$1 first launcher code says
    says="E_IO.*$save is used by another job: process [0-9]* on host $(hostname), since"
    job "$save" --steps 1000000 --metrics "$save.jsonl" "${@:2}" >/dev/null 2>&1 &
    first=$!
    wait_for_first "$save" || { echo "not ok $name no checkpoint within a minute"; end_all; wait; return; }
    launcher=$(pids_of launch | head -1)
    job "$save" --metrics "$save.jsonl" "${@:2}" >second 2>&1
    code=$?
    kill -USR1 "$launcher"
    wait $first
    [ $? = 75 ] || { echo "not ok $name the first one has not stopped with code 75"; return; }
    if [ $code != 1 ] || [ "$(grep -c '' second)" != 1 ] || ! grep -q "$says" second
    then echo "not ok $name the second one: code $code, $(head -1 second)"; return; fi
    head -1 "$save.jsonl" | grep -q '^{"step":1,' || { echo "not ok $name the first one's metrics are gone"; return; }
    if job "$save" --steps 1000000 --resume "$save" --time-limit 0.1 >second 2>&1; [ $? = 75 ]; then echo "ok $name"
    else echo "not ok $name what the first one saved does not go on: $(head -1 second)"; fi
}

# Started together: one trains, and the other gets that line.
two_jobs_at_once() {
    # longer than either waits for the other to end
    local name=two_jobs_at_once codes=() endless="--steps 1000000 --time-limit 6"
    # shellcheck disable=SC2086 # words
    { job at-once $endless >one 2>&1 & job at-once $endless >two 2>&1 & }
    wait %1; codes+=($?)
    wait %2; codes+=($?)
    if [ $((codes[0] + codes[1])) != 76 ]; then echo "not ok $name codes ${codes[*]}: $(head -qn 1 one two)"; return; fi
    if [ "$(cat one two | grep -vc '^stopped after step')" != 1 ] ||
        ! grep -q "at-once is used by another job: process" one two
    then echo "not ok $name says $(cat one two)"; return; fi
    if job at-once --steps 1000000 --resume at-once --time-limit 0.1 >two 2>&1; [ $? = 75 ]; then echo "ok $name"
    else echo "not ok $name what one of them saved does not go on: $(head -1 two)"; fi
}

async() {
    room_is_made_meanwhile room_is_made_beside_training --save-async
    two_jobs two_jobs_beside_training --save-async
    on_a_full_disk full_disk_beside_training --save-async
    time_is_up_between_two_averages
}
[ -z "${ASYNC-}${ALL-}" ] || async
[ -z "${ASYNC-}" ] || exit 0
damages
room_is_made
room_is_made_meanwhile room_is_made_meanwhile
two_jobs two_jobs
two_jobs_at_once
on_a_read_only_disk
metrics_that_cannot_be_written
metrics_on_a_full_disk
on_a_full_disk full_disk
asked_to_stop USR1 usr1_stops
asked_to_stop TERM term_stops
time_is_up
for ((i = 1; i <= kills; i++)); do kill_one_run $i; done

# Without a flush: a checkpoint is one, so a job that is killed between two has lost no more than what came after the
# first.
whole=whole-2bw options=(--dp 1 --tp 1 --pp 4 --zero 0 --layers 4 --schedule 2bw --micro-batch 1 --clip 0 \
    --save-every 3)
job whole-2bw "${options[@]}" || { echo "not ok killed_job_of_2bw a job without a kill fails"; exit 1; }
for ((i = kills + 1; i <= kills + 2; i++)); do kill_one_run $i; done
