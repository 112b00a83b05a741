#!/bin/bash
# Kill at any moment, restart, and nothing is lost: a job that saves all the time is killed at a random moment, a rank of it or all of it,
# as often as not in the middle of a save. It is started again from `latest`, and the last checkpoint must have the bytes of that of
# a job that nobody killed.
#
# Run from the project's root. BUILD: where the program is (default: build). KILLS: how many runs are killed (default: 5). SEED: which
# moments (default: from the clock, and said).
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

pids() { # [RANK]
    local file
    for file in $(grep -lzxF -- "$marker" /proc/[0-9]*/environ 2>/dev/null); do
        [ $# = 0 ] || grep -qzxF "OMPI_COMM_WORLD_RANK=$1" "$file" 2>/dev/null || continue
        file=${file%/environ}
        echo "${file#/proc/}"
    done
}
end_all() {
    local left
    left=$(pids)
    # shellcheck disable=SC2086 # several
    [ -z "$left" ] || kill -KILL $left 2>/dev/null
}
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1

job() { # SAVE [ARGUMENTS...]
    local save=$1
    shift
    env "$marker" "$trivium" launch -n 4 train --device cpu --threads 1 --data "$demo" --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 8 --steps $steps \
        --dp 2 --tp 2 --zero 1 --dropout 0.1 --val-fraction 0 --log warn --metrics "" --save "$save" --save-every 1 --keep 2 "$@"
}

same_bytes() { # the last steps of two folders
    local file last
    last=$(printf 'step-%08d' $steps)
    for file in whole/"$last"/*; do cmp -s "$file" "$1/$last/$(basename "$file")" || return 1; done
}

job whole || { echo "not ok killed_job_resumes a job that nobody kills fails"; exit 1; }

# At least one checkpoint is there before the kill: a job that has none has nothing to resume.
wait_for_first() { # SAVE
    local until=$((SECONDS + 60))
    until [ -e "$1/latest" ]; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.01
    done
}

kill_one_run() { # NUMBER
    local save=killed-$1 victims
    job "$save" >/dev/null 2>&1 &
    wait_for_first "$save" || { echo "not ok killed_job_$1_resumes no checkpoint within a minute"; end_all; wait; return; }
    sleep 0.$((RANDOM % 60 + 10))
    if [ $((RANDOM % 2)) = 0 ]; then victims=$(pids $((RANDOM % 4))); else victims=$(pids); fi
    # shellcheck disable=SC2086 # several
    [ -z "$victims" ] || kill -KILL $victims 2>/dev/null
    wait
    end_all
    if ! job "$save" --resume "$save" >resumed 2>&1; then
        echo "not ok killed_job_$1_resumes (SEED=$seed) what latest names, $(cat "$save/latest"), cannot be resumed: $(grep E_ resumed)"
    elif ! same_bytes "$save"; then
        echo "not ok killed_job_$1_resumes (SEED=$seed) it ends with other bytes"
    else
        echo "ok killed_job_$1_resumes"
    fi
    rm -rf "$save"
}

# Asked to stop: a last checkpoint, code 75, and the rest later is as if nobody had asked.
stops() { # NAME SAVE CODE
    local name=$1 save=$2 code=$3
    if [ "$code" != 75 ]; then echo "not ok $name exit code $code, not 75"; return; fi
    if ! job "$save" --resume "$save" >resumed 2>&1; then echo "not ok $name cannot be resumed: $(grep E_ resumed)"; return; fi
    if same_bytes "$save"; then echo "ok $name"; else echo "not ok $name it ends with other bytes"; fi
}

asked_to_stop() { # SIGNAL NAME
    local save=asked-$1 launcher
    job "$save" >/dev/null 2>&1 &
    wait_for_first "$save" || { echo "not ok $2 no checkpoint within a minute"; end_all; wait; return; }
    launcher=$(for p in $(pids); do if grep -qzx launch "/proc/$p/cmdline" 2>/dev/null; then echo "$p"; fi; done | head -1)
    kill "-$1" "$launcher"
    wait $!
    stops "$2" "$save" $?
}

time_is_up() {
    job limited --time-limit 0.1 >/dev/null 2>&1
    stops time_limit_stops limited $?
}

asked_to_stop USR1 usr1_stops
asked_to_stop TERM term_stops
time_is_up
for ((i = 1; i <= kills; i++)); do kill_one_run $i; done
