#!/bin/bash
# Folders that others may write to: /dev/shm, TMPDIR and --save, as a stranger has prepared them. No file of ours is
# written through a link, nothing that is there keeps a job from its start or its end, and a stranger sees no job.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_SHARED_TEST=$$.$RANDOM
# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
chmod 755 "$work" && cd "$work" && mkdir -m 1777 tmp shm && mkdir home || exit 1
unset TRIVIUM_JOB
export TMPDIR=$work/tmp TRIVIUM_FLIGHT=$work/shm
own=trivium-$(id -u)
small=(train --device cpu --threads 1 --data "$demo" --layers 1 --hidden 8 --heads 1 --seq 8 --global-batch 2 \
    --val-fraction 0 --dp 2
    --metrics "")

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' err 2>/dev/null
}
fresh() { rm -rf shm tmp && mkdir -m 1777 shm tmp; }
job() {
    env "$marker" timeout -k 2 40 "$trivium" launch -n 2 --comm-transport direct "${small[@]}" "$@" \
        >out 2>err </dev/null
}
# A job of many steps that is asked to end when its records are there, and cannot save: it fails
fails() {
    : >out
    env "$marker" "$trivium" launch -n 2 --comm-transport direct "${small[@]}" --steps 1000000 >out 2>err </dev/null &
    job=$!
    wait_for 20 grep -q '^step 3/' out
    "$@"
    kill -TERM $job
    wait $job
}
records() { find tmp -path '*/flight.*' -name 'trivium.*' -type f | wc -l; }

# ---- what a job leaves is in a folder of the user's own ----
name=records_of_a_failed_job_are_the_users_alone
seen() { find shm -type f | wc -l >seen; stat -c '%a %U' "shm/$own" >mode; }
fails seen
if [ "$(cat seen)" = 2 ] && [ "$(cat mode)" = "700 $(id -un)" ] && [ "$(stat -c %a "tmp/$own")" = 700 ] &&
    [ "$(records)" = 2 ] &&
    [ "$(find shm -type f | wc -l)" = 0 ] && [ "$(find shm tmp -mindepth 1 -maxdepth 1)" = "shm/$own
tmp/$own" ]; then echo "ok $name"
else not_ok $name "$(cat seen mode) $(find shm tmp)"; fi

# ---- their number is bounded ----
name=records_of_failed_jobs_are_bounded
for i in $(seq 20); do mkdir -p "tmp/$own/flight.$i.0" && touch "tmp/$own/flight.$i.0/trivium.$i.0.0"; done
touch "tmp/$own/flight.20.0"
fails true
if [ "$(find "tmp/$own" -name 'flight.*' | wc -l)" = 16 ] && [ -d "tmp/$own/flight.20.0" ] &&
    [ "$(records)" = 17 ]; then echo "ok $name"
else not_ok $name "$(ls "tmp/$own")"; fi

# ---- FIFOs, folders, devices and links among the records ----
name=what_is_no_record_keeps_no_job_from_its_work
fresh
mkdir -m 700 "shm/$own"
for folder in shm "shm/$own"; do
    mkfifo -m 666 "$folder/trivium.evil" "$folder/trivium.1.2.0"
    ln -s /dev/zero "$folder/trivium.zero"
    ln -s "$work/home/precious" "$folder/trivium.link"
    mkdir "$folder/trivium.folder"
done
echo precious >home/precious
job --steps 1
code=$?
timeout -k 2 20 "$trivium" postmortem >post 2>&1
if [ $code = 0 ] && [ $? != 124 ] && grep -q 'has no flight record' post && [ ! -s err ]; then echo "ok $name"
else not_ok $name "code $code, $(cat post)"; fi
name=and_none_from_its_end
fails true
if [ "$(grep -c '^postmortem: ' err)" = 1 ] && [ "$(cat home/precious)" = precious ]; then echo "ok $name"
else not_ok $name "no verdict"; fi

# ---- a folder of checkpoints ----
name=a_lock_that_is_a_link_is_refused
fresh
mkdir save
ln -s "$work/home/precious" save/.lock
job --steps 1 --save save
code=$?
if [ $code = 1 ] && [ "$(grep -c E_ err)" = 1 ] && grep -q 'save/.lock: it is a symbolic link, .*--save' err &&
    [ "$(cat home/precious)" = precious ]
then echo "ok $name"; else not_ok $name "code $code"; fi
name=links_named_like_what_a_save_makes_are_removed
rm save/.lock
for link in .latest .probe-00000 .probe-00001 .step-00000001 .step-00000002; do ln -s "$work/home" save/$link; done
ln -sf "$work/home/precious" save/latest
job --steps 2 --save-every 1 --keep 1 --save save
code=$?
if [ $code = 0 ] && [ "$(cd save && echo .lock * .[^l]*)" = ".lock latest step-00000002 .[^l]*" ] &&
    [ ! -L save/latest ] && [ "$(cat home/precious)" = precious ]
then echo "ok $name"; else not_ok $name "code $code, $(ls -A save home)"; fi

# ---- as a stranger ----
if [ "$(id -u)" != 0 ] || ! setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    echo "skip stranger: not root"
    exit 0
fi
stranger() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
name=a_stranger_sees_no_job
fresh
look() { stranger find shm tmp >seen 2>/dev/null; stranger ls "shm/$own" >>seen 2>&1; }
fails look
if ! grep -qE 'trivium\.|flight\.|mpi\.' seen && grep -q denied seen; then
    echo "ok $name"
else
    not_ok $name "$(cat seen)"
fi

# A warning, and the job does its work; when it fails, its records are not kept
name=a_strangers_folder_is_refused
fresh
stranger mkdir -m 777 "shm/$own" "tmp/$own"
stranger ln -s "$work/home/precious" "shm/$own/trivium.x.0"
job --steps 2 --save "$work/home/save"
code=$?
if [ $code = 0 ] && [ -s home/save/latest ] && [ "$(grep -c '' err)" = 1 ] &&
    [ "$(stranger ls "shm/$own")" = trivium.x.0 ] &&
    grep -q "warning: no flight record: .*/shm/$own is another user.s (65534); .*TRIVIUM_FLIGHT" err; then
        echo "ok $name"
else not_ok $name "code $code"; fi
name=and_nothing_is_kept_there
rm -r "shm/$own"
fails true
if [ "$(grep -c 'the flight records are not kept: .*set TMPDIR' err)" = 1 ] && [ -z "$(stranger ls "tmp/$own")" ]; then
    echo "ok $name"
else not_ok $name "$(stranger ls "tmp/$own")"; fi
name=nor_open_mpis_files
env -u TRIVIUM_FLIGHT "$marker" timeout -k 2 60 "$trivium" launch -n 2 --comm-transport mpi "${small[@]}" --steps 1 \
    >out 2>err </dev/null
code=$?
if [ $code = 0 ] && [ -z "$(stranger ls "tmp/$own")" ] &&
    [ "$(grep -c "another user.s (65534): .*OMPI_MCA_orte_tmpdir_base" err)" = 1 ]; then
    echo "ok $name"
else not_ok $name "code $code"; fi
