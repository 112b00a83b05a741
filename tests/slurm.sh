#!/bin/bash
# configs/trivium.sbatch, with stand-ins for Slurm's commands: what it starts, when it starts it again, when it has
# itself queued, when it gives up. REAL=1: under a real Slurm of three nodes, all of them this machine, whose daemons
# run on loopback with a key, ports and state of their own; there trivium-elastic.sbatch and tools/cluster-check, too;
# REAL=elastic: only that. Run from the project's root.
set -u -o pipefail
script=$PWD/configs/trivium.sbatch
work=$(mktemp -d)
trap '[ ! -e slurm.conf ] || stop_daemons; rm -rf "$work"' EXIT
root=$PWD trivium=$PWD/${BUILD:-build}/trivium text=$PWD/configs/demo.txt
cd "$work" || exit 1

stop_daemons() {
    local name
    scancel --full --signal=KILL --state=RUNNING 2>/dev/null
    scancel --state=PENDING 2>/dev/null
    sleep 1
    for name in slurmd.n1 slurmd.n2 slurmd.n3 slurmctld munged; do
        [ -s $name.pid ] && kill "$(cat $name.pid)" && while kill -0 "$(cat $name.pid)"; do sleep 0.1; done
    done 2>/dev/null
}
# More processors than there are, so that ranks share them; a job that is queued again waits 10 s, not 120
start_daemons() {
    local port=$((20000 + RANDOM % 20000))
    export SLURM_CONF=$work/slurm.conf
    chmod 755 . && mkdir state && head -c 128 /dev/urandom >key && chmod 600 key
    munged --force --key-file="$work/key" --socket="$work/socket" --pid-file="$work/munged.pid" \
        --log-file="$work/munged.log" --seed-file="$work/seed" || return 1
    printf '%s\n' ClusterName=trivium "SlurmctldHost=$(hostname)(127.0.0.1)" SlurmUser=root SlurmdUser=root \
        "AuthInfo=socket=$work/socket,cred_expire=10" SlurmctldPort=$port SlurmctldPidFile="$work/slurmctld.pid" \
        SlurmdPidFile="$work/slurmd.%n.pid" SlurmctldLogFile="$work/slurmctld.log" \
        SlurmdLogFile="$work/slurmd.%n.log" StateSaveLocation="$work/state" SlurmdSpoolDir="$work/spool.%n" \
        ProctrackType=proctrack/linuxproc TaskPlugin=task/none SelectType=select/cons_tres \
        SelectTypeParameters=CR_CPU ReturnToService=2 SlurmdParameters=config_overrides KillWait=5 \
        "NodeName=n[1-3] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=8" \
        PartitionName=all\ Nodes=ALL\ Default=YES >slurm.conf
    slurmctld -c && slurmd -c -N n1 && slurmd -c -N n2 && slurmd -c -N n3 || return 1
    for ((i = 0; i < 100; i++)); do [ "$(sinfo -h -o '%t %D')" = 'idle 3' ] && return; sleep 0.1; done
    return 1
}
field() { scontrol show job "$1" | grep -oE "\b$2=[^ ]*" | cut -d= -f2; }
submit() { # SCRIPT SBATCH_OPTIONS...: the job's number, at once
    sbatch --parsable --nodes=1 --output=%x-%j.out "${@:2}" "$1" --dp 2 --tp 2
}
ends() { # JOB STATE: in ten minutes
    for ((i = 0; i < 1200; i++)); do
        case $(field "$1" JobState) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) break ;; esac
        sleep 0.5
    done
    [ "$(field "$1" JobState)" = "$2" ]
}
judge_job() { # CODE NAME JOB
    if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2" && { scontrol show job "$3"; cat -- *-"$3".out; tail \
        -qn 5 slurmd.*.log; } 2>&1 | sed 's/^/#   /'; fi
}
# The loss of each step; a step that comes again has the same one
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1" | sort -nu; }
like_whole() { # SAVE: each step with the loss of the run that nothing has stopped, and its last checkpoint's bytes
    [ "$(losses "$1.jsonl")" = "$(losses whole.jsonl)" ] && [ "$(losses whole.jsonl | wc -l)" = "$steps" ] &&
        diff -r "whole/$(cat whole/latest)" "$1/$(cat whole/latest)"
}
# What all jobs train; each part goes on from nothing of the others
train_options() {
    model="--data $text --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 8 --dropout 0.1 --lr 1e-3 \
--val-fraction 0 --eval-every 0 --log quiet"
    export TRIVIUM=$trivium BACKOFF=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
}
jobs_of_one_node() {
    local job start model=$model edited=(-e /gpus-per-node/d -e /cpus-per-task=/d)
    # time for 40 s of steps, which the first allocation does not have
    start=$(date +%s%N)
    # shellcheck disable=SC2086 # several words
    srun -n 4 --mpi=pmix "$trivium" train $model --dp 2 --tp 2 --steps 200 --metrics srun.jsonl >out 2>&1 ||
        { echo "not ok slurm_starts_ranks" && sed 's/^/#   /' out; return; }
    steps=$((200 * 40000 / (($(date +%s%N) - start) / 1000000) + 200))
    model+=" --steps $steps"
    # shellcheck disable=SC2086
    srun -n 4 --mpi=pmix "$trivium" train $model --dp 2 --tp 2 --save whole --metrics whole.jsonl >out 2>&1
    sed "${edited[@]}" -e "s|^TRAIN=.*|TRAIN=($model --save-every 20 --keep 2 --metrics \"\$SAVE.jsonl\")|" \
        "$script" >trivium.sbatch

    job=$(SAVE=timed submit trivium.sbatch --ntasks-per-node=4 --time=1 --signal=B:TERM@55)
    ends "$job" COMPLETED && [ "$(field "$job" Restarts)" -ge 1 ] && like_whole timed &&
        grep -q 'asked to stop' trivium-"$job".out
    judge_job $? "slurm_time_is_up_and_it_goes_on: $steps steps, $(field "$job" Restarts) times queued again" "$job"

    job=$(SAVE=killed submit trivium.sbatch --ntasks-per-node=4 --time=9)
    for ((i = 0; i < 600; i++)); do [ -e killed/latest ] && break; sleep 0.1; done
    kill -KILL "$(scontrol listpids "$job" | awk '$5 == 2 { print $1 }')"
    ends "$job" COMPLETED && [ "$(field "$job" Restarts)" = 0 ] && like_whole killed &&
        grep -q 'restart in' trivium-"$job".out
    judge_job $? slurm_goes_on_after_a_killed_rank "$job"

    job=$(SAVE=refused submit trivium.sbatch --ntasks-per-node=3 --time=9)
    ends "$job" FAILED && [ "$(field "$job" ExitCode)" = 2:0 ] && grep -q 'a bad request' trivium-"$job".out
    judge_job $? slurm_does_not_repeat_a_bad_request "$job"

    job=$(sbatch --parsable --ntasks=4 --output=%x-%j.out --job-name=trivium \
        --wrap "$trivium launch -n 4 train ${model% --steps *} --dp 2 --tp 2 --steps 200 --metrics launched.jsonl")
    ends "$job" COMPLETED && [ "$(losses launched.jsonl)" = "$(losses srun.jsonl)" ] &&
        [ "$(losses srun.jsonl | wc -l)" = 200 ]
    judge_job $? slurm_gives_launch_its_ranks "$job"
}
cluster_check() {
    # A build elsewhere must have the program.
    [ "${trivium%/*}" != "$root/build" ] ||
        env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$root" bench-collectives ||
        { echo "not ok slurm_cluster_check_on_eight_ranks: bench-collectives is not built"; return; }
    local job
    job=$(sbatch --parsable --nodes=1 --ntasks=8 --output=%x-%j.out --job-name=check \
        --wrap "BUILD=${trivium%/*} $root/tools/cluster-check --short --to $work/checked")
    ends "$job" COMPLETED && [ "$(grep -c '^ok    losses .*at most 1e-10$' check-"$job".out)" = 10 ] &&
        grep -q 'by srun --mpi=pmix' check-"$job".out && grep -q '^ok    plan .*measured ones$' checked/report.txt &&
        [ "$(grep -c '^# *Rank' checked/all_reduce.txt)" = 8 ]
    judge_job $? slurm_cluster_check_on_eight_ranks "$job"
}
# A node's agent is killed: the spares of the third node go on, and the losses are those of a run that loses no node
elastic() {
    local job agent options="$model --dp 4 --zero 1 --steps 400"
    # shellcheck disable=SC2086 # several words
    "$trivium" launch -n 4 --comm-transport direct train $options --metrics calm.jsonl >out 2>&1
    # shellcheck disable=SC2016 # the script's own variable
    options+=' --replicate-every 1 --save-every 50 --metrics "$SAVE.jsonl"'
    sed -e /gpus-per-node/d -e "s|^TRAIN=.*|TRAIN=($options)|" "${script%.sbatch}-elastic.sbatch" >elastic.sbatch
    job=$(SAVE=elastic MEET_HOST=127.0.0.1 PER_NODE=2 SPARES=2 LEAST=4 sbatch --parsable --output=%x-%j.out \
        --job-name=elastic --time=5 elastic.sbatch --threads 1)
    for ((i = 0; i < 600; i++)); do grep -q '"step":20,' elastic.jsonl 2>/dev/null && break; sleep 0.1; done
    for agent in $(pgrep -fx "$trivium agent"); do
        grep -qz '^SLURMD_NODENAME=n1$' "/proc/$agent/environ" && kill -KILL "$agent" && break
    done
    ends "$job" COMPLETED && grep -q 'host n1 .*epoch 1' elastic-"$job".out &&
        [ "$(losses elastic.jsonl)" = "$(losses calm.jsonl)" ] && [ "$(losses calm.jsonl | wc -l)" = 400 ]
    judge_job $? slurm_elastic_goes_on_without_a_node "$job"
}
if [ "${REAL-}" ]; then
    parts=(jobs_of_one_node cluster_check elastic)
    [ "$REAL" = 1 ] || parts=("$REAL")
    for word in munged slurmctld slurmd sbatch; do
        command -v $word >/dev/null || { echo "skip slurm: no $word; apt-get install slurmctld slurmd munge"; exit; }
    done
    [ "$(id -u)" = 0 ] || { echo "skip slurm: its daemons need root"; exit; }
    train_options
    if start_daemons >out 2>&1; then
        for part in "${parts[@]}"; do $part; done
    else
        echo "not ok slurm_starts" && tail -qn 5 out ./*.log | sed 's/^/#   /'
    fi
    exit
fi
mkdir bin
# srun: what the next line of `plan` says: save (a new checkpoint), wait (for USR1, then save), early (loses a USR1) and
# the exit code. Its words go to `calls`.
cat >bin/srun <<'END'
#!/bin/bash
echo "$*" >>calls
n=$(grep -c '' calls)
save() { mkdir -p ckpt; printf 'step-%08d\n' "$n" >ckpt/new; mv ckpt/new ckpt/latest; }
for word in $(sed -n "${n}p" plan); do
    case $word in
        save) save ;;
        wait) trap 'save; exit 75' USR1; : >ready; for ((i = 0; i < 500; i++)); do sleep 0.02; done; exit 99 ;;
        early) trap 'lost=1' USR1; : >ready; until [ "${lost-}" ]; do sleep 0.02; done ;;
        *) exit "$word" ;;
    esac
done
END
printf '#!/bin/bash\necho "$*" >>requeued\n' >bin/scontrol
chmod +x bin/*

not_ok() { echo "not ok $1: $2"; sed 's/^/#   /' out calls; }

# job NAME LINE...: starts the script with this plan
begin() {
    rm -rf calls requeued ready out ckpt
    : >calls
    printf '%s\n' "$@" >plan
    PATH=$work/bin:$PATH SLURM_JOB_ID=77 SAVE=ckpt BACKOFF=0 ASK_AGAIN=1 exec bash "$script" --seed 5 >out 2>&1
}
# judge NAME CODE WANTED CALLS REQUEUED
judge() {
    local name=$1 requeued
    requeued=$(cat requeued 2>/dev/null)
    if [ "$2" != "$3" ]; then not_ok "$name" "exit code $2, not $3"; return; fi
    if [ "$(grep -c '' calls)" != "$4" ]; then not_ok "$name" "$(grep -c '' calls) starts, not $4"; return; fi
    if [ "$requeued" != "$5" ]; then not_ok "$name" "scontrol: \"$requeued\", not \"$5\""; return; fi
    echo "ok $name"
}

if bash -n "$script"; then echo "ok sbatch_is_bash"; else echo "not ok sbatch_is_bash"; fi
if ! command -v shellcheck >/dev/null; then
    echo "skip sbatch_shellcheck: it is not installed"
elif shellcheck "$script"; then
    echo "ok sbatch_shellcheck"
else
    echo "not ok sbatch_shellcheck"
fi

(begin "save 1" "save 137" "0")
judge sbatch_goes_on_after_failures $? 0 3 ""
if ! sed -n 1p calls | grep -q -- --resume &&
    sed -n 2p calls | grep -q -- "--save ckpt --resume ckpt --metrics-append --seed 5"; then
    echo "ok sbatch_resumes"
else
    not_ok sbatch_resumes "not from the checkpoint"
fi
(begin 1 1 1 1 1)
judge sbatch_gives_up $? 1 3 ""
(begin "save 1" 1 "save 1" 1 1 1)
judge sbatch_counts_in_a_row $? 1 5 ""
(begin 2)
judge sbatch_bad_request $? 2 1 ""
(begin "save 75")
judge sbatch_queues_again $? 0 1 "requeue 77"
(begin 75)
judge sbatch_does_not_queue_what_stands_still $? 1 1 ""
for name in time_is_up early_request_is_repeated; do
    rm -f ready
    if [ $name = time_is_up ]; then (begin wait) & else (begin "early wait") & fi
    for ((i = 0; i < 500; i++)); do if [ -e ready ]; then break; fi; sleep 0.02; done
    kill -TERM $!
    wait $!
    judge sbatch_$name $? 0 1 "requeue 77"
done
