#!/bin/bash
# Signals to a rank, to mpirun (or the agent) and to launch, at every moment of a job: it ends in time, with one true
# line, leaves no process and no file, and goes on from its last checkpoint to the same bytes as an undisturbed job.
#
# Run from the project's root. BUILD: where the program is (default: build). ALL=1: all cases, not one of each kind
# (tests/again).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_SIGNALS=$$.$RANDOM
wait_step=0.02
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" && touch born && mkdir tmp || exit 1
export TMPDIR=$work/tmp # what launch keeps of a failed job goes with it
own=trivium-$(id -u)    # the folder of this user, there and in /dev/shm
if [ ! -r /proc/self/environ ]; then
    echo "skip signals: without /proc the ranks cannot be found"
    exit 0
fi
steps=60
last=$(printf 'step-%08d' $steps)
train=(train --device cpu --threads 1 --data "$demo" --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 8
    --dropout 0.1 --val-fraction 0 --log warn --dp 2 --tp 2 --zero 1 --steps "$steps" --save-every 5
    --keep 2)

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' err
}
# start LAUNCH_OPTIONS -- TRAIN_OPTIONS: in the background, with the signals that a terminal's job has; $job is launch
start() {
    local launch=()
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    env --default-signal "$marker" "$trivium" launch -n 4 "${launch[@]}" "${train[@]}" "$@" >out 2>err </dev/null &
    job=$!
}
ended() { ! kill -0 "$job" 2>/dev/null; }
losses() { grep -oE '^\{"step":[0-9]+,"loss":[^,]*,"grad_norm":[^,]*' "$1" | sort -u; }
same_end() { # SAVE
    local file
    for file in whole/"$last"/*; do cmp -s "$file" "$1/$last/${file##*/}" || return 1; done
    cmp -s <(losses whole.rows) <(losses "$1.rows")
}

# ---- when and which process ----
has_row() { has_row_in "$save.rows" "$1"; }
has_rank() { [ -n "$(pids 0)" ]; }
# The moment of a case: start: ranks are just there, and MPI takes most of a second to begin; steps; save: just after a
# step that is saved; late: after the last step
[ "$starter" = mpirun ] && begins_s=0. || begins_s=0.0
await() {
    case $1 in
    start) wait_for 60 has_rank && sleep "$begins_s$((RANDOM % 4))" ;;
    steps) wait_for 120 has_row 12 ;;
    save) wait_for 120 has_row 15 && sleep 0.0$((RANDOM % 3)) ;;
    late) wait_for 120 has_row $steps ;;
    esac
}
victims() {
    case $1 in
    launch) echo "$job" ;;
    mpirun | agent) pids_of "$1" | head -1 ;;
    all) for rank in 0 1 2 3; do pids $rank; done ;;
    *) pids "$1" | head -1 ;;
    esac
}
# hurt SIGNALS TARGET: one signal, or several with seconds between: STOP,2,CONT. A "launch:" before one sends it there
# instead.
hurt() {
    local signal whom=$2
    for signal in ${1//,/ }; do
        case $signal in
        [0-9]*) sleep "$signal" ;;
        launch:*) kill -s "${signal#launch:}" "$job" 2>/dev/null ;;
        *) victims "$whom" | xargs -r kill -s "$signal" 2>/dev/null ;;
        esac
    done
}

# ---- what is left ----
error='^(\[rank [^]]*\] )?E_[A-Z]+ [a-z_]+\.c:[0-9]+ [a-z_]+: '
rest='^(warning: |postmortem: |restart |goodput |training stops '
rest+='|\[rank [^]]*\] warning: |stopped by signal |interrupted: )'
# speaks NAME N WORDS: these words (| between them); N error lines and no other program's. N any: a crash has more to
# say
speaks() {
    local name=$1 n=$2 words=$3 word
    if [ "$n" != any ] && [ "$(grep -cE "$error" err)" != "$n" ]; then
        not_ok "$name" "$(grep -cE "$error" err) error lines, not $n"
        return 1
    fi
    if [ "$n" != any ] && grep -vE "$error|$rest" err | grep -q .; then
        not_ok "$name" "more than the error line"
        return 1
    fi
    while [ -n "$words" ]; do
        word=${words%%|*} words=${words#"$word"} words=${words#|}
        if ! grep -qF -- "$word" err; then not_ok "$name" "does not say \"$word\""; return 1; fi
    done
}
# newer: a launcher that was killed long ago had the same number, perhaps
scratch() { find "/dev/shm/$own" "$TMPDIR/$own" -maxdepth 1 ! -name "flight.*" -name "*.$job.*" -newer "$work/born" \
    2>/dev/null; }
no_scratch() { [ -z "$(scratch)" ]; }
leaves_nothing() { # NAME
    if ! wait_for 15 is_alone; then not_ok "$1" "processes are left: $(pids | tr '\n' ' ')"; end_all; return 1; fi
    if ! wait_for 5 no_scratch; then not_ok "$1" "files are left: $(scratch | tr '\n' ' ')"; return 1; fi
}
goes_on() { # NAME
    local from=()
    if [ ! -d "$save/$last" ]; then
        [ ! -e "$save/latest" ] || from=(--resume "$save" --metrics-append)
        start -- --save "$save" --metrics "$save.rows" "${from[@]}"
        wait "$job" || { not_ok "$1" "cannot be resumed"; return 1; }
    fi
    same_end "$save" || { not_ok "$1" "it ends with other bytes"; return 1; }
}

# ---- a case ----
# hurts MODE MOMENT SIGNALS TARGET CODE N WORDS: MODE is sync, async or restarts; CODE what launch ends with (of
# several, a|b), within N seconds; N error lines, and WORDS in standard error
n_cases=0
hurts() {
    local mode=$1 moment=$2 signals=$3 whom=$4 codes=$5 n=$6 words=$7 name code launch=() more=()
    name=$(tr ',:' '__' <<<"${signals}_to_${whom}_at_${moment}_$mode")
    n_cases=$((n_cases + 1)) save=hurt.$n_cases
    case $mode in
    async) more=(--save-async) ;;
    restarts) launch=(--max-restarts 2 --backoff 0.1) ;;
    esac
    [ "$signals" != STOP ] || more+=(--comm-timeout 5)
    start "${launch[@]}" -- --save "$save" --metrics "$save.rows" "${more[@]}"
    await "$moment" || { not_ok "$name" "does not get that far"; end_all; wait "$job"; return; }
    if [ "$moment" = steps ] && no_scratch; then
        not_ok "$name" "Open MPI's files are not in folders of the job's own"
        end_all
        return
    fi
    hurt "$signals" "$whom"
    if ! wait_for 180 ended; then not_ok "$name" "does not end within 3 minutes"; end_all; return; fi
    wait "$job"
    code=$?
    if [[ "|$codes|" != *"|$code|"* ]]; then not_ok "$name" "exit code $code, not $codes"; end_all; return; fi
    # a job that had ended before the signal came has nothing to say
    [ "$code" = 0 ] && [ "$mode" != restarts ] || speaks "$name" "$n" "$words" || return
    leaves_nothing "$name" && goes_on "$name" && echo "ok $name"
    rm -rf "$save" "$save.rows"
}
# more ...: the same, one of ALL
more() { [ -z "${ALL:-}" ] || hurts "$@"; }

save=whole
start -- --save whole --metrics whole.rows
wait "$job" || { not_ok signals "an undisturbed job fails"; exit 1; }

# ---- KILL: 37 ----
for moment in start steps save late; do
    codes=1
    [ $moment != late ] || codes='0|1'
    for whom in 0 2; do
        short="more"
        [ $moment$whom != save2 ] || short="hurts"
        $short sync $moment KILL $whom "$codes" 1 "E_COMM|killed by signal 9"
    done
    more sync $moment KILL all "$codes" 1 "E_COMM|killed by signal 9"
    short="more"
    [ $moment != steps ] || short="hurts"
    $short sync $moment KILL $starter "$codes" 1 "$starter_name was killed by signal 9"
    $short sync $moment KILL launch '0|137' any ""
done
for moment in steps save; do
    for whom in 0 3 all; do more async $moment KILL $whom 1 1 "E_COMM|killed by signal 9"; done
    more async $moment KILL $starter 1 1 "$starter_name was killed by signal 9"
    more async $moment KILL launch 137 any ""
done
for whom in 1 $starter; do
    for moment in start steps save; do more restarts $moment KILL "$whom" 0 1 "restart 1 of 2|killed by signal 9"; done
done
more restarts save KILL 0 0 1 "restart 1 of 2|killed by signal 9"

# ---- STOP: 13 ----
more sync start STOP 1 1 1 "E_TIMEOUT"
more sync steps STOP 0 1 1 "E_TIMEOUT|no answer from rank 0"
more sync steps STOP 3 1 1 "E_TIMEOUT|no answer from rank 3"
more sync save STOP 2 1 1 "E_TIMEOUT"
more async save STOP 1 1 1 "E_TIMEOUT"
more restarts steps STOP 1 0 1 "restart 1 of 2|E_TIMEOUT"
more restarts save STOP 2 0 1 "restart 1 of 2|E_TIMEOUT"
hurts sync steps STOP,1,launch:INT $starter '0|130' 0 "interrupted"
more sync start STOP,1,launch:INT,1.5,launch:INT $starter 130 0 "interrupted"
hurts sync steps STOP,1,launch:TERM $starter '0|75' 0 ""
more sync steps STOP,1.5,CONT 1 0 0 ""
more sync steps STOP,4,CONT $starter 0 0 ""
more sync steps STOP,4,CONT launch 0 0 ""

# ---- others: 16 ----
more sync start TERM launch '0|1|75' any ""
hurts sync steps TERM launch '0|75' 0 ""
more async save TERM launch '0|75' 0 ""
more restarts steps TERM launch '0|75' 0 ""
more sync steps USR1 launch '0|75' 0 ""
more sync steps USR1 2 '0|75' 0 ""
more sync start INT launch 130 0 "interrupted"
more sync steps INT launch '0|130' 0 "interrupted"
more sync steps INT,1.5,INT launch '0|130' 0 "interrupted"
more sync steps HUP launch '0|1' 1 "stopped by signal 1"
hurts sync steps QUIT launch '0|1' 1 "stopped by signal 3"
hurts sync steps TERM $starter '0|1' 1 "names no rank that failed"
more sync steps TERM 1 1 1 "rank 1 of 4|killed by signal 15"
more sync steps SEGV 1 1 any "rank 1 of 4|killed by signal 11"
more sync steps ABRT $starter '0|1' any "killed by signal 6"
more sync steps WINCH launch 0 0 ""

# ---- what listens to no signal, and prints forever: an mpirun; of the agent, which is launch itself, the ranks ----
mkdir deaf
cat >deaf/mpirun <<'END'
#!/bin/bash
trap '' TERM INT HUP
while :; do sleep 0.1; echo line; done
END
chmod +x deaf/mpirun
# deaf NAME SECONDS SIGNALS CODE WORDS [MPIRUN]
deaf() {
    local name=$1 started code n_lines=1 instead="PATH=$work/${6-deaf}:$PATH"
    [ "$4" != 130 ] || n_lines=0
    [ $starter = mpirun ] || instead="TRIVIUM_EXE=$work/deaf/mpirun"
    env --default-signal "$marker" "$instead" "$trivium" launch -n 2 train --device cpu \
        >out 2>err </dev/null &
    job=$!
    wait_for 60 grep -q line out
    started=$SECONDS
    hurt "$3" launch
    wait_for 60 ended || end_all
    wait "$job"
    code=$?
    if [ "$code" != "$4" ]; then not_ok "$name" "exit code $code, not $4"; return; fi
    if [ $((SECONDS - started)) -gt "$2" ]; then
        not_ok "$name" "ended after $((SECONDS - started)) s, not $2"
        return
    fi
    [ -z "$5" ] || speaks "$name" "$n_lines" "$5" || return
    leaves_nothing "$name" && echo "ok $name"
}
mkdir crash
printf '#!/bin/bash\necho line\nsleep 0.2\nkill -SEGV $$\n' >crash/mpirun
chmod +x crash/mpirun
if [ $starter = mpirun ]; then
    deaf second_interrupt_kills_mpirun 9 INT,1.3,INT 130 "interrupted|was killed"
    deaf crash_of_mpirun_is_its_own 25 WINCH 1 "mpirun was killed by signal 11|it crashed" crash
    [ -z "${ALL:-}" ] || deaf interrupt_kills_mpirun_after_10_s 25 INT 130 "interrupted|was killed"
else
    deaf interrupt_kills_deaf_ranks_after_1_s 9 INT 130 "interrupted"
fi
[ -z "${ALL:-}" ] || deaf death_of_launch_kills_mpirun 25 KILL 137 ""

# ---- one rank, without launch: in a step, and while it waits for a pipe without a writer ----
# alone NAME OPTIONS...
alone() {
    local name=$1 code
    shift
    env --default-signal "$marker" "$trivium" "${train[@]}" --dp 1 --tp 1 --steps 1000000 --save-every 0 "$@" >out \
        2>err </dev/null &
    job=$!
    sleep 2
    kill -s INT "$job"
    wait_for 5 ended || end_all
    wait "$job"
    code=$?
    if [ "$code" != 130 ]; then not_ok "$name" "exit code $code, not 130"; return; fi
    speaks "$name" 0 "interrupted" && leaves_nothing "$name" && echo "ok $name"
}
alone interrupt_ends_one_rank --metrics ""
alone interrupt_ends_one_that_waits --config <(sleep 8)

# ---- the reader of the output leaves ----
# left NAME LAUNCH_OPTIONS...
left() {
    local name=$1 code
    shift
    rm -rf left
    env --default-signal "$marker" "$trivium" launch -n 2 "$@" train --device cpu --threads 1 --data "$demo" \
        --layers 2 --hidden 32 --heads 2 --seq 16 --global-batch 8 --metrics "" --steps 1000000 --save left \
        2>err </dev/null | head -1 >out
    code=${PIPESTATUS[0]}
    if [ "$code" != 141 ]; then not_ok "$name" "exit code $code, not 141"; return; fi
    if [ -s err ]; then not_ok "$name" "$(grep -c '' err) lines of standard error"; return; fi
    if [ -s out ]; then leaves_nothing "$name" && echo "ok $name"; else not_ok "$name" "not a line came through"; fi
}
left reader_of_the_output_leaves
left reader_left_is_no_reason_to_restart --max-restarts 2
