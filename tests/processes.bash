# The processes of a job that a test has started, and no others: each has $marker, NAME=VALUE, in its environment. For
# tests to source. (tests/run runs *.sh.)
# shellcheck shell=bash disable=SC2013,SC2119,SC2120,SC2154

# What `launch` starts: mpirun, or its own agent (--comm-transport direct); and what its lines call it
starter=mpirun starter_name=mpirun
# shellcheck disable=SC2034 # used by scripts that source this
[ "${TRIVIUM_COMM_TRANSPORT-}" != direct ] || starter=agent starter_name="the agent"

# pids [RANK]: all of them, or the one of that rank. The kernel gives a zombie no environment.
pids() {
    local file
    for file in $(grep -lzxF -- "$marker" /proc/[0-9]*/environ 2>/dev/null); do
        [ $# = 0 ] || grep -qzxF "OMPI_COMM_WORLD_RANK=$1" "$file" 2>/dev/null || continue
        file=${file%/environ}
        echo "${file#/proc/}"
    done
}

# pids_of WORD: those with this word in their command line, but not the guard that launch starts for it
pids_of() {
    local pid
    for pid in $(pids); do
        grep -qx trivium-guard "/proc/$pid/comm" 2>/dev/null && continue
        if grep -qzxF -- "$1" "/proc/$pid/cmdline" 2>/dev/null; then echo "$pid"; fi
    done
}

end_all() {
    local left
    left=$(pids)
    # shellcheck disable=SC2086 # several
    [ -z "$left" ] || kill -KILL $left 2>/dev/null
}

# pause SECONDS: as sleep, without a process: no byte comes through this pipe. It is opened each time, so that no rank
# inherits it.
mkfifo "${work:?}/never"
pause() { read -rt "$1" <>"$work/never" || true; }

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || return 1
        pause "${wait_step:-0.1}"
    done
}
# has_row_in METRICS STEP, without another program, as it is asked often
has_row_in() { [[ $'\n'$(<"$1") == *$'\n{"step":'"$2",* ]]; } 2>/dev/null
is_alone() { [ -z "$(pids)" ]; }
