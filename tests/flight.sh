#!/bin/bash
# The flight record and trivium postmortem, from outside: what a job that hangs, or was killed, leaves behind and says;
# and that a job which ends well leaves nothing. Real ranks; build/example_hang plants the mistakes.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_FLIGHT_TEST=$$.$RANDOM
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir tmp rings
export TMPDIR=$work/tmp
unset TRIVIUM_JOB # of a launch that runs the tests
if [ ! -r /proc/self/environ ] || [ ! -w /dev/shm ]; then
    echo "skip flight: without /proc and /dev/shm"
    exit 0
fi

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' err out 2>/dev/null
}
# shared RING...: what launch $job has left in shared memory
own=trivium-$(id -u) # the folder of this user
shared() { find "/dev/shm/$own" "$work/rings" -maxdepth 2 -name "*.$1.*" 2>/dev/null; }
is_json_verdict() { # FOLDER VERDICT RANK
    "$trivium" postmortem "$1" --json >json && python3 - "$2" "$3" <<'END'
import json, sys
p = json.load(open("json"))
ranks = p["ranks"]
good = p["verdict"] == sys.argv[1] and p["rank"] == int(sys.argv[2]) and len(ranks) == 4 and not p["running"]
good = good and all(r["found"] and r["rows"] > 0 and r["last"]["group"] for r in ranks)
sys.exit(0 if good else 1)
END
}

# hangs WHAT KIND WORDS: the example hangs, and the verdict's line has these words (| between them)
hangs() {
    local what=$1 kind=$2 words=$3 word folder
    env "$marker" TRIVIUM_EXE="$build/example_hang" timeout -k 2 60 "$trivium" launch -n 4 "$what" >out \
        2>err </dev/null &
    job=$!
    wait "$job"
    if [ $? != 1 ]; then not_ok "planted_$what" "exit code not 1"; return; fi
    if [ "$(grep -c '^postmortem: ' err)" != 1 ] || [ "$(grep -c '' err)" != 2 ]; then
        not_ok "planted_$what" "not one error line and one verdict"; return
    fi
    while [ -n "$words" ]; do
        word=${words%%|*} words=${words#"$word"} words=${words#|}
        if ! grep '^postmortem: ' err | grep -qF -- "$word"; then
            not_ok "planted_$what" "does not say \"$word\""; return
        fi
    done
    folder=$(sed -n 's/.*More: trivium postmortem //p' err)
    if [ "$(find "$folder" -type f | wc -l)" != 4 ]; then
        not_ok "planted_$what" "$folder has not four records"; return
    fi
    if ! is_json_verdict "$folder" "$kind" 1; then
        not_ok "planted_$what" "--json says something else: $(cat json)"; return
    fi
    if [ -n "$(shared "$(pid_of "$folder")")" ]; then
        not_ok "planted_$what" "records are left in shared memory"; return
    fi
    echo "ok planted_$what"
}
pid_of() { local name=${1##*/flight.}; echo "${name%%.*}"; }

hangs missing missing "rank 1 has not called barrier, #9 of world (4 ranks), step 5|3 ranks have waited|it is 1 behind"
hangs swapped mismatch \
    "rank 1 calls barrier as #8 of world (4 ranks), step 5, where rank 0 calls all_reduce of 40000 fp32"
hangs late missing "rank 1 has not called all_reduce of 40000 fp32, #8 of world (4 ranks), step 5|last sign of life"

# ---- a rank that is stopped, and a rank that is killed; both while training ----
small=(--layers 2 --hidden 32 --heads 2 --seq 16 --global-batch 8 --metrics "" --data "$demo" --threads 1)
has_stepped() { [ "$(grep -c '^step ' out)" -ge 3 ]; }
start() { # LAUNCHER...: four ranks, two by two, in the background
    : >out
    env "$marker" "$@" train "${small[@]}" --dp 2 --tp 2 --steps 1000000 --comm-timeout 4 >out 2>err </dev/null &
    job=$!
    wait_for 60 has_stepped
}
start "$trivium" launch -n 4
kill -STOP "$(pids 2 | head -1)"
sleep 2
"$trivium" postmortem "$(pids 0 | head -1 | xargs -I{} sh -c "tr '\0' '\n' </proc/{}/environ" |
    sed -n 's/^TRIVIUM_JOB=//p')" >live
wait "$job"
if grep -q '4 ranks, running' live && grep -q '^verdict: rank 2 .*last sign of life' live; then
    echo "ok reads_a_job_that_hangs"
else not_ok reads_a_job_that_hangs "$(cat live)"; fi
if grep -q '^postmortem: rank 2 .*last sign of life' err; then echo "ok names_the_rank_that_was_stopped"
else not_ok names_the_rank_that_was_stopped "another verdict"; fi

start "$trivium" launch -n 4
kill -KILL "$(pids 2 | head -1)"
wait "$job"
folder=$(sed -n 's/.*More: trivium postmortem //p' err)
if [ -n "$folder" ] && "$trivium" postmortem "$folder" >out && [ "$(grep -c '^  rank [0-3] @' out)" = 4 ] &&
    grep -q '^  rank 2 @.*step ' out; then echo "ok outlives_a_kill"
else not_ok outlives_a_kill "$(cat out)"; fi

# ---- without launch: a rank says where the records are, and they can be removed; a clean end leaves none ----
mpi=(mpirun --oversubscribe --mca pml ob1 --mca btl self,vader -x "TRIVIUM_FLIGHT=$work/rings")
[ "$(id -u)" != 0 ] || mpi+=(--allow-run-as-root)
env "$marker" "${mpi[@]}" -n 4 "$build/example_hang" swapped >out 2>err </dev/null
name=$(sed -n 's/^what each rank did last with others is kept: trivium postmortem //p' err | head -1)
if [ -n "$name" ] && TRIVIUM_FLIGHT=$work/rings "$trivium" postmortem "$name" >out &&
    grep -q '^verdict: rank 1 calls barrier' out; then echo "ok says_where_the_records_are"
else not_ok says_where_the_records_are "job $name"; fi
rm -f "rings/$own"/*
env "$marker" "${mpi[@]}" -n 4 "$build/example_hang" none >out 2>err </dev/null
if [ -z "$(ls "rings/$own")" ]; then
    echo "ok clean_end_leaves_nothing"
else
    not_ok clean_end_leaves_nothing "$(ls "rings/$own")"
fi

# ---- a folder that cannot be written to: one warning, and the job does its work ----
env "$marker" TRIVIUM_FLIGHT=/proc TRIVIUM_EXE="$build/example_hang" "$trivium" launch -n 4 none >out 2>err </dev/null
code=$?
if [ $code = 0 ] && [ "$(grep -c '' err)" = 1 ] &&
    grep -q "no flight record: cannot make the folder /proc/.*TRIVIUM_FLIGHT" err; then
    echo "ok without_shared_memory"
else not_ok without_shared_memory "exit code $code"; fi

# ---- what crashed jobs leave is bounded: of 70 rings without a process 64 stay ----
TRIVIUM_JOB=old env "$marker" "${mpi[@]}" -n 2 "$build/example_hang" swapped >out 2>err </dev/null
for i in $(seq 70); do cp "rings/$own/trivium.old.0" "rings/$own/trivium.dead$i.0"; done
env "$marker" "${mpi[@]}" -n 2 "$build/example_hang" none >out 2>err </dev/null
n=$(find rings -type f | wc -l)
if [ "$n" = 64 ]; then echo "ok leftovers_are_bounded"; else not_ok leftovers_are_bounded "$n are left"; fi

# ---- a rank that is slow on purpose: it is named, and the numbers stay what they are ----
slow=(train "${small[@]}" --dp 2 --steps 70 --val-fraction 0)
env "$marker" "$trivium" launch -n 2 "${slow[@]}" --metrics slow.jsonl --inject slow=1,30 >out 2>err </dev/null
code=$?
env "$marker" "$trivium" launch -n 2 "${slow[@]}" --metrics usual.jsonl >/dev/null 2>&1 </dev/null
losses() { grep -oE '"(loss|grad_norm)":[^,]*' "$1"; }
if [ $code = 0 ] && [ "$(grep -cE '^slow rank 1 @[^ ]+: [0-9]+\.[0-9]{2} x the median for 60 steps$' err)" = 1 ] &&
    [ "$(grep -c '^slow rank' err)" = 1 ]; then echo "ok names_the_slow_rank"
else not_ok names_the_slow_rank "exit code $code"; fi
if [ -s slow.jsonl ] && cmp -s <(losses slow.jsonl) <(losses usual.jsonl); then echo "ok slowness_changes_no_number"
else not_ok slowness_changes_no_number "other losses"; fi
refuses() { # NAME WORDS COMMAND...
    local name=$1 words=$2
    shift 2
    env "$marker" "$trivium" "$@" >out 2>err </dev/null
    if [ $? = 2 ] && [ "$(grep -c '' err)" = 1 ] && grep -qF -- "$words" err; then
        echo "ok $name"
    else
        not_ok "$name" "not refused so"
    fi
}
refuses slow_rank_that_is_not_there \
    "inject=slow=2,1.5; use slow=RANK,FACTOR or link=RANK,FACTOR with a rank from 0 to 1" launch -n 2 \
    "${slow[@]}" --inject slow=2,1.5
refuses slow_link_that_is_not_there "inject=link=1,4 makes an emulated link slower, and there is none" launch -n 2 \
    "${slow[@]}" --inject link=1,4
refuses slow_in_compare "inject is an option of train" launch -n 2 compare "${small[@]}" --strategies "dp=2" \
    --inject slow=1,2
refuses slow_in_oracle "inject is an option of train" oracle record --out o --inject slow=0,2

# ---- watch: a running job, as a table and for programs; it ends when the job does ----
: >out
env --default-signal "$marker" "$trivium" launch -n 2 "${slow[@]}" --steps 1000000 --metrics m.jsonl \
    --ranks-per-node 1 >out 2>err </dev/null &
job=$!
wait_for 60 has_stepped
name=$(tr '\0' '\n' <"/proc/$(pids 0 | head -1)/environ" | sed -n 's/^TRIVIUM_JOB=//p')
"$trivium" watch "$name" --once --metrics m.jsonl >table
"$trivium" watch "$name" --json --metrics m.jsonl >looks &
watcher=$!
sleep 2.5
kill -INT $job
wait $job
wait_for 10 eval "! kill -0 $watcher 2>/dev/null"
if grep -qE '^job .*, 2 ranks, running; metrics: step [0-9]+, loss [0-9.]+, ' table &&
    [ "$(grep -cE '^ +[01] +[^ ]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +0\.000 +[0-9.]*[1-9][0-9.]* +(called|waits)' table)" = \
    2 ]; then echo "ok watch_shows_a_table"
else not_ok watch_shows_a_table "$(cat table)"; fi
if python3 - <<'END'
import json
looks = [json.loads(line) for line in open("looks")]
good = len(looks) >= 2 and looks[0]["running"] and all(len(x["ranks"]) == 2 for x in looks)
good = good and looks[1]["ranks"][0]["step"] > looks[0]["ranks"][0]["step"] > 0
good = good and all(r["bytes_between"] > 0 and r["bytes_inside"] == 0 and r["own_ms"] > 0 for x in looks
                    for r in x["ranks"])
raise SystemExit(not good)
END
then echo "ok watch_ends_with_its_job"; else not_ok watch_ends_with_its_job "$(cat looks)"; fi
kill $watcher 2>/dev/null

"$trivium" postmortem nowhere >out 2>err
if [ $? = 2 ] && grep -q "E_DATA .*no flight record" err; then echo "ok job_that_is_not_there"
else not_ok job_that_is_not_there "another line"; fi
