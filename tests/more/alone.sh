#!/bin/bash
# A program without MPI (make MPI=0): what a machine runs that has none. Only its files for MPI are others than the
# build's.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
alone=$work/alone
unset TRIVIUM_COMM_TRANSPORT

report() { if [ "$1" = 0 ]; then echo "ok alone: $2"; else echo "not ok alone: $2"; sed 's/^/    /' "$work/said"; fi; }
losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1"; }
refused() { [ "$1" = 2 ] && grep -q "$2" "$work/said"; } # CODE WORDS

make MPI=0 BUILD_NAME="$alone" SHARED="$B/obj" OBJ="$B/obj" "$alone/trivium" "$alone/trivium-tests" >"$work/said" 2>&1
report $? "the program and its tests are linked"
! readelf -d "$alone/trivium" "$alone/trivium-tests" | tee "$work/said" | grep -q 'NEEDED.*libmpi'
report $? "they need no library of MPI"

train=(train --steps 3 --precision fp64 --log warn)
"$B/trivium" launch -n 4 "${train[@]}" --dp 2 --tp 2 --metrics "$work/with.jsonl" >"$work/said" 2>&1 &&
    "$alone/trivium" launch -n 4 "${train[@]}" --dp 2 --tp 2 --metrics "$work/without.jsonl" >>"$work/said" 2>&1 &&
    "$alone/trivium" "${train[@]}" --metrics "$work/serial.jsonl" >>"$work/said" 2>&1 &&
    [ "$(losses "$work/with.jsonl")" = "$(losses "$work/without.jsonl")" ] &&
    [ "$(losses "$work/serial.jsonl" | wc -l)" = 3 ]
report $? "launch starts four ranks by itself, whose losses are those over MPI; one rank trains"
BUILD=$alone TEST_LAUNCH=own TEST_NOT='lib/comm/direct lib/comm/membership' TEST_RANKS=4 TEST_PARTS=units \
    tests/run lib/comm/ >"$work/said" 2>&1
report $? "unit tests of lib/comm on 4 ranks (TEST_LAUNCH=own): $(tail -1 "$work/said")"

OMPI_COMM_WORLD_SIZE=8 "$alone/trivium" "${train[@]}" >"$work/said" 2>&1
refused $? 'OMPI_COMM_WORLD_SIZE=8: .* this build has no MPI; use trivium launch -n 8'
report $? "one of eight that mpirun has started does not train alone"
"$alone/trivium" launch -n 2 --comm-transport mpi train >"$work/said" 2>&1
refused $? 'comm-transport mpi, and this program was built without MPI; use direct'
report $? "--comm-transport mpi is refused"
TEST_LAUNCH=srun tests/run no-such-test >"$work/said" 2>&1
refused $? 'TEST_LAUNCH=srun; it is own or mpi'
report $? "TEST_LAUNCH is own or mpi"
