#!/bin/bash
# configs/trivium-elastic.sbatch and .yaml: real agents and ranks on this host, with stand-ins for Slurm's commands and
# for Kubernetes.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
root=$PWD
# in memory: a disk may stand still for longer than is waited here
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
marker=TRIVIUM_ELASTIC_TEST=$$.$RANDOM
export wait_step=0.05
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin
# srun: the rest of its words, from `bash` on, on each of three nodes, which are this one. As Slurm does, it ends all
# processes of its step when it is stopped. scontrol: the nodes' names; its other arguments.
cat >bin/srun <<'END'
#!/bin/bash
echo "$*" >>calls
while [ "$1" != bash ]; do shift; done
set -m
trap 'for step in $(jobs -p); do kill -- -"$step" 2>/dev/null; done; exit' TERM
for node in n1 n2 n3; do SLURMD_NODENAME=$node "$@" >>"out.$node" 2>&1 & done
wait
END
cat >bin/scontrol <<'END'
#!/bin/bash
if [ "$1" = show ]; then printf 'n1\nn2\nn3\n'; else echo "$*" >>requeued; fi
END
chmod +x bin/*

not_ok() { echo "not ok $1: $2"; tail -n 5 out out.n* calls 2>/dev/null | sed 's/^/#   /'; end_all; }
has_row() { has_row_in ckpt.jsonl "$1"; }
agent_of() { # NODE: the agent that says it is that one
    local pid
    for pid in $(pids_of agent); do
        grep -qzxE "(SLURMD_NODENAME|TRIVIUM_HOST)=$1" "/proc/$pid/environ" 2>/dev/null &&
            ! pgrep -P "$pid" -x bash >/dev/null && echo "$pid"
    done | head -1
}

# ---- Slurm ----
begin() { # TRAIN_OPTIONS...
    rm -rf calls requeued out out.* ckpt ckpt.jsonl
    sed 's|^TRAIN=.*|TRAIN=(--config '"$root"'/configs/demo.ini --global-batch 16 '\
'--dp 4 --zero 1 --replicate-every 1 --save-every 10 --metrics "$SAVE.jsonl")|' \
        "$root/configs/trivium-elastic.sbatch" >script
    env --default-signal "$marker" PATH="$work/bin:$PATH" SLURM_JOB_ID=$((RANDOM)) SLURM_JOB_NODELIST='n[1-3]' \
        MEET_HOST=127.0.0.1 PER_NODE=2 SPARES=2 LEAST=2 \
        SAVE=ckpt TRIVIUM="$build/trivium" bash script --threads 1 "$@" >out 2>&1 &
    job=$!
}
ended() { # NAME CODE
    local code
    timeout 60 tail --pid=$job -f /dev/null || { not_ok "$1" "does not end"; return 1; }
    wait $job
    code=$?
    if [ $code != "$2" ]; then not_ok "$1" "code $code, not $2"; return 1; fi
    if ! wait_for 10 is_alone; then not_ok "$1" "leaves processes"; return 1; fi
}

goes_on() {
    local name=elastic_sbatch_goes_on_without_a_node
    begin --steps 40
    wait_for 60 has_row 5 || { not_ok $name "does not start"; return; }
    kill -KILL "$(agent_of n2)"
    ended $name 0 || return
    grep -q 'host n2 is lost .*epoch 1 goes on with 4 ranks' out || { not_ok $name "does not say which"; return; }
    has_row 40 && [ ! -e requeued ] || { not_ok $name "not to the end"; return; }
    echo "ok $name"
}
goes_on

time_is_up() {
    local name=elastic_sbatch_time_is_up
    begin --steps 4000
    wait_for 60 has_row 5 || { not_ok $name "does not start"; return; }
    kill -TERM $job
    ended $name 0 || return
    [ -e ckpt/latest ] && grep -q '^requeue ' requeued || { not_ok $name "not saved, or not queued again"; return; }
    echo "ok $name"
}
time_is_up

# All that were left are gone: from the last checkpoint, with agents that come again.
begins_again() {
    local name=elastic_sbatch_begins_again_from_disk
    begin --steps 40
    wait_for 60 has_row 15 || { not_ok $name "does not start"; return; }
    # shellcheck disable=SC2046 # several
    kill -KILL $(agent_of n1) $(agent_of n2) $(agent_of n3)
    ended $name 0 || return
    grep -q 'restart 1' out && has_row 40 || { not_ok $name "no restart, or not to the end"; return; }
    echo "ok $name"
}
begins_again

if ! command -v shellcheck >/dev/null; then
    echo "skip elastic_sbatch_shellcheck: it is not installed"
elif shellcheck "$root/configs/trivium-elastic.sbatch"; then
    echo "ok elastic_sbatch_shellcheck"
else
    echo "not ok elastic_sbatch_shellcheck"
fi

# ---- Kubernetes: the containers' commands, each pod being this host ----
pods() { # prints lines of a shell: the pods' commands
    python3 - "$root/configs/trivium-elastic.yaml" "$build/trivium" <<'END'
import shlex, sys, yaml
path, program = sys.argv[1:]
for d in yaml.safe_load_all(open(path)):
    if "template" not in d["spec"]: continue
    c = d["spec"]["template"]["spec"]["containers"][0]
    env = {e["name"]: e.get("value") for e in c["env"]}
    words = [program] + c["command"][1:] + c.get("args", [])
    for i in range(d["spec"].get("replicas", 1)):
        if "TRIVIUM_HOST" in env: env["TRIVIUM_HOST"] = f'{d["metadata"]["name"]}-{i}'
        assert env.pop("TRIVIUM_SECRET", 0) is None                       # from a secret, and nowhere written
        print(" ".join([d["kind"]] + [shlex.quote(f"{k}={v}") for k, v in env.items() if v]
                       + [shlex.quote(w) for w in words]))
        env["TRIVIUM_SECRET"] = None
END
}
kubernetes() {
    local name=elastic_kubernetes_pods_find_each_other secret port=$((20000 + RANDOM % 10000)) line
    python3 -c 'import yaml' 2>/dev/null || { echo "skip $name: python3 has no yaml"; return; }
    secret=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    pods | sed \
        "s/trivium-launch:7070/127.0.0.1:$port/; s/0.0.0.0:7070/127.0.0.1:$port/; s/:8\b/:2/g
        s/--spares 8/--spares 2/; s/--elastic 8/--elastic 2/; s/--dp 16/--dp 4/
        s|configs/demo.ini|$root/configs/demo.ini --global-batch 16 --steps 20 --threads 1 --metrics ckpt.jsonl|
        s|/shared/run1|ckpt|" >pods
    rm -rf ckpt ckpt.jsonl out out.*
    [ "$(grep -c ^StatefulSet pods)" = 3 ] && [ "$(grep -c ^Job pods)" = 1 ] ||
        { not_ok $name "not three agents and a launch"; return; }
    while read -r line; do
        case $line in
            Job*) eval "env --default-signal $marker TRIVIUM_SECRET=$secret ${line#Job }" >out 2>&1 & job=$! ;;
            *) eval "env $marker TRIVIUM_SECRET=$secret ${line#StatefulSet }" >>out.pods 2>&1 & ;;
        esac
    done <pods
    ended $name 0 || return
    has_row 20 || { not_ok $name "not to the end"; return; }
    echo "ok $name"
}
kubernetes
