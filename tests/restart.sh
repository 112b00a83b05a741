#!/bin/bash
# launch --max-restarts: what dies is started again from its last checkpoint, and ends as if nothing had happened; what
# cannot be helped is not tried forever; and no process of an attempt outlives it.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_RESTART=$$.$RANDOM
wait_step=0.02
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
if [ ! -r /proc/self/environ ]; then
    echo "skip restart: without /proc the ranks cannot be found"
    exit 0
fi
steps=100

# start LAUNCH_OPTIONS... -- TRAIN_OPTIONS...: standard error to `err`
start() {
    local launch=()
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    exec env "$marker" "$trivium" launch "${launch[@]}" train --device cpu --threads 1 --data "$demo" --layers 2 \
        --hidden 64 --heads 4 --seq 32 \
        --global-batch 8 --steps $steps --dropout 0.1 --val-fraction 0 --log warn --save-every 1 --keep 2 "$@" >out \
        2>err </dev/null
}
not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' err
}
says() { grep -qF -- "$1" err; }
n_restarts() { grep -c '^restart ' err; }

# ends NAME JOB CODE: within a minute, with that code, and leaves nothing
ends() {
    local code
    wait_for 60 eval "! kill -0 $2 2>/dev/null" || end_all
    wait "$2"
    code=$?
    if [ $code != "$3" ]; then not_ok "$1" "exit code $code, not $3"; return 1; fi
    if ! is_alone; then not_ok "$1" "processes are left: $(pids | tr '\n' ' ')"; end_all; return 1; fi
}
same_bytes() { # the last steps of two folders
    local file last
    last=$(printf 'step-%08d' $steps)
    for file in whole/"$last"/*; do cmp -s "$file" "$1/$last/$(basename "$file")" || return 1; done
}
# Each step has a row, in spite of the restarts.
has_all_rows() {
    local step
    for ((step = 1; step <= steps; step++)); do grep -q "^{\"step\":$step,\"loss\"" "$1" || return 1; done
}

(start -n 2 -- --zero 1 --lr 1e-3 --save whole --metrics "") || { not_ok restart "a job without a kill fails"; exit 1; }

# ---- a rank killed, then mpirun (or the agent), then a rank stopped: the same bytes in the end ----
has_saved_since() { [ -e hurt/latest ] && [ "$(cat hurt/latest)" != "$1" ]; }
# hurt NUMBER SIGNAL TARGET...: after a new checkpoint; then restart NUMBER is announced
hurt() {
    local before victim
    before=$(cat hurt/latest 2>/dev/null)
    wait_for 30 has_saved_since "$before" || return 1
    victim=$("${@:3}" | head -1)
    [ -n "$victim" ] && kill -s "$2" "$victim"
    wait_for 30 says "restart $1 of 3" || return 1
    # while it waits launch is alone: its ranks would write into the same files
    [ "$(pids | wc -l)" = 1 ]
}
died_and_resumed() {
    local name=died_job_ends_with_the_same_bytes job
    start -n 2 --max-restarts 3 --backoff 0.3 -- --zero 1 --lr 1e-3 --save hurt --metrics rows --comm-timeout 3 &
    job=$!
    hurt 1 KILL pids 1 || { not_ok $name "rank 1 killed: no restart, or ranks left"; end_all; wait; return; }
    hurt 2 KILL pids_of $starter ||
        { not_ok $name "$starter killed: no restart, or ranks left"; end_all; wait; return; }
    hurt 3 STOP pids 0 || { not_ok $name "rank 0 stopped: no restart, or ranks left"; end_all; wait; return; }
    ends $name $job 0 || return
    if ! says "E_COMM, rank 1 of 2" || ! says "E_COMM, $starter_name was killed" || ! says "E_TIMEOUT, "; then
        not_ok $name "does not say why"; return
    fi
    if ! grep -q '^restart 3 of 3 in 1.2 s, 2 ranks, from step-' err; then
        not_ok $name "does not say from where"; return
    fi
    if ! has_all_rows rows; then not_ok $name "rows of steps are missing from the metrics"; return; fi
    if ! grep -q "^goodput of 4 attempts [0-9.]*%: [0-9.]* s in $steps steps that count" err; then
        not_ok $name "no goodput"; return
    fi
    if ! grep -q "^training stops .*--save-every" err; then not_ok $name "does not say how often to save"; return; fi
    if same_bytes hurt; then echo "ok $name"; else not_ok $name "it ends with other bytes"; fi
}

# ---- its config file is edited meanwhile: the next attempt trains what the first one did ----
config_is_edited() {
    local name=config_of_the_first_attempt_counts job
    echo "lr = 1e-3" >my.ini
    start -n 2 --max-restarts 1 --backoff 0.01 -- --zero 1 --config my.ini --save edited --metrics "" &
    job=$!
    wait_for 30 test -e edited/latest || { not_ok $name "does not save"; end_all; return; }
    echo "lr = 1e-1" >my.ini
    kill -KILL "$(pids 1 | head -1)"
    ends $name $job 0 || return
    if [ "$(n_restarts)" != 1 ]; then not_ok $name "$(n_restarts) restarts, not 1"; return; fi
    if same_bytes edited; then echo "ok $name"; else not_ok $name "it ends with other bytes"; fi
}

# ---- what always dies ----
cat >dies <<'END'
#!/bin/bash
kill -KILL $$
END
chmod +x dies
always_dies() {
    local name=no_progress_is_given_up
    TRIVIUM_EXE=$work/dies start -n 1 --max-restarts 9 --backoff 0.01 -- --save dies-here &
    ends $name $! 1 || return
    if [ "$(n_restarts)" != 2 ]; then not_ok $name "$(n_restarts) restarts, not 2"; return; fi
    if says "2 in a row brought no new checkpoint"; then
        echo "ok $name"
    else
        not_ok $name "does not say why it stops"
    fi
}
stopped_while_it_waits() {
    local name=term_ends_the_wait
    TRIVIUM_EXE=$work/dies start -n 1 --max-restarts 9 --backoff 50 -- --save dies-here &
    if ! wait_for 30 says "restart 1 of 9 in 50 s"; then not_ok $name "no restart within 30 s"; end_all; return; fi
    kill -TERM "$(pids_of launch | head -1)"
    if ! wait_for 10 eval "! kill -0 $! 2>/dev/null"; then not_ok $name "still waits"; end_all; return; fi
    ends $name $! 1 && echo "ok $name"
}

# ---- fewer ranks: four never start, three do not divide the batch ----
cat >four_never_start <<END
#!/bin/bash
if [ "\$OMPI_COMM_WORLD_SIZE" = 4 ]; then kill -KILL \$\$; fi
exec "$trivium" "\$@"
END
chmod +x four_never_start
fewer_ranks() {
    local name=fewer_ranks_go_on
    TRIVIUM_EXE=$work/four_never_start start -n 4 --max-restarts 2 --min-ranks 1 --backoff 0.01 -- --dp 4 --steps 2 \
        --save fewer --metrics "" &
    ends $name $! 0 || return
    if [ "$(n_restarts)" != 1 ] || ! says ", 2 ranks, from the beginning"; then
        not_ok $name "did not go on with 2 ranks"; return
    fi
    if [ "$(cat fewer/latest)" = step-00000002 ]; then echo "ok $name"; else not_ok $name "no checkpoint of step 2"; fi
}

# ---- a host that fails twice is left out: the third one takes its ranks; without a third one it stays ----
cat >dies_on_a_host <<END
#!/bin/bash
if [ "\$AT" = 127.0.0.3 ]; then kill -KILL \$\$; fi
exec "$trivium" "\$@"
END
chmod +x dies_on_a_host
on_hosts() { # HOSTS
    TRIVIUM_EXE=$work/dies_on_a_host start -n 2 --comm-transport direct --host "$1" --agent-command "env AT=%h" \
        --max-restarts 3 --backoff 0.01 -- --steps 2 --save "hosts$((++n_hosts))" --metrics "" &
}
bad_host() {
    local name=a_host_that_failed_twice_is_left_out n_hosts=0 three=127.0.0.2:1,127.0.0.3:1,127.0.0.4:1
    on_hosts $three
    ends $name $! 0 || return
    if [ "$(n_restarts)" != 2 ] || [ "$(grep -c 'is left out' err)" != 1 ] ||
        ! says "host 127.0.0.3 has failed 2 times, and is left out"; then
        not_ok $name "not after two failures"; return
    fi
    if [ "$(cat hosts1/latest)" != step-00000002 ]; then not_ok $name "no checkpoint of step 2"; return; fi
    tr , '\n' <<<$three | sed 's/:/ slots=/' >hosts
    n_hosts=2
    TRIVIUM_EXE=$work/dies_on_a_host start -n 2 --comm-transport direct --hostfile hosts --agent-command "env AT=%h" \
        --max-restarts 3 --backoff 0.01 -- --steps 2 --save hosts3 --metrics "" &
    ends $name $! 0 || return
    on_hosts 127.0.0.2:1,127.0.0.3:1
    ends $name $! 1 || return
    if says "host 127.0.0.3 has failed 2 times, and stays"; then echo "ok $name"; else
        not_ok $name "two hosts: it does not say that both are needed"
    fi
}

# ---- what would only happen again; and an older run's checkpoint is not this one's ----
not_again() {
    local name=loss_that_is_not_finite_is_not_repeated
    start -n 2 --max-restarts 2 -- --lr 1e6 --clip 0 --save whole --save-every 0 --metrics "" &
    ends $name $! 1 || return
    if ! says E_NUMERIC || [ "$(n_restarts)" != 0 ]; then not_ok $name "it was started again"; return; fi
    echo "ok $name"
}
divergence() {
    local name=divergence_is_tried_once_more
    start -n 2 --max-restarts 5 --backoff 0.01 -- --lr 1e6 --clip 0 --save diverges --metrics "" &
    ends $name $! 1 || return
    if [ "$(n_restarts)" != 1 ] ||
        ! grep -q '^restart 1 of 5 in .* 2 ranks, from step-0.*: E_NUMERIC, the loss of step' err; then
        not_ok $name "not one restart"; return
    fi
    if ! grep \
        -q 'no other restart: not finite again at step [0-9]*, from step-0.*: divergence, not a fault of the machine' \
        err; then
        not_ok $name "does not say why it ends"; return
    fi
    echo "ok $name"
}
# A bit that flips once: the first attempt says that step 3 is not finite, and the second one has it right.
cat >flips_once <<END
#!/bin/bash
if [ -e flipped-\$OMPI_COMM_WORLD_RANK ]; then exec "$trivium" "\$@"; fi
touch flipped-\$OMPI_COMM_WORLD_RANK
"$trivium" "\$@" --steps 2 || exit
[ \$OMPI_COMM_WORLD_RANK = 0 ] &&
    echo "[rank 0/2 @a] E_NUMERIC run_step.c:1 f: the loss of step 3 is nan; no weight was changed" >&2
sleep 0.2
exit 1
END
chmod +x flips_once
flipped() {
    local name=a_flipped_bit_costs_a_restart
    TRIVIUM_EXE=$work/flips_once start -n 2 --max-restarts 1 --backoff 0.01 -- --steps 5 --save flips --metrics "" &
    ends $name $! 0 || return
    if [ "$(n_restarts)" != 1 ] || ! says "from step-00000002: E_NUMERIC, the loss of step 3"; then
        not_ok $name "no restart from step 2"; return
    fi
    if [ "$(cat flips/latest)" = step-00000005 ]; then echo "ok $name"; else not_ok $name "no checkpoint of step 5"; fi
}

# ---- before all that ----
preflight() {
    local word library=MPI
    [ $starter = mpirun ] || library="direct transport"
    if ! "$trivium" launch -n 2 preflight --device cpu --threads 1 --save looked-at >out 2>err; then
        not_ok preflight "it fails"; return
    fi
    for word in "^ranks  *2 on 1 host: " "^libraries .*$library" "^all-reduce  16 MiB in .* GB/s" \
        "^save .*looked-at: 32 MiB by all ranks"; do
        if ! grep -q "$word" out; then not_ok preflight "does not say $word"; return; fi
    done
    if [ -z "$(ls -A looked-at)" ]; then echo "ok preflight"; else not_ok preflight "it leaves files"; fi
}

preflight
died_and_resumed
config_is_edited
always_dies
stopped_while_it_waits
fewer_ranks
bad_host
not_again
divergence
flipped
