#!/bin/bash
# A program without MPI (make MPI=0): what a machine runs that has none. Only its files for MPI are others than the
# build's. MPICC=mpicc.mpich: a program of that MPI instead, in a build of its own: unit tests, scripts, a killed rank,
# a request to save.
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

# ---- MPICC: another MPI ----
# Two ranks train without an end, until TERM comes after the first row of metrics. launch's code
asked_to_save() {
    rm -rf "$work/m" "$work/saved"
    "$mpi/trivium" launch -n 2 "${train[@]}" --log warn --dp 2 --steps 1000000 --metrics "$work/m" \
        --save "$work/saved" >"$work/said" 2>&1 &
    for ((i = 0; i < 600; i++)); do if [ -s "$work/m" ]; then break; fi; sleep 0.1; done
    kill -TERM $!
    wait $!
}
other_mpi() {
    local ranks i round code mpi train=(train --layers 1 --hidden 32 --heads 2 --seq 16 --global-batch 8)
    mpi=build-${MPICC##*[./]}
    command -v "$MPICC" >/dev/null || { echo "skip alone: no $MPICC; apt-get install mpich libmpich-dev"; return; }
    make -j"$(nproc)" MPICC="$MPICC" BUILD_NAME="$mpi" "$mpi/trivium" "$mpi/trivium-tests" >"$work/said" 2>&1 &&
        "$mpi/trivium" launch -n 2 preflight >>"$work/said" && grep -q "${OF_MPI:-MPICH} Version" "$work/said"
    report $? "a program of $MPICC: $(grep -m1 -o 'MPI.* Version:[^,]*' "$work/said")"
    for ranks in 1 2 4; do
        BUILD=$mpi TRIVIUM_NAPS=1 TEST_RANKS=$ranks TEST_PARTS=units TEST_NOT=tests/test_matrix tests/run \
            >"$work/said" 2>&1
        report $? "unit tests on $ranks ranks: $(tail -1 "$work/said")"
    done
    BUILD=$mpi TEST_FILES='tests/checkpoint.sh tests/comm.sh tests/train.sh' TEST_PARTS=scripts tests/run \
        >"$work/said" 2>&1
    report $? "scripts: $(tail -1 "$work/said")"
    cat >"$work/dies" <<END
#!/bin/bash
if [ "\$PMI_RANK" = 1 ]; then kill -KILL \$\$; fi
exec "$PWD/$mpi/trivium" "\$@"
END
    chmod +x "$work/dies"
    TRIVIUM_EXE=$work/dies "$mpi/trivium" launch -n 2 "${train[@]}" --log warn --dp 2 --metrics '' >"$work/said" 2>&1
    [ $? = 1 ] && grep -q '^E_COMM .* code 9: a rank was killed, by signal 9 ' "$work/said"
    report $? "an E_COMM line when a rank is killed"
    for round in 1 2 3 4 5 6 7 8; do # Hydra 4.0 reports 0 in about one of five
        asked_to_save
        code=$?
        if [ $code != 75 ] || [ ! -e "$work/saved/latest" ] || grep -q "ends with" "$work/said"; then break; fi
        round=all
    done
    [ "$round" = all ]
    report $? "a request to save, eight times: code $code, and a checkpoint"
    mkdir "$work/bin" && cat >"$work/bin/${MPICC/mpicc/mpirun}" <<END
#!/usr/bin/env python3
import os, signal, subprocess, sys
ranks = subprocess.Popen(["$(command -v "${MPICC/mpicc/mpirun}")", *sys.argv[1:]])
wanted = int(os.environ.get("INSTEAD", signal.SIGUSR1))
signal.signal(signal.SIGUSR1, lambda *_: ranks.send_signal(wanted))
sys.exit(0 * ranks.wait())
END
    chmod +x "$work/bin/"*
    PATH=$work/bin:$PATH asked_to_save
    [ $? = 75 ] && [ -e "$work/saved/latest" ]
    report $? "code 75 when mpirun says 0"
    INSTEAD=9 PATH=$work/bin:$PATH asked_to_save
    [ $? = 1 ] && grep -q '^E_COMM .* stopped by signal 15' "$work/said"
    report $? "code 1 when mpirun says 0, and the ranks were killed instead"
    "$mpi/trivium" launch -n 2 "${train[@]}" --dp 2 --data "$work/none" >"$work/said" 2>&1
    [ $? = 2 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -q 'E_DATA .* cannot open' "$work/said"
    report $? "a bad request: code 2, and one line"
}
if [ "${MPICC-}" ]; then other_mpi; exit; fi

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
