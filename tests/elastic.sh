#!/bin/bash
# Elastic jobs of real processes (launch --comm-transport direct --elastic): the other ranks go on when some are killed,
# and launch reports which ranks these were.
#
# Run from the project's root. BUILD: where the program is (default: build). ONLY: a pattern; of the runs of `train`,
# those with such a name. ALL=1:
# also the others (tests/again), of which tests/more/elastic.sh has those that another layout is all there is
# to.
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
demo=$PWD/configs/demo.txt clusters=$PWD/configs/clusters
# in memory: a disk may stand still for longer than is waited here
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
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

all() { [ -n "${ALL-}${ONLY-}" ]; }
not_ok() { # NAME WHY
    echo "not ok $1: $2"
    { cat err; tail -n 15 out; } | sed 's/^/#   /'
    end_all
}
# start RANKS LAUNCH_OPTIONS...: the example, in the background, until the file `end` is there
start() {
    rm -f end
    env --default-signal "$marker" TRIVIUM_EXE="${exe:-$build/example_membership}" "$build/trivium" launch -n "$1" \
        --comm-transport direct "${@:2}" "$PWD/end" >out 2>err </dev/null &
    job=$!
}
says() { grep -qE -- "$1" "${2:-out}"; }
# ended NAME CODE [by_itself]: the job ends within $patience seconds (10), with this code, and leaves nothing
ended() {
    local code
    [ "${3-}" = by_itself ] || touch end
    timeout "${patience:-10}" tail --pid=$job -f /dev/null || { not_ok "$1" "does not end"; return 1; }
    wait "$job" 2>/dev/null
    code=$?
    if [ $code != "$2" ]; then not_ok "$1" "code $code, not $2"; return 1; fi
    if ! wait_for 5 is_alone; then not_ok "$1" "leaves processes"; return 1; fi
}
# found COMMAND...: the first process that it names; on a busy machine one may be about to start
found() {
    local pid tries=20
    until pid=$("$@" | head -1) && [ -n "$pid" ] || [ $((tries -= 1)) = 0 ]; do sleep 0.2; done
    echo "$pid"
}
process() { found pids "$1"; } # SLOT
hurt() { kill -"$2" "$(process "$1")"; } # SLOT SIGNAL
# HOST SIGNAL: its name is a word of its agent's, and of no other process's
hurt_agent() { kill -"$2" "$(found pids_of "$1")"; }

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
        says 'signal 11 .* has killed rank 1; epoch 3 goes on with 2 ranks' err ||
            { not_ok $name "does not name the rank"; return; }
    [ "$(grep -c '^E_' err)" = 0 ] || { not_ok $name "an error line"; return; }
    echo "ok $name"
}
[ -n "${ONLY-}" ] || survives

# ---- rank 0 is no special rank ----
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
    says '^trivium: process 1 has not moved for 1 s \(it is stopped\), and is killed' err ||
        { not_ok $name "does not name the rank"; return; }
    ended $name 0 && echo "ok $name"
}
[[ stopped =~ ${ONLY-} ]] && stopped

# A spare that has not begun to run stops no other rank, until it takes a dead one's place.
stuck() { # NAME LAUNCH_OPTIONS...
    local name=$1 exe=$PWD/stuck
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\ncase "$TRIVIUM_OWN_JOB" in slot=4\\ *) exec sleep 60;; esac\nexec "%s" "$@"\n' \
        "$build/example_membership" >stuck
    chmod +x stuck
    start 4 --elastic 2 --spares 1 --hang-timeout 1 "${@:2}"
    wait_for 20 says '^epoch 0: 4 ranks' || { not_ok "$name" "does not start"; return; }
    sleep 1.5
    says 'has not moved' err && { not_ok "$name" "no rank needed it"; return; }
    hurt 2 KILL
    wait_for 20 says '^epoch [12]: 3 ranks' || { not_ok "$name" "all wait for it"; return; }
    says '^trivium: process 4 has not moved for 1 s' err || { not_ok "$name" "does not name the rank"; return; }
    ended "$name" 0 && echo "ok $name"
}
[[ stuck =~ ${ONLY-} ]] && stuck elastic_a_spare_that_is_stuck_is_found
all && [[ stuck =~ ${ONLY-} ]] &&
    stuck elastic_a_spare_that_is_stuck_on_another_host --host 127.0.0.2:2,127.0.0.3:2,127.0.0.4:1

# ---- too few are left; a job that is not elastic; a spare that is not needed ----
too_few() { # NAME LAUNCH_OPTIONS...
    local name=$1
    start 3 "${@:2}"
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok "$name" "does not start"; return; }
    hurt 1 KILL
    ended "$name" 1 || return
    says '^E_COMM .*rank 1 of 3 on host .* was killed by signal 9' err ||
        { not_ok "$name" "does not name the rank"; return; }
    [ $# = 1 ] || says '^trivium: 2 ranks are left, of which 2 can go on .* --elastic 3 needs more' err ||
        { not_ok "$name" "does not say why"; return; }
    echo "ok $name"
}
[[ elastic_fewer_than_asked_for_is_the_end =~ ${ONLY-} ]] && too_few elastic_fewer_than_asked_for_is_the_end --elastic 3
[ -n "${ONLY-}" ] || too_few elastic_by_default_a_death_is_the_end

# It is not known yet which ranks make up a replica; a restart may help.
early() {
    local name=elastic_a_death_before_replicas_are_known
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\ncase "$TRIVIUM_OWN_JOB" in slot=3\\ *) kill -9 $$;; esac\nexec "%s" "$@"\n' \
        "$build/trivium" >early
    chmod +x early
    env --default-signal "$marker" TRIVIUM_EXE="$PWD/early" "$build/trivium" launch -n 4 --comm-transport direct \
        --elastic 2 train --data "$demo" --dp 2 \
        --tp 2 --steps 2 --metrics '' >out 2>err </dev/null &
    job=$!
    ended $name 1 by_itself || return
    says '^E_COMM .*rank 3 of 4 on host .* was killed by signal 9' err && ! says 'goes on' err ||
        { not_ok $name "does not name the rank"; return; }
    echo "ok $name"
}
[[ early =~ ${ONLY-} ]] && early

idle() {
    local name=elastic_a_spare_may_die
    start 2 --elastic 1 --spares 1
    wait_for 20 says '^epoch 0: 2 ranks' || { not_ok $name "does not start"; return; }
    hurt 2 KILL
    wait_for 20 says 'has killed spare 2; nothing is lost' err || { not_ok $name "no rank notices"; return; }
    ended $name 0 || return
    says '^epoch 1' && { not_ok $name "an epoch for a spare"; return; }
    echo "ok $name"
}
[ -n "${ONLY-}" ] || idle

# ---- training: the losses of the run without a kill ----
train=(train --data "$demo" --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --dropout 0.1 \
    --val-fraction 0 --threads 1
    --precision fp64 --steps 60 --save-every 10 --log info)
has_row() { has_row_in rows "$1"; }
# trains NAME MOST RANKS LAUNCH_OPTIONS... -- TRAIN_OPTIONS... -- SLOT...: these slots are killed, each ten steps after
# the one before (those in one word at once); agent:HOST, an agent; again:HOST, the one that has come in its place;
# stop:HOST, an agent is stopped; drain:HOST, its ranks leave on request. Every step's loss is that of `whole` but for
# MOST, relative. $from: where they go on; $says: what launch says, too; $hurts: the signal, and what launch says of
# each rank that gets it; $n_rows: how many there are, if no step may be done again. Rank 0 is slowed, so that steps
# take longer than finding the rank to hurt: else the job may be done before. Where they must go on from memory,
# checkpoints are older, and none is due for long after the first two times: a newer one would be taken
patience=60 save='--save saved' from='' says='' hurts='KILL has killed|is lost' n_rows=
trains() {
    local name=elastic_$1 most=$2 launch=(-n "$3") options=() step=5 code
    [[ $1 =~ ${ONLY-} ]] || return
    shift 3
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    [[ "${options[*]}" = *--inject* ]] || options+=(--inject slow=0,4)
    [ "$from" != memory ] || options=(--save-every 12 "${options[@]}")
    rm -rf saved rows
    env --default-signal "$marker" "$build/trivium" launch "${launch[@]}" --comm-transport direct "${train[@]}" \
        "${options[@]}" $save \
        --metrics rows >out 2>err </dev/null &
    job=$!
    for slot in "$@"; do
        step=$((step + 10))
        wait_for 60 has_row $step || { not_ok $name "does not come to step $step"; return; }
        at_once=()
        for s in $slot; do
            case $s in
                agent:*) hurt_agent "${s#*:}" KILL ;;
                again:*)
                    wait_for 20 says 'epoch 2 goes on with 4 ranks' err
                    hurt_agent "${s#*:}" KILL
                    ;;
                stop:*) hurt_agent "${s#*:}" STOP ;;
                drain:*) hurt_agent "${s#*:}" USR2 ;;
                *) at_once+=("$(process "$s")") ;;
            esac
        done
        [ ${#at_once[@]} = 0 ] || kill -"${hurts%% *}" "${at_once[@]}"
    done
    wait_for 60 has_row 60 || { not_ok $name "does not come to the end"; return; }
    ended $name 0 by_itself || return
    [ "$(grep -oE "${hurts#* }" err | wc -l)" = "$(echo "$@" | wc -w)" ] ||
        { not_ok $name "not all deaths are said"; return; }
    [ "$(grep -c 'goes on with' err)" -ge $# ] || { not_ok $name "not as many epochs as times"; return; }
    grep -q '^E_' err && { not_ok $name "an error line"; return; }
    [ -z "$says" ] || says "$says" err || { not_ok $name "does not say $says"; return; }
    if [ -n "$from" ] && ! grep '^epoch .* from' err | tail -n 1 | grep -q "from $from"; then
        not_ok $name "not from $from"
        return
    fi
    python3 - whole.rows rows "$most" "$n_rows" >>err <<'END' && echo "ok $name" || not_ok $name "other losses"
import json, sys
whole, rows = ([json.loads(line) for line in open(path) if '"loss"' in line] for path in sys.argv[1:3])
# of those, too, that were done again
worst = max(abs(row["loss"] / whole[row["step"] - 1]["loss"] - 1) for row in rows)
print(len(rows), worst)
as_many = len(rows) == int(sys.argv[4] or len(rows))
sys.exit(0 if {row["step"] for row in rows} == set(range(1, 61)) and len(whole) == 60 and worst <= float(sys.argv[3])
         and as_many else 1)
END
}
"$build/trivium" launch -n 4 "${train[@]}" --dp 4 --save whole --metrics whole.rows >out 2>err </dev/null
trains a_spare_takes_over_to_the_bit 0 4 --elastic 2 --spares 2 -- --dp 4 -- 2 0
all && trains fewer_replicas_train_on 1e-10 4 --elastic 2 -- --dp 4 --zero 1 -- 1 3
all && trains replicas_of_tp_are_left_out_whole 1e-10 4 --elastic 2 -- --dp 2 --tp 2 -- 0
all && trains replicas_of_stages_are_left_out_whole 1e-10 4 --elastic 2 -- --dp 2 --pp 2 --zero 3 -- 3
# Without a checkpoint they begin again; what was in the metrics stays, also of a rank 0 that has died.
save='' from='the beginning'
if trains no_checkpoint_is_the_beginning 1e-10 4 --elastic 4 --spares 1 -- --dp 4 --save-every 0 -- 0 &&
    [ "$(grep -c '^{"step":1,' rows)" != 2 ]; then
    echo "not ok elastic_rows_of_before_stay: $(grep -c '^{"step":1,' rows) rows of step 1, and not 2"
fi
save='--save saved'

# ---- the same from memory: no step is lost but the one in flight ----
from=memory
trains a_spare_takes_over_from_memory 0 4 --elastic 4 --spares 2 -- --dp 4 --replicate-every 1 -- 2 0
trains a_spare_takes_over_a_shard 1e-10 4 --elastic 4 --spares 2 -- --dp 4 --zero 3 --replicate-every 4 -- 0 3
trains fewer_replicas_have_all_shards 1e-10 4 --elastic 2 -- --dp 4 --zero 2 --replicate-every 1 -- 1 3
all && trains half_of_the_replicas_have_all_shards 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --micro-batch 3 \
    --replicate-every 1 -- 3
all && trains copies_are_in_another_replica 1e-10 4 --elastic 2 -- --dp 2 --tp 2 --zero 1 --replicate-every 1 -- 1
all && trains stages_have_copies_too 1e-10 4 --elastic 2 -- --dp 2 --pp 2 --zero 3 --replicate-every 1 -- 3
all && trains two_at_once_that_are_no_neighbors 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --replicate-every 1 -- "0 2"
all && trains over_connections_it_is_the_same 1e-10 4 --nodes 2 --elastic 2 --spares 1 -- --dp 4 --zero 3 \
    --replicate-every 1 -- 2 0
all && trains a_spare_sends_as_the_others_do 1e-10 4 --elastic 4 --spares 1 -- --dp 4 --replicate-every 1 \
    --comm-algorithm halving -- 1
all && trains a_number_that_cannot_be_is_not_taken 1e-10 4 --elastic 2 -- --dp 4 --zero 2 --replicate-every 1 \
    --comm-algorithm halving -- 1
# ---- more again, once there are spares ----
says='there are spares for more; epoch [23] goes on with 4 ranks'
trains who_is_started_anew_joins 1e-10 4 --elastic 2 --respawn 1 -- --dp 4 --zero 2 --replicate-every 1 -- 1
all && trains a_replica_of_two_joins 1e-10 4 --elastic 2 --respawn 1 -- --dp 2 --tp 2 --zero 1 --replicate-every 4 -- 0
all && trains over_connections_they_join 1e-10 4 --nodes 2 --elastic 2 --respawn 1 -- --dp 4 --zero 3 \
    --replicate-every 1 -- 3
# ---- ranks that leave on request: no step is done again ----
hurts='USR2 leaves; epoch' n_rows=60 says='^trivium: process 2 has left'
trains a_spare_relieves_who_leaves 0 4 --elastic 4 --spares 1 -- --dp 4 --replicate-every 3 -- 2
all && trains who_leaves_is_left_out 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --replicate-every 7 -- 2 0
all && trains a_stage_leaves_with_its_replica 1e-10 4 --nodes 2 --elastic 2 -- --dp 2 --pp 2 --zero 1 \
    --replicate-every 1 -- 2
hurts='KILL has killed|is lost' n_rows='' says=
from="the last checkpoint"
all && trains neighbors_that_die_at_once_are_on_disk 1e-10 4 --elastic 2 -- --dp 4 --zero 3 --replicate-every 1 \
    --inject slow=0,12 -- "1 2"

# ---- what is trained is settled when the job begins: its config file is edited, its data are replaced or removed
# meanwhile, and a rank dies ----
# edited NAME COMMAND... : the command is run, and then rank 2 is killed; the losses are those of the run in which
# nothing was done
layout=(--dp 4 --zero 1)
edited() {
    local name=elastic_$1 step
    [[ $1 =~ ${ONLY-} ]] || return
    printf 'lr = 1e-3\nmin-lr = 1e-4\nwarmup = 0\n' >my.ini
    cp "$demo" my.txt
    if [ ! -e calm.rows ]; then
        "$build/trivium" launch -n 4 --comm-transport direct "${train[@]}" --config my.ini --data my.txt \
            "${layout[@]}" --save-every 0 --metrics calm.rows \
            >out 2>err </dev/null || { not_ok "$name" "the run to compare with"; return; }
    fi
    rm -f rows
    env --default-signal "$marker" "$build/trivium" launch -n 4 --comm-transport direct --elastic 2 --spares 1 \
        "${train[@]}" --config my.ini --data my.txt \
        "${layout[@]}" --replicate-every 1 --inject slow=0,4 --save-every 0 --metrics rows >out 2>err </dev/null &
    job=$!
    wait_for 60 has_row 15 || { not_ok "$name" "does not come to step 15"; return; }
    "${@:2}"
    kill -KILL "$(process 2)"
    ended "$name" 0 by_itself || return
    says "^epoch 1: 4 ranks, dp ${layout[1]}, from memory" err || { not_ok "$name" "no epoch"; return; }
    for step in 16 40 60; do
        [ "$(grep "^{\"step\":$step," rows | tail -n 1 | cut -d, -f2,4)" = "$(grep "^{\"step\":$step," calm.rows |
            cut -d, -f2,4)" ] ||
            { not_ok "$name" "another loss or lr in step $step"; return; }
    done
    echo "ok $name"
}
edited its_config_file_is_edited sed -i s/1e-3/1e-1/ my.ini
all && edited its_data_are_removed rm my.txt
other_data() { tr a-y b-z <my.txt >new.txt && mv new.txt my.txt; }
edited its_data_are_replaced other_data
# Small files that options name: one that is missing now would be said by the spare.
rm calm.rows 2>/dev/null
layout=(--dp 2 --pp 2 --micro-batch 2 --recompute auto --cluster ./my-cluster.ini --schedule file:my.csv)
"$build/trivium" schedule --schedule 1f1b --pp 2 --microbatches 3 --csv >my.csv
cp "$clusters/cpu-2core.ini" my-cluster.ini
all && edited its_small_files_are_removed rm my.csv my-cluster.ini

# ---- a process that is started later reads what the others have mapped: it withdraws, and they go on without it ----
# NAME WHY LAUNCH_OPTIONS... -- COMMAND...: the command is run, and then rank 2 is killed; there are three replicas
# until the end
withdraws() {
    local name=elastic_$1 why=$2 launch=()
    [[ $1 =~ ${ONLY-} ]] || return
    shift 2
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    rm -f rows
    cp "$demo" my.txt
    env --default-signal "$marker" "${exe:-$build/trivium}" launch -n 4 --comm-transport direct "${launch[@]}" \
        "${train[@]}" --data my.txt --dp 4 --zero 1 \
        --replicate-every 1 --inject slow=0,8 --save-every 0 --metrics rows >out 2>err </dev/null &
    job=$!
    wait_for 60 has_row 15 || { not_ok "$name" "does not come to step 15"; return; }
    "${@:2}"
    kill -KILL "$(process 2)"
    ended "$name" 0 by_itself || return
    says "^trivium: process 4 cannot take part: .*$why" err || { not_ok "$name" "does not say why"; return; }
    says '^trivium: process 4 (on .* )?has withdrawn; (nothing is lost|epoch [23] goes on with 3 ranks)' err ||
        { not_ok "$name" "does not go on"; return; }
    { says 'process 5' err || says '\] E_|^E_' err; } &&
        { not_ok "$name" "another one is started, or an error line"; return; }
    has_row 60 || { not_ok "$name" "does not come to the end"; return; }
    echo "ok $name"
}
withdraws who_comes_later_and_finds_other_data 'its data are others' --elastic 2 --respawn 1 -- other_data
all && withdraws who_comes_later_and_finds_no_data 'my.txt: No such file' --elastic 2 --respawn 2 -- rm my.txt
# A build puts another program into the place of this one, and a config file is edited: a rank that comes later runs the
# same as the others, with the same options.
replaced() { # NAME VICTIM LAUNCH_OPTIONS...
    local name=elastic_$1
    [[ $1 =~ ${ONLY-} ]] || return
    rm -f rows
    cp "$build/trivium" mine
    printf 'lr = 1e-3\nmin-lr = 1e-4\nwarmup = 0\n' >my.ini
    env --default-signal "$marker" "$PWD/mine" launch -n 4 --comm-transport direct --elastic 2 "${@:3}" \
        "${train[@]}" --config my.ini --dp 4 --zero 1 --replicate-every 1 \
        --inject slow=0,12 --save-every 0 --metrics rows >out 2>err </dev/null &
    job=$!
    wait_for 60 has_row 10 || { not_ok "$name" "does not come to step 10"; return; }
    cp "$(type -P false)" new && mv new mine
    sed -i s/1e-3/1e-1/ my.ini
    if [ "${2#agent:}" = "$2" ]; then kill -KILL "$(process "$2")"; else hurt_agent "${2#agent:}" KILL; fi
    ended "$name" 0 by_itself || return
    says 'there are spares for more; epoch [23] goes on with 4 ranks' err || { not_ok "$name" "nobody joins"; return; }
    says 'has withdrawn' err && { not_ok "$name" "a rank that joined later counts as withdrawn"; return; }
    has_row 60 && echo "ok $name"
}
replaced its_program_is_replaced 2 --respawn 1
all && replaced its_program_is_replaced_on_a_host agent:127.0.0.3 --host 127.0.0.2:2,127.0.0.3:2 --respawn 2
all && withdraws who_comes_later_on_a_host_and_finds_no_data 'my.txt: No such file' --host 127.0.0.2:2,127.0.0.3:2 \
    --elastic 2 --respawn 2 -- rm my.txt

# ---- a folder for checkpoints that fails meanwhile: what is in memory goes on, and when the folder is well again it is
# saved ----
folder() {
    local name=elastic_a_folder_that_fails_costs_no_step
    [[ $name =~ ${ONLY-} ]] || return
    rm -rf saved rows gone
    env --default-signal "$marker" "$build/trivium" launch -n 4 --comm-transport direct --elastic 4 --spares 1 \
        "${train[@]}" --dp 4 --zero 1 --replicate-every 1 \
        --inject slow=0,8 --save saved --metrics rows >out 2>err </dev/null &
    job=$!
    wait_for 60 test -e saved/latest || { not_ok $name "does not save"; return; }
    mv saved gone && echo "no folder" >saved # as a disk that is full, or that the kernel has made read-only
    kill -KILL "$(process 0)"
    wait_for 60 says '^epoch 1: 4 ranks, dp 4, from memory' err || { not_ok $name "does not go on"; return; }
    wait_for 60 says 'step [0-9]+ is not saved' err || { not_ok $name "does not say that it does not save"; return; }
    rm saved
    ended $name 0 by_itself || return
    [ "$(grep -cE 'warning: .*saved.*; training continues' err)" -ge 2 ] || { not_ok $name "does not warn"; return; }
    [ -e saved/.lock ] || { not_ok $name "it saves without the lock"; return; }
    [ -d saved/step-00000060 ] && has_row 60 && [ "$(grep -c '"loss"' rows)" -le 61 ] ||
        { not_ok $name "the end is missing, or more than a step was done again"; return; }
    ! says '^E_|\] E_' err || { not_ok $name "an error line"; return; }
    "$build/trivium" launch -n 1 --comm-transport direct "${train[@]}" --resume saved --save saved \
        --metrics '' >out 2>err </dev/null ||
        { not_ok $name "what it saved is not whole"; return; }
    echo "ok $name"
}
folder

# ---- several hosts: an agent on each, here all on this one. A host that is lost is one epoch, and its shards are on
# another one ----
two=127.0.0.2:2,127.0.0.3:2
from=memory hurts='USR2 leaves; epoch' n_rows=60 says='^trivium: process 2 has left'
says='^trivium: process 2 has left, the last one of host 127.0.0.3'
all && trains a_drained_host_is_relieved 1e-10 4 --host 127.0.0.2:2,127.0.0.3:1,127.0.0.4:2 --elastic 4 --spares 1 -- \
    --dp 4 --zero 3 --replicate-every 3 -- \
    drain:127.0.0.3
says='^trivium: process 2 has left'
all && trains who_leaves_another_host_is_relieved 1e-10 4 --host $two,127.0.0.4:1 --elastic 4 --spares 1 -- --dp 4 \
    --zero 1 --replicate-every 3 -- 2
hurts='KILL has killed|is lost' n_rows='' says=
from=
trains two_hosts_are_as_one 1e-10 4 --host $two -- --dp 2 --tp 2 --zero 1 --
# Its ranks train on until it is missed, so here that may be.
all && trains a_host_without_a_sign_is_lost 1e-10 4 --host 127.0.0.2:2,127.0.0.3:1,127.0.0.4:1 --elastic 2 \
    --heartbeat-timeout 1 -- --dp 4 --zero 1 \
    --replicate-every 1 -- stop:127.0.0.4
# So does a rank 0 without a sign of life, and it has the lock of the checkpoints' folder: the new one takes that over.
# Its agent is no child of launch, which would end it.
# shellcheck disable=SC2016 # the script's own
printf '#!/bin/sh\nexec 3<&0\nsetsid "$@" <&3 &\nexec sleep 300\n' >far
chmod +x far
all && trains a_silent_rank_0_is_replaced 1e-10 4 --host 127.0.0.2:1,127.0.0.3:1,127.0.0.4:2 --elastic 2 \
    --heartbeat-timeout 1 --agent-command "$PWD/far" \
    -- --dp 4 --zero 1 --replicate-every 1 -- stop:127.0.0.2
from=memory
trains spares_of_a_third_host_take_over 0 4 --host $two,127.0.0.4:2 --elastic 4 --spares 2 -- --dp 4 \
    --replicate-every 1 -- agent:127.0.0.3
all && trains spares_of_a_third_host_get_the_shards 1e-10 4 --host $two,127.0.0.4:2 --elastic 4 --spares 2 -- --dp 4 \
    --zero 3 --replicate-every 1 -- \
    agent:127.0.0.2
all && trains a_host_is_lost_with_its_shards 1e-10 4 --host $two --elastic 2 -- --dp 4 --zero 3 --replicate-every 1 \
    -- agent:127.0.0.3
all && trains a_rank_and_a_host_are_lost 1e-10 4 --host 127.0.0.2:2,127.0.0.3:1,127.0.0.4:1 --elastic 2 -- --dp 4 \
    --zero 2 --replicate-every 1 -- \
    1 agent:127.0.0.4
# No rank may die here, so chaos cuts connections between the hosts (with this seed), or slows ranks; each cut is an
# epoch of the same ranks.
from='' says='ranks [0-3] and [0-3] have lost each other; epoch [0-9]+ goes on with 4 ranks'
all && trains connections_that_are_cut_are_made_again 1e-10 4 --host $two --elastic 4 --hang-timeout 5 --chaos 1360 \
    --chaos-every 0.3 -- --dp 4 --zero 3 \
    --replicate-every 1 --
from=memory says='there are spares for more; epoch [23] goes on with 4 ranks'
trains a_host_comes_again 1e-10 4 --host $two --elastic 2 --respawn 2 -- --dp 4 --zero 3 --replicate-every 1 \
    -- agent:127.0.0.3
says='epoch 4 goes on with 4 ranks'
all && trains a_host_comes_again_twice 1e-10 4 --host $two --elastic 2 --respawn 4 -- --dp 4 --zero 3 \
    --replicate-every 1 --inject slow=0,20 -- \
    agent:127.0.0.3 again:127.0.0.3
says='there are spares for more; epoch [23] goes on with 4 ranks'
all && trains a_rank_of_a_host_is_started_again 1e-10 4 --host $two --elastic 2 --respawn 1 -- --dp 4 --zero 1 \
    --replicate-every 1 -- 3
says=
from="the last checkpoint"
all && trains two_hosts_at_once_are_on_disk 1e-10 4 --host 127.0.0.2:1,127.0.0.3:1,127.0.0.4:2 --elastic 1 -- --dp 4 \
    --zero 3 --replicate-every 1 -- \
    "agent:127.0.0.2 agent:127.0.0.4"

# ---- which program may be an agent, and what is said when there is none ----
secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
port=$((20000 + RANDOM % 10000))
# SECRET HOST ERR: ranks write where their agent does
agent() { timeout 20 env "$marker" TRIVIUM_SECRET="$1" "$build/trivium" agent --meet "127.0.0.1:$port" --host "$2" \
    2>"$3" >"$3.out" </dev/null; }

# Both agents come by themselves, as srun or Kubernetes starts them. Meanwhile, and afterwards, others try.
by_themselves() {
    local name=elastic_agents_come_by_themselves right
    right=$(secret)
    TRIVIUM_SECRET=$right start 4 --host n1:2,n2:2 --agent-command none --meet "127.0.0.1:$port" --elastic 2
    agent "$right" n1 one &
    agent "$(secret)" n2 wrong
    [ $? = 1 ] && says '^E_COMM .*does not know this secret' wrong ||
        { not_ok $name "comes in without the secret"; return; }
    agent "$right" n3 other
    [ $? = 1 ] && says '^E_COMM .*has sent host n3 away' other ||
        { not_ok $name "a host that was not asked for"; return; }
    says '^epoch 0' one.out && { not_ok $name "begins without n2"; return; }
    agent "$right" n2 two &
    local agent_2=$!
    wait_for 20 says '^epoch 0: 4 ranks' one.out || { not_ok $name "does not start"; return; }
    agent "$right" n1 again
    [ $? = 1 ] && says '^E_COMM .*has sent host n1 away' again || { not_ok $name "one host is there twice"; return; }
    agent "$(secret)" n1 wrong
    [ $? = 1 ] || { not_ok $name "comes in without the secret, later"; return; }
    says '^epoch 1' one.out && { not_ok $name "the job has noticed"; return; }
    ended $name 0 || return
    wait $agent_2 || { not_ok $name "an agent does not end well"; return; }
    says 'calls itself n3, which is none of --host' err && says 'calls itself n1, which is here already' err ||
        { not_ok $name "who was sent away?"; return; }
    echo "ok $name"
}
[[ by_themselves =~ ${ONLY-} ]] && by_themselves

# Ctrl-C while a host is awaited: agents that are there already end as launch does, and without a word. That one is
# there is known when another is sent away.
too_early() {
    local name=elastic_an_interrupt_before_all_are_there right agents=() codes=
    rm -f one two
    right=$(secret)
    TRIVIUM_SECRET=$right start 2 --host n1:1,n2:1 --agent-command none --meet "127.0.0.1:$port"
    for k in one two; do
        agent "$right" n1 $k &
        agents+=($!)
    done
    wait_for 20 eval 'cat one two 2>/dev/null | grep -q "has sent host n1 away"' ||
        { not_ok $name "none comes in"; return; }
    kill -INT $job                       # it ends the lighthouse with TERM
    ended $name 130 by_itself || return
    for k in "${agents[@]}"; do
        wait "$k"
        codes+=" $?"
    done
    [[ $codes =~ ^(" 1 143"|" 143 1")$ ]] && [ "$(cat one two | wc -l)" = 1 ] ||
        { cat one two >>err; not_ok $name "the agents end otherwise:$codes"; return; }
    echo "ok $name"
}
[[ too_early =~ ${ONLY-} ]] && too_early

no_agent() {
    local name=elastic_a_start_command_that_fails
    start 4 --host $two --agent-command "env false %h"
    ended $name 1 by_itself || return
    [ "$(grep -c '^E_' err)" = 1 ] &&
        says '^E_COMM .*host 127.0.0.[23]: what should start its agent \(env false %h\) ended with code 1' err ||
        { not_ok $name "not in one line"; return; }
    echo "ok $name"
}
[[ no_agent =~ ${ONLY-} ]] && no_agent

# Another program may start the agent; the secret goes over its standard input, and is on no command line.
wrapped() {
    local name=elastic_the_secret_is_on_no_command_line words
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\nhost=$1; shift\necho "$@" >"words.$host"\nexec "$@"\n' >rsh
    chmod +x rsh
    start 4 --host $two --agent-command "$PWD/rsh %h"
    wait_for 20 says '^epoch 0: 4 ranks' || { not_ok $name "does not start"; return; }
    words=$(cat words.127.0.0.2 words.127.0.0.3)
    grep -qE '[0-9a-f]{64}' <<<"$words" && { not_ok $name "it is"; return; }
    grep -qE 'agent --meet 127.0.0.1:[0-9]+ --host 127.0.0.3$' <<<"$words" || { not_ok $name "$words"; return; }
    ended $name 0 && echo "ok $name"
}
all && [[ wrapped =~ ${ONLY-} ]] && wrapped

# Two that cannot see each other, and may both live: the half with the lighthouse is not more than half.
halves() {
    local name=elastic_two_halves_do_not_both_go_on
    start 2 --host 127.0.0.2:1,127.0.0.3:1 --elastic 1 --heartbeat-timeout 1
    wait_for 20 says '^epoch 0: 2 ranks' || { not_ok $name "does not start"; return; }
    hurt_agent 127.0.0.3 STOP
    ended $name 1 by_itself || return
    says '^E_COMM .*host 127.0.0.3 is lost .*1 of 2 ranks may live there.*none does' err ||
        { not_ok $name "does not say why"; return; }
    echo "ok $name"
}
all && [[ halves =~ ${ONLY-} ]] && halves

# No rank misses an agent that was asked to end (a node is drained); without --elastic a host's loss ends the job.
drained() {
    local name=elastic_a_host_that_is_drained
    start 3 --host 127.0.0.2:2,127.0.0.3:1 --elastic 2
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok $name "does not start"; return; }
    hurt_agent 127.0.0.3 TERM
    wait_for 20 says '^epoch 1: 2 ranks' || { not_ok $name "does not go on"; return; }
    ended $name 0 && echo "ok $name"
}
all && [[ drained =~ ${ONLY-} ]] && drained

lost() {
    local name=elastic_by_default_a_lost_host_is_the_end
    start 3 --host 127.0.0.2:2,127.0.0.3:1
    wait_for 20 says '^epoch 0: 3 ranks' || { not_ok $name "does not start"; return; }
    hurt_agent 127.0.0.3 KILL
    ended $name 1 by_itself || return
    says '^E_COMM .*host 127.0.0.3 is lost' err || { not_ok $name "does not say which"; return; }
    echo "ok $name"
}
all && [[ lost =~ ${ONLY-} ]] && lost

no_rank() { [ -z "$(pids 0)$(pids 1)" ]; }
# Without the lighthouse the ranks of all hosts end, also of those whose agents are no children of it.
dark() {
    local name=elastic_without_the_lighthouse_all_ranks_end right
    right=$(secret)
    TRIVIUM_SECRET=$right start 2 --host n1:1,n2:1 --agent-command none --meet "127.0.0.1:$port" --elastic 1
    agent "$right" n1 one &
    agent "$right" n2 two &
    wait_for 20 says '^epoch 0: 2 ranks' one.out || { not_ok $name "does not start"; return; }
    kill -STOP $job                      # launch would end what it finds on its own host
    kill -KILL "$(pids_of --agent-command | while read -r p; do grep -qzx agent "/proc/$p/cmdline" && echo "$p"; done)"
    wait_for 5 no_rank || { not_ok $name "ranks are left"; return; }
    kill -CONT $job
    ended $name 1 by_itself || return
    says 'host n1 has lost the lighthouse .*its ranks end' one && says 'host n2 has lost the lighthouse' two ||
        { not_ok $name "does not say so"; return; }
    echo "ok $name"
}
all && [[ dark =~ ${ONLY-} ]] && dark

# ---- a rank that is slow gives its place to a spare: no step is done again, and no bit is another one; without a spare
# it stays ----
slow() { # NAME LAUNCH_OPTIONS...
    local name=elastic_$1
    all && [[ $1 =~ ${ONLY-} ]] || return 1
    rm -rf rows
    env --default-signal "$marker" "$build/trivium" launch -n 4 --comm-transport direct --elastic 4 "${@:2}" \
        "${train[@]}" --steps 200 --dp 4 \
        --replicate-every 5 --replace-stragglers --inject slow=1,3 --save-every 0 --metrics rows >out 2>err </dev/null &
    job=$!
    ended $name 0 by_itself
}
if slow who_is_slow_is_relieved --spares 1; then
    name=elastic_who_is_slow_is_relieved
    if ! says '^trivium: rank 1 leaves; epoch 1 goes on with 4 ranks' err || says '^trivium: rank .* epoch 2' err; then
        not_ok $name "no epoch, or more"
    elif [ "$(grep -c '"loss"' rows)" != 200 ]; then not_ok $name "steps are done again"
    elif sed -n '/epoch 1 goes on/,$p' err | grep -q 'slow rank 1 '; then not_ok $name "the one that came is slow, too"
    else echo "ok $name"; fi
fi
if slow slow_is_better_than_none; then
    if says 'leaves' err || ! says 'slow rank 1 ' err; then not_ok elastic_slow_is_better_than_none "it leaves"
    else echo "ok elastic_slow_is_better_than_none"; fi
fi

# ---- a spare waits as long as the job takes, and not --comm-timeout ----
waits() {
    local name=elastic_a_spare_waits_for_long
    all && [[ $name =~ ${ONLY-} ]] || return
    env --default-signal "$marker" "$build/trivium" launch -n 1 --comm-transport direct --elastic 1 --spares 1 \
        "${train[@]}" --save-every 0 --steps 1000000 \
        --comm-timeout 1 --log quiet --metrics rows --replicate-every 100 >out 2>err </dev/null &
    job=$!
    sleep 7                                    # 5 s more for the start
    hurt 0 KILL
    wait_for 20 says '^trivium: .* goes on with 1 ranks' err || { not_ok $name "it has ended"; return; }
    kill -INT $job
    ended $name 130 by_itself && echo "ok $name"
}
waits

# ---- chaos cuts connections, and dead ranks are started again: every loss is that of an undisturbed run ----
if all && [[ chaos =~ ${ONLY-} ]]; then
    (cd "$OLDPWD" && python3 tests/chaos_runs.py "$build" "$work" 28 1) |
        sed 's/chaos_28/elastic_chaos_cuts_and_starts_again/'
fi

# ---- the record of a rank that has another number now, and of one whose number another one has ----
record() {
    local name=elastic_a_record_is_of_the_rank_that_it_is_now
    [[ $name =~ ${ONLY-} ]] || return
    export TRIVIUM_FLIGHT=$work/flight
    mkdir -p flight
    start 4 --elastic 2 --spares 0
    wait_for 20 says '^epoch 0: 4 ranks' || { not_ok $name "does not start"; return; }
    hurt 0 KILL
    wait_for 20 says '^epoch 1: 3 ranks' || { not_ok $name "does not go on"; return; }
    hurt 3 STOP
    wait_for 20 eval \
        '"$build/trivium" postmortem >post 2>&1; says "^verdict: rank 2 has not called .*world .3 ranks." post' ||
        { cat post >>err; not_ok $name "other ranks are named"; return; }
    hurt 3 CONT
    unset TRIVIUM_FLIGHT
    ended $name 0 && echo "ok $name"
}
record

# ---- a death when all is done costs nothing; before that, what is left is done ----
last() { # NAME STEP HOSTS...: rank 1 is killed after this step, if it is still there
    local name=elastic_$1
    [[ $name =~ ${ONLY-} ]] || return
    rm -rf saved rows
    env --default-signal "$marker" "$build/trivium" launch "${@:3}" --comm-transport direct --elastic 2 --spares 1 \
        "${train[@]}" --dp 3 --replicate-every 1 \
        --save saved --metrics rows >out 2>err </dev/null &
    job=$!
    wait_for 60 has_row "$2" || { not_ok $name "does not come to step $2"; return; }
    kill -KILL "$(pids 1 | head -1)" 2>/dev/null      # if it is still there
    ended $name 0 by_itself || return
    [ ! -s err ] || says ' has killed rank 1( on .*)?; ' err || { not_ok $name "does not name the rank"; return; }
    [ -d saved/step-00000060 ] && has_row 60 || { not_ok $name "the end is missing"; return; }
    echo "ok $name"
}
for k in $(all && echo 58 59 60 60) 60; do
    last "a_death_at_the_end_$k" "$k" -n 3
    last "a_death_at_the_end_${k}_of_hosts" "$k" --host $two
done

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
