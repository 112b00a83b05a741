#!/bin/bash
# Training with optimizer states in files: within a limit on memory that they do not fit, with the same numbers; and
# what can happen to such files (no room, no folder, one that is shortened in the middle of training) is one line, no
# rank hangs, and the last checkpoint is whole.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_OFFLOAD=$$.$RANDOM # every process of a job has it in its environment, and so can be found

# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir files

model=(--device cpu --data "$demo" --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 8 --micro-batch 2 --zero 1)
disk=(--offload optimizer --offload-to disk --offload-path files --offload-window 0.2)
job() { # RANKS [ARGUMENTS...]
    local n=$1
    shift
    env "$marker" timeout 100 "$trivium" launch -n "$n" train "${model[@]}" --threads 1 --steps 6 --val-fraction 0 \
        --log warn "$@"
}
numbers() { grep -o '"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*' "$1"; } # FILE: what a run computed
key() { grep -o "\"$2\": *[0-9]*" "$1" | grep -o '[0-9]*$'; }              # FILE NAME: its values

# The same job without offload needs more than the limit and is refused; with it, all memory together stays below the
# states alone.
states_beyond_the_limit() {
    local name=states_beyond_the_limit limit states
    "$trivium" show memory "${model[@]}" --json >stays.json
    "$trivium" show memory "${model[@]}" "${disk[@]}" --json >moved.json
    states=$(key stays.json optim)
    limit=$(awk -v bytes=$(($(key moved.json total) + 65536)) 'BEGIN { printf "%.2f", bytes / 1048576 }')
    if [ "$(key moved.json optim)" != 0 ] || [ "$(key moved.json disk)" -lt "$states" ] ||
        [ "$(key moved.json host)" -ge $((states / 2)) ]
    then echo "not ok $name planned $(tr -d '\n ' <moved.json)"; return; fi
    job 1 --metrics stays.jsonl >out 2>&1 || { echo "not ok $name fails without a limit: $(head -1 out)"; return; }
    if job 1 --metrics none.jsonl --memory-limit "$limit" >out 2>&1 || ! grep -q "E_MEMORY.*memory-limit" out
    then echo "not ok $name is not refused without offload: $(head -1 out)"; return; fi
    job 1 --metrics moved.jsonl --memory-limit "$limit" "${disk[@]}" >out 2>&1 ||
        { echo "not ok $name $(head -1 out)"; return; }
    if [ "$(numbers stays.jsonl)" != "$(numbers moved.jsonl)" ] || [ "$(numbers moved.jsonl | wc -l)" != 6 ]
    then echo "not ok $name other numbers"; return; fi
    if [ "$(key moved.jsonl disk_read_bytes | sort -u)" != "$(key moved.json disk_read_bytes)" ] ||
        [ "$(key moved.jsonl disk_write_bytes | sort -u)" != "$(key moved.json disk_write_bytes)" ] ||
        ! grep -q disk_wait_ms moved.jsonl
    then echo "not ok $name the disk moved $(key moved.jsonl disk_read_bytes | sort -u), planned $(key moved.json \
        disk_read_bytes)"; return; fi
    "$trivium" show memory "${model[@]}" "${disk[@]}" >out
    if grep -q "disk: rank 0 reads $(key moved.json disk_read_bytes) and writes .* the disk must give [0-9.]* MB/s" out
    then echo "ok $name"; else echo "not ok $name says $(tail -3 out)"; fi
}

# refused NAME WORDS RANKS [ARGUMENTS...]: one line with these words, and no file is left
refused() {
    local name=$1 words=$2 code
    shift 2
    job "$@" >out 2>&1
    code=$?
    if [ $code = 0 ] || [ $code = 124 ] || [ "$(grep -c "E_" out)" != 1 ] || ! grep -Eq "$words" out
    then echo "not ok $name code $code: $(grep E_ out)"; return; fi
    if [ -n "$(ls files)" ]; then echo "not ok $name leaves $(ls files)"; else echo "ok $name"; fi
}

no_room() {
    local name=no_room_for_the_files code
    unshare -m true 2>/dev/null || { echo "skip $name no file system can be mounted here"; return; }
    unshare -m bash -c "mount -t tmpfs -o size=700k tmpfs files || exit 77
        $(declare -f job refused); $(declare -p model disk); trivium='$trivium' marker='$marker'
        refused $name 'E_IO.*offload-path=files has no room for .* MiB: No space left on device' 2 --dp 2 ${disk[*]}" \
            2>/dev/null
    code=$?
    [ $code != 77 ] || echo "skip $name no file system can be mounted here"
}

# The file of rank 1 is cut short while training runs, which its name can no longer do, but its process's descriptors
# can.
cut_file() {
    local fd pid
    pid=$(pids 1) || return 1
    for fd in /proc/"${pid%% *}"/fd/*; do
        case $(readlink "$fd") in *trivium-offload*) truncate -s 8192 "$fd" && return ;; esac
    done
    return 1
}
a_file_that_is_shortened() {
    local name=a_file_that_is_shortened code last same=(--dp 2 "${disk[@]}" --warmup 0 --lr 1e-3 --min-lr 1e-3)
    job 2 "${same[@]}" --steps 100000 --save broken --save-every 1 --metrics broken.jsonl --comm-timeout 20 >out 2>&1 &
    wait_for 60 test -e broken/latest && wait_for 20 cut_file
    wait $!
    code=$?
    if [ $code = 0 ] || [ $code = 124 ] || ! grep -q "rank 1/2.*E_IO.*the offload file in files ends at .*--resume" out
    then echo "not ok $name code $code: $(head -3 out)"; return; fi
    [ "$(grep -c E_ out)" = 1 ] || { echo "not ok $name says $(grep E_ out)"; return; }
    "$trivium" checkpoint inspect broken >inspected 2>&1 ||
        { echo "not ok $name the checkpoint: $(head -1 inspected)"; return; }
    last=$((10#$(sed 's/step-//' broken/latest) + 2))
    job 2 "${same[@]}" --steps $last --resume broken --metrics again.jsonl >out 2>&1 ||
        { echo "not ok $name $(head -1 out)"; return; }
    job 2 "${same[@]}" --steps $last --metrics whole.jsonl >out 2>&1 || { echo "not ok $name $(head -1 out)"; return; }
    if [ "$(numbers again.jsonl | wc -l)" = 2 ] && [ "$(numbers again.jsonl)" = "$(numbers whole.jsonl | tail -2)" ]
    then echo "ok $name"; else echo "not ok $name does not go on as it was: $(numbers again.jsonl)"; fi
}

states_beyond_the_limit
refused no_folder_for_the_files 'E_IO.*offload-path=nowhere: No such file.*give --offload-path' 2 \
    --dp 2 "${disk[@]}" --offload-path nowhere
refused no_path 'E_CONFIG.*needs a folder.*--offload-path' 2 --dp 2 --offload optimizer --offload-to disk
refused nothing_to_offload 'E_CONFIG.*offload=none leaves nothing.*offload optimizer' 2 --dp 2 --offload-to disk
(ulimit -f 6000 && trap '' XFSZ && refused files_of_a_limited_size 'E_IO.*has no room.*File too large' 2 --dp 2 \
    --hidden 320 "${disk[@]}")
no_room
a_file_that_is_shortened
