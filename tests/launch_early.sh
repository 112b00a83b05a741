#!/bin/bash
# A table of what can be missing when launch starts. Each case trains, with code 0, or it says why not in one line, with
# another code: none is silent, and none hangs. With mpirun, with the direct transport, with elastic ranks and with
# restarts.
#
# Run from the project's root. BUILD: where the program is (default: build).
# shellcheck disable=SC2016 # the shell that a case starts expands them
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" && mkdir tmp || exit 1
export TMPDIR=$work/tmp
unset TRIVIUM_COMM_TRANSPORT
# shellcheck disable=SC2116 # of several lines one
train=$(echo train --device cpu --threads 1 --data "$demo" --layers 1 --hidden 8 --heads 1 --seq 8 \
    --global-batch 2 --steps 1 \
    --dp 2 --val-fraction 0 --metrics= --save "$work/save")

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    head -20 err | sed 's/^/#   /'
}
# What make leaves open would count as files
close_inherited='for ((fd = 3; fd < 100; fd++)); do eval "exec $fd>&-"; done'
# run NAME MUST SHELL: a line of the shell that ends with $launch $train; what its error has to say ("": it may work)
run() {
    local name=$1 must=$2 code errors
    rm -rf save
    # a pipe: a file's size may be limited
    launch=$launch train=$train timeout -k 2 60 bash -c "$close_inherited; $3" 2>&1 >/dev/null </dev/null | cat >err
    code=${PIPESTATUS[0]}
    errors=$(grep -cE '^(\[.*\] )?E_' err)
    case $code in
    0) [ -z "$must" ] || { not_ok "$name" "it works"; return; }
        if [ "$errors" != 0 ] || [ ! -s save/latest ]; then
            not_ok "$name" "code 0, and $errors errors or nothing saved"; return; fi ;;
    1 | 2) [ "$errors" = 1 ] || { not_ok "$name" "code $code, and $errors lines that say why"; return; }
        grep -qF -- "$must" err || { not_ok "$name" "it does not say \"$must\""; return; } ;;
    *) not_ok "$name" "code $code"; return ;;
    esac
    echo "ok $name"
}
# As root of a name space of its own, where a folder can have a file system of its own
with_mount() { # NAME MUST FOLDER OPTIONS
    if unshare -rm mount -t tmpfs -o "$4" none "$3" 2>/dev/null; then
        run "$1" "$2" "exec unshare -rm sh -c \"mount -t tmpfs -o $4 none $3 && exec \$launch \$train\""
    else
        echo "skip $1: without unshare and mount"
    fi
}

# all_of NAME NO_MPIRUN FEW_FILES NO_SHARED_MEMORY NO_TMPDIR LAUNCH_OPTIONS: with what its lines have to say
all_of() {
    local n k
    launch="$trivium launch -n 2 $6"
    run "$1_no_mpirun" "$2" 'PATH=/nonexistent exec $launch $train'
    for n in 4 6 8 10 11 12 13 14 16 24; do
        run "$1_$n-files" "$([ $n -gt 10 ] || echo "$3")" "ulimit -n $n; exec \$launch \$train"
    done
    for k in 100000 300000 400000; do run "$1_$k-kB" "" "ulimit -v $k; exec \$launch \$train"; done
    for k in 0 1 2000; do run "$1_files_of_$k-kB" "" "ulimit -f $k; exec \$launch \$train"; done
    run "$1_no_TMPDIR" "" 'TMPDIR=$TMPDIR/nowhere.$RANDOM exec $launch $train'
    run "$1_TMPDIR_cannot_be_written" "$5" 'TMPDIR=/proc exec $launch $train'
    run "$1_stdin_closed" "" 'exec $launch $train <&-'
    run "$1_stdout_closed" "" 'exec $launch $train >&-'
    run "$1_stdout_full" "" 'exec $launch $train >/dev/full'
    with_mount "$1_shared_memory_is_full" "$4" /dev/shm size=64k
    with_mount "$1_shared_memory_is_read_only" "" /dev/shm ro,size=64k
    with_mount "$1_TMPDIR_is_full" "$5" "$TMPDIR" size=16k
    with_mount "$1_no_proc" "/proc/self/exe" /proc size=64k
}
all_of mpirun "cannot run mpirun" "Open MPI needs" "Open MPI needs" "Open MPI needs" "--comm-transport mpi"
all_of own "" "ulimit -n" "" "" "--comm-transport direct"
all_of elastic "" "ulimit -n" "" "" "--comm-transport direct --elastic 1"
launch="$trivium launch -n 2 --comm-transport mpi --max-restarts 2"
run restarts_no_mpirun "cannot run mpirun" 'PATH=/nonexistent exec $launch $train'
