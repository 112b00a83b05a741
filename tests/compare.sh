#!/bin/bash
# trivium compare as a whole: one launch of four ranks with rows that run, rows that cannot, and one that fails on the
# way; then requests that are refused before anything runs.
set -u -o pipefail
B=${BUILD:-build}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0} # MPI keeps what it allocates on the way
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
csv=$out/report/compare.csv json=$out/report/compare.json

ok() { echo "ok $*"; }
not_ok() {
    echo "not ok $*"
    sed 's/^/# /' "$out/stdout" "$out/stderr"
}
verdict() { if [ "$1" = 0 ]; then ok "$2"; else not_ok "$2"; fi; } # verdict STATUS NAME

model="--layers 4 --hidden 32 --heads 4 --seq 16 --dropout 0.1 --global-batch 12 --micro-batch 1 \
--precision fp64 --eps 1e-6"
strategies="dp=4 | dp=4 zero=3 | tp=2 pp=2 sp recompute=full | dp=1 threads=1 | dp=2 zero=1 offload=optimizer
    | dp=3 tp=4 | tp=3 | pp=4 micro-batch=5 | dp=2 hidden=512
    | dp=2 precision=fp32 lr=1e6 weight-decay=1e6 clip=0 steps=12 | dp=3 zero=2 schedule=gpipe"
# shellcheck disable=SC2086
"$B/trivium" launch -n 4 compare $model --steps 5 --memory-limit 8 --strategies "$strategies" --out "$out/report" \
    >"$out/stdout" 2>"$out/stderr"
[ $? = 1 ] && [ "$(grep -c E_ "$out/stderr")" = 1 ] &&
    grep -q 'E_NUMERIC.*1 of 11 strategies failed in training; the first, .*lr=1e6' "$out/stderr"
verdict $? "a comparison with a row that fails in training ends with its code and one line"

# cells COLUMN: one column of the CSV, a line a row; quoted cells may hold commas
cells() {
    awk -v column="$1" '{
        n = 0; rest = $0
        while (rest != "" || n == 0) {
            if (match(rest, /^"([^"]|"")*"/)) cell = substr(rest, 1, RLENGTH)
            else { match(rest, /^[^,]*/); cell = substr(rest, 1, RLENGTH) }
            value[++n] = cell; more = substr(rest, RLENGTH + 1, 1) == ","; rest = substr(rest, RLENGTH + 2)
            if (more && rest == "") value[++n] = ""
        }
        if (NR == 1) { for (i = 1; i <= n; i++) if (value[i] == column) at = i }
        else print column == "" ? n : value[at] }' "$csv"
}

[ "$(cells status | tr '\n' ' ')" = "ran ran ran ran ran refused refused refused refused failed ran " ]
verdict $? "rows run, are refused or fail as they should"

columns=$(head -1 "$csv" | tr ',' '\n' | wc -l)
[ "$(cells '' | sort -u)" = "$columns" ] && [ "$(cells '' | wc -l)" = 11 ]
verdict $? "the CSV has a line a row, and in each as many cells as columns"

[ "$(cells loss | grep -c .)" = 6 ] && cells loss | grep . |
    awk '{ if (NR == 1) first = $1; d = $1 / first - 1; if (d < 0) d = -d; if (!(d < 1e-10)) bad = 1 }
        END { exit bad || NR != 6 }'
verdict $? "all rows that ran have the same loss"

# predicted_X is followed by measured_X, in each row and for each rank: 6 rows and 4 4 4 1 2 3 ranks, 10 pairs each
pairs=$(sed -n 's/^ *"\(predicted\|measured\)_\([a-z]*\)_bytes": \([0-9]*\),$/\1 \2 \3/p' "$json" | awk '
    $1 == "predicted" { want[$2] = $3 }
    $1 == "measured" { n++; if (want[$2] != $3) { print "differ:", $2, want[$2], $3; exit 1 } }
    END { print n }')
[ "$pairs" = $(((6 + 18) * 10)) ]
verdict $? "predicted bytes are the measured bytes in every row, role and rank ($pairs)"

[ "$(cells ranks | tr '\n' ' ')" = "4 4 4 1 2      3 " ]
verdict $? "a strategy may use fewer ranks than the world"

cells error | sed -n 6p | grep -q 'E_CONFIG.*needs 12 ranks' && cells error | sed -n 7p | grep -q 'E_CONFIG.*tp=3' &&
    cells error | sed -n 8p | grep -q 'E_CONFIG.*micro-batch=5' && grep -q 'refused: E_CONFIG tp=3' "$out/stdout"
verdict $? "a refused row has its sentence"
cells error | sed -n 9p | grep -q 'E_MEMORY.*memory-limit is 8 MiB'
verdict $? "a row beyond the memory limit is not run"
cells error | sed -n 10p | grep -q 'E_NUMERIC'
verdict $? "a row that fails in training has its sentence, and the next one runs"
"$B/trivium" compare $model --steps 2 --threads 1 --out "$out/refused" --strategies "dp=1 | tp=3" \
    >"$out/stdout" 2>"$out/stderr"
[ $? = 0 ] && [ "$(grep -c E_ "$out/stderr")" = 0 ] && grep -q 'refused: E_CONFIG' "$out/stdout"
verdict $? "a comparison with refused rows ends well, and a row's reason is not reported a second time"

# refused CODE NAME WORDS OPTIONS...: exit code, one E_ line with all the words, no report
refused() {
    local code=$1 name=$2 words=$3 word got good=0
    shift 3
    "$B/trivium" compare $model --steps 2 "$@" >"$out/stdout" 2>"$out/stderr"
    got=$?
    [ "$got" = "$code" ] && [ "$(wc -l <"$out/stderr")" = 1 ] && [ ! -e "$out/none" ] || good=1
    for word in $words; do grep -qF -- "$word" "$out/stderr" || good=1; done
    verdict $good "$name"
}
refused 2 "an unknown key is a bad request" "E_USAGE strategy 2 zerro --zero" --out "$out/none" \
    --strategies "dp=1 | zerro=1"
refused 2 "a bad value is a bad request" "E_USAGE strategy 1 tp=x" --out "$out/none" --strategies "tp=x | dp=1"
refused 2 "nothing to compare is a bad request" "E_USAGE --strategies" --out "$out/none"
refused 1 "a report that cannot be written is refused before training" "E_IO /dev/null" --out /dev/null/report \
    --strategies "dp=1"

# The report that is there stays.
cp "$out/report/compare.csv" "$out/before.csv"
printf 'model = tiny\nsteps = 2\nglobal-batch = 2\nstrategies = tp=2 | tp=3\n' >"$out/compare.ini"
"$B/trivium" compare --config "$out/compare.ini" --out "$out/report" >"$out/stdout" 2>"$out/stderr"
code=$?
[ $code = 2 ] && [ "$(grep -c E_CONFIG "$out/stderr")" = 1 ] && cmp -s "$out/report/compare.csv" "$out/before.csv"
verdict $? "strategies may stand in the ini file; when none runs that is a bad request"
