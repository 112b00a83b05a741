#!/bin/bash
# tools/cluster-check on two ranks of this machine: what it finds right, that it sees a layout whose losses are not the
# serial run's and one that fails, and what it refuses. Under a real Slurm: tests/slurm.sh.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
B=$(cd "${BUILD:-build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SLURM_JOB_ID SLURM_NTASKS
export BUILD=$B

report() {
    if [ "$1" = 0 ]; then echo "ok cluster-check: $2"; else echo "not ok cluster-check: $2" && sed 's/^/    /' \
        "$work/said"; fi
}
check() { tools/cluster-check "$@" >"$work/said" 2>&1; } # its exit code
refused() { # WORDS OPTIONS...
    local words=$1
    shift
    check "$@"
    [ $? = 2 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -q "^cluster-check: .*$words" "$work/said"
    report $? "refused: $*"
}

if [ "$B" = "$PWD/build" ] && ! env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s \
    bench-collectives >"$work/said" 2>&1; then
    report 1 "bench-collectives is built" && exit
fi
[ -x "$B/bench-collectives" ] || { echo "skip cluster-check: no $B/bench-collectives (make bench-collectives)"; exit; }

refusals() {
    refused 'no number of ranks; say -n with 2' --short
    refused '1 ranks; say -n with 2' -n 1
    refused 'device gpu; it is cpu or cuda' -n 2 --device gpu
    refused 'start no-such-start -x: there is no no-such-start here' -n 2 --start 'no-such-start -x'
    refused 'start launch -v: there is no launch here' -n 2 --start 'launch -v'
    refused 'has a comma' -n 2 --to "$work/a,b"
    [ ! -e "$work/a,b" ]
    report $? "no folder with a comma is made"
    refused '11 ranks: 2, 3, 5 or 7 has to divide them, .*; use -n 10$' -n 11 --to /proc/none
    refused '9797 ranks: .* use -n 9796$' -n 9797 --to /proc/none
    refused 'no option --frob' --frob
    refused '-n has no value' -n
    refused 'cannot be written' -n 2 --to /proc/none
    (BUILD=$work refused 'no .*/trivium; make build bench-collectives' -n 2)
    # Sizes without a number for each rank; what the refusal advises works
    local sizes advice
    for sizes in '--smallest 4 --largest 4' '--smallest 4 --largest 15' '--smallest 1024 --largest 8'; do
        collectives "$sizes"
        local code=$?
        advice=$(sed -n 's/.*use \(--smallest [0-9]* --largest [0-9]*\), or larger ones$/\1/p' "$work/said")
        [ $code = 2 ] && if [ "$advice" ]; then
            collectives "$advice"
        else
            grep -q 'smallest=1024 is above largest=8' "$work/said"
        fi
        report $? "collectives: $sizes"
    done
}
collectives() { # OPTIONS
    mkdir -p "$work/tables"
    # shellcheck disable=SC2086 # several words
    TRIVIUM_EXE=$B/bench-collectives "$B/trivium" launch -n 5 --comm-transport direct collectives --samples 1 \
        --to "$work/tables" $1 >"$work/said" 2>&1
}
# Programs that end well and say nothing: no part is right. BUILD and --to count from the caller's folder
stubs() {
    local root=$PWD
    mkdir -p "$work/caller/stubs" && cd "$work/caller" && printf '#!/bin/sh\n' >stubs/trivium && chmod +x stubs/trivium
    cp stubs/trivium stubs/bench-collectives
    BUILD=stubs "$root/tools/cluster-check" -n 2 --start direct --to here >"$work/said" 2>&1
    [ $? = 1 ] && [ "$(ls)" = "$(printf 'here\nstubs')" ] && [ -e here/plan.txt ]
    report $? "paths count from the caller's folder"
    [ "$(grep -c '^WRONG losses' here/report.txt)" = 10 ] && grep -q '^WRONG collectives' here/report.txt &&
        grep -q '^WRONG compare  *none of 10 ran' here/report.txt &&
        grep -q '^WRONG plan  *0 figures of cpu-2core are the measured ones' here/report.txt
    report $? "what says nothing is not right"
    cd "$root" || exit 1
}
right() {
    check -n 2 --start direct --short --to "$work/right" &&
        [ "$(grep -c '^ok    losses .*at most 1e-10$' "$work/said")" = 10 ] &&
        grep -q '^ok    compare  *10 of 10 ran' "$work/said" && ! grep -q '^WRONG' "$work/said"
    report $? "two ranks: ten layouts within 1e-10 of the serial losses, and compare runs them"
    grep -q '^node .* GB/s, measured: .*/all_reduce.txt, .*/sendrecv.txt (was ' "$work/right/plan.txt" &&
        "$B/trivium" plan --cluster cpu-2core --measured "$(cat "$work/right/measured")" --gpus 2 >"$work/said" 2>&1
    report $? "plan takes what was measured"
    # The formulas of nccl-tests: bytes, time, algbw, busbw
    local pair bad=''
    for pair in all_reduce:1 all_gather:0.5 reduce_scatter:0.5 alltoall:0.5 sendrecv:1 broadcast:1 reduce:1; do
        awk -v factor="${pair#*:}" '/^ *[0-9]/ { n++; a = $1 / $6 / 1e3; b = factor * a
            if ((a - $7) ^ 2 > (0.02 * a + 1e-4) ^ 2 || (b - $8) ^ 2 > (0.02 * b + 1e-4) ^ 2) wrong++ }
            END { exit !(n == 8 && wrong == 0) }' "$work/right/${pair%:*}.txt" 2>"$work/said" || bad+=" $pair"
    done
    [ -z "$bad" ]
    report $? "eight sizes of seven operations, with the bandwidths that nccl-tests would print$bad"
}
wrong() {
    # A build whose zero=2 has other losses, whose zero=3 ends with code 1, whose pipelines end early, and whose
    # collectives fail; in a folder with a table of an earlier check, and a file of the user's
    mkdir "$work/wrong" "$work/bad" && cp "$work/right/all_reduce.txt" "$work/bad" 2>"$work/said" ||
        touch "$work/bad/all_reduce.txt"
    touch "$work/bad/mine.log"
    printf '#!/bin/sh\nexit 1\n' >"$work/wrong/bench-collectives" && cat >"$work/wrong/trivium" <<END
#!/bin/bash
case "\$1 \$*" in
    train*--schedule\ interleaved*) exec "$B/trivium" "\$@" --steps 2 ;;
    train*--zero\ 2*) exec "$B/trivium" "\$@" --lr 5.00001e-4 ;;
    train*--zero\ 3*) "$B/trivium" "\$@" && exit 1 ;;
esac
exec "$B/trivium" "\$@"
END
    chmod +x "$work/wrong/"*
    BUILD=$work/wrong check -n 2 --start direct --short --to "$work/bad"
    [ $? = 1 ] && [ "$(grep -c "^WRONG losses" "$work/said")" = 3 ] &&
        grep -q "^WRONG losses  *dp=2 zero=2: off" "$work/said" &&
        grep -q "^WRONG losses  *dp=2 zero=3: ended with code 1" "$work/said" &&
        grep -q '^WRONG losses .*schedule=interleaved' "$work/said" && grep -q '^WRONG' "$work/bad/report.txt"
    report $? "a layout with other losses, one that fails, and one with too few steps are wrong"
    grep -q "^WRONG collectives  *ended with code" "$work/said" && grep -q "^WRONG plan" "$work/said" &&
        [ ! -e "$work/bad/all_reduce.txt" ] && [ -e "$work/bad/mine.log" ]
    report $? "a plan takes no table of an earlier check, and other files stay"
    (cd tools && ./cluster-check --help) >"$work/said" 2>&1 && grep -q '^ *--short' "$work/said"
    report $? "help, from another folder"
}
# ONLY: one of these
for part in ${ONLY:-refusals stubs right wrong}; do $part; done
