#!/bin/bash
# configs/trivium.sbatch, with stand-ins for Slurm's commands: what it starts, when it starts it again, when it has
# itself queued, when it gives up. Run from the project's root.
set -u -o pipefail
script=$PWD/configs/trivium.sbatch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin
# srun: what the next line of `plan` says: save (a new checkpoint), wait (for USR1, then save), and the exit code. Its
# words go to `calls`.
cat >bin/srun <<'END'
#!/bin/bash
echo "$*" >>calls
n=$(grep -c '' calls)
save() { mkdir -p ckpt; printf 'step-%08d\n' "$n" >ckpt/new; mv ckpt/new ckpt/latest; }
for word in $(sed -n "${n}p" plan); do
    case $word in
        save) save ;;
        wait) trap 'save; exit 75' USR1; : >ready; for ((i = 0; i < 500; i++)); do sleep 0.02; done; exit 99 ;;
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
    PATH=$work/bin:$PATH SLURM_JOB_ID=77 SAVE=ckpt BACKOFF=0 exec bash "$script" --seed 5 >out 2>&1
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
(begin wait) &
for ((i = 0; i < 500; i++)); do if [ -e ready ]; then break; fi; sleep 0.02; done
kill -TERM $!
wait $!
judge sbatch_time_is_up $? 0 1 "requeue 77"
