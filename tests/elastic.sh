#!/bin/bash
# Ranks that go on when others are killed (launch --comm-transport own --elastic): real processes, and what is said of them.
#
# Run from the project's root. BUILD: where the program is (default: build). ONLY: a pattern; of the runs of `train`, those with such a name.
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_ELASTIC_TEST=$$.$RANDOM
wait_step=0.02
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
if [ ! -r /proc/self/environ ]; then
    echo "skip elastic: without /proc the ranks cannot be found"
    exit 0
fi

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    { cat err; tail -n 15 out; } | sed 's/^/#   /'
    end_all
}
# start RANKS LAUNCH_OPTIONS...: the example, in the background, until the file `end` is there
start() {
    rm -f end
    env --default-signal "$marker" TRIVIUM_EXE="$build/example_epoch" "$build/trivium" launch -n "$1" --comm-transport own "${@:2}" "$PWD/end" >out 2>err </dev/null &
    job=$!
}
says() { grep -qE -- "$1" "${2:-out}"; }
# ended NAME CODE [by_itself]: the job ends within ten seconds, with this code, and leaves nothing
ended() {
    local code
    [ "${3-}" = by_itself ] || touch end
    timeout 10 tail --pid=$job -f /dev/null || { not_ok "$1" "does not end"; return 1; }
    wait "$job" 2>/dev/null
    code=$?
    if [ $code != "$2" ]; then not_ok "$1" "code $code, not $2"; return 1; fi
    if ! wait_for 5 is_alone; then not_ok "$1" "leaves processes"; return 1; fi
}
hurt() { kill -"$2" "$(pids "$1" | head -1)"; } # SLOT SIGNAL

# ---- three of four die, one after the other; a spare takes the first one's place ----
survives() {
    local name=elastic_those_who_are_left_go_on
    start 4 --elastic 2 --spares 1
    wait_for 20 says '^epoch 0: 4 ranks' || { not_ok $name "does not start"; return; }
    hurt 2 KILL
    wait_for 20 says '^epoch 1: 4 ranks' || { not_ok $name "the spare does not come"; return; }
    hurt 1 KILL
    wait_for 20 says '^epoch 2: 3 ranks' || { not_ok $name "does not go on with three"; return; }
    hurt 4 SEGV
    wait_for 20 says '^epoch 3: 2 ranks' || { not_ok $name "does not go on with two"; return; }
    ended $name 0 || return
    says 'signal 9 \(Killed\) has killed rank 2; epoch 1 goes on with 4 ranks' err &&
        says 'signal 11 .* has killed rank 1; epoch 3 goes on with 2 ranks' err || { not_ok $name "does not say who"; return; }
    [ "$(grep -c '^E_' err)" = 0 ] || { not_ok $name "an error line"; return; }
    echo "ok $name"
}
[ -n "${ONLY-}" ] || survives

# ---- rank 0 is nobody special ----
rank_0() {
    local name=elastic_rank_0_is_nobody_special
    start 3 --elastic 1
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok $name "does not start"; return; }
    hurt 0 KILL
    wait_for 20 says '^epoch [01]: 2 ranks' || { not_ok $name "does not go on"; return; }
    hurt 1 KILL
    wait_for 20 says '^epoch [12]: 1 ranks' || { not_ok $name "one does not go on alone"; return; }
    ended $name 0 && echo "ok $name"
}
[ -n "${ONLY-}" ] || rank_0

# ---- one that is stopped is found, and killed; it is not if it goes on in time ----
stopped() {
    local name=elastic_who_is_stopped_is_found
    start 3 --elastic 2 --hang-timeout 1
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok $name "does not start"; return; }
    hurt 1 STOP
    sleep 0.3
    hurt 1 CONT
    sleep 1.2
    says 'has not moved' err && { not_ok $name "it had gone on"; return; }
    hurt 1 STOP
    wait_for 20 says '^epoch 1: 2 ranks' || { not_ok $name "does not go on"; return; }
    says '^trivium: process 1 has not moved for 1 s, and is killed' err || { not_ok $name "does not say who"; return; }
    ended $name 0 && echo "ok $name"
}
[[ stopped =~ ${ONLY-} ]] && stopped

# ---- too few are left; a job that is not elastic; a spare that is not needed ----
too_few() { # NAME LAUNCH_OPTIONS...
    local name=$1
    start 3 "${@:2}"
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok "$name" "does not start"; return; }
    hurt 1 KILL
    ended "$name" 1 || return
    says '^E_COMM .*rank 1 of 3 on host .* was killed by signal 9' err || { not_ok "$name" "does not say who"; return; }
    echo "ok $name"
}
[ -n "${ONLY-}" ] || too_few elastic_fewer_than_asked_for_is_the_end --elastic 3
[ -n "${ONLY-}" ] || too_few elastic_by_default_a_death_is_the_end

idle() {
    local name=elastic_a_spare_may_die
    start 2 --elastic 1 --spares 1
    wait_for 20 says '^epoch 0: 2 ranks' || { not_ok $name "does not start"; return; }
    hurt 2 KILL
    wait_for 20 says 'has killed spare 2; nothing is lost' err || { not_ok $name "nobody notices"; return; }
    ended $name 0 || return
    says '^epoch 1' && { not_ok $name "an epoch for a spare"; return; }
    echo "ok $name"
}
[ -n "${ONLY-}" ] || idle

# ---- training: the losses of the run that nobody killed ----
train=(train --data "$demo" --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --dropout 0.1 --val-fraction 0 --threads 1
    --precision fp64 --steps 60 --save-every 10 --log info)
has_row() { grep -q "^{\"step\":$1," rows 2>/dev/null; }
# trains NAME MOST RANKS LAUNCH_OPTIONS... -- TRAIN_OPTIONS... -- SLOT...: these slots are killed, each ten steps after the one before (those in
# one word at once); every step's loss is that of `whole` but for MOST, relative. $from: where they go on
from=
trains() {
    local name=elastic_$1 most=$2 launch=(-n "$3") options=() step=5 code
    [[ $1 =~ ${ONLY-} ]] || return
    shift 3
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    rm -rf saved rows
    env --default-signal "$marker" "$build/trivium" launch "${launch[@]}" --comm-transport own "${train[@]}" "${options[@]}" --save saved \
        --metrics rows >out 2>err </dev/null &
    job=$!
    for slot in "$@"; do
        step=$((step + 10))
        wait_for 60 has_row $step || { not_ok $name "does not come to step $step"; return; }
        for s in $slot; do hurt "$s" KILL; done
    done
    ended $name 0 by_itself || return
    [ "$(grep -c 'goes on with' err)" = "$(echo "$@" | wc -w)" ] || { not_ok $name "not as many epochs as deaths"; return; }
    if [ -n "$from" ] && ! grep '^epoch .* from' err | tail -n 1 | grep -q "from $from"; then
        not_ok $name "not from $from"
        return
    fi
    python3 - whole.rows rows "$most" >>err <<'END' && echo "ok $name" || not_ok $name "other losses"
import json, sys
whole, rows = ([json.loads(line) for line in open(path) if '"loss"' in line] for path in sys.argv[1:3])
worst = max(abs(row["loss"] / whole[row["step"] - 1]["loss"] - 1) for row in rows)       # of those, too, that were done again
print(len(rows), worst)
sys.exit(0 if {row["step"] for row in rows} == set(range(1, 61)) and len(whole) == 60 and worst <= float(sys.argv[3]) else 1)
END
}
"$build/trivium" launch -n 4 "${train[@]}" --dp 4 --save whole --metrics whole.rows >out 2>err </dev/null
trains a_spare_takes_over_to_the_bit 0 4 --elastic 2 --spares 2 -- --dp 4 -- 2 0
trains fewer_replicas_train_on 1e-10 4 --elastic 2 -- --dp 4 --zero 1 -- 1 3
trains replicas_of_tp_are_left_out_whole 1e-10 4 --elastic 2 -- --dp 2 --tp 2 -- 0
trains replicas_of_stages_are_left_out_whole 1e-10 4 --elastic 2 -- --dp 2 --pp 2 --zero 3 -- 3

# ---- the same from memory: no step is lost but the one that was under way ----
from=memory
trains a_spare_takes_over_from_memory 0 4 --elastic 4 --spares 2 -- --dp 4 --replicate-every 1 -- 2 0
trains a_spare_takes_over_a_shard 1e-10 4 --elastic 4 --spares 2 -- --dp 4 --zero 3 --replicate-every 4 -- 0 3
trains fewer_replicas_have_all_shards 1e-10 4 --elastic 2 -- --dp 4 --zero 2 --replicate-every 1 -- 1 3
trains copies_are_in_another_replica 1e-10 4 --elastic 2 -- --dp 2 --tp 2 --zero 1 --replicate-every 1 -- 1
trains stages_have_copies_too 1e-10 4 --elastic 2 -- --dp 2 --pp 2 --zero 3 --replicate-every 1 -- 3
trains two_at_once_that_are_no_neighbors 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --replicate-every 1 -- "0 2"
trains over_connections_it_is_the_same 1e-10 4 --nodes 2 --elastic 2 --spares 1 -- --dp 4 --zero 3 --replicate-every 1 -- 2 0
trains a_spare_sends_as_the_others_do 1e-10 4 --elastic 4 --spares 1 -- --dp 4 --replicate-every 1 --comm-algorithm halving -- 1
from="the last checkpoint"
trains neighbors_that_die_at_once_are_on_disk 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --replicate-every 1 -- "1 2"

# ---- Ctrl-C, and the launcher's death ----
stop() { # NAME SIGNAL CODE
    start 3 --elastic 1 --spares 1
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok "$1" "does not start"; return; }
    kill -"$2" $job
    ended "$1" "$3" by_itself && echo "ok $1"
}
[ -n "${ONLY-}" ] && exit
stop elastic_an_interrupt_ends_all INT 130
{ stop elastic_the_death_of_launch_ends_all KILL 137; } 2>/dev/null
