#!/bin/bash
# trivium demo, of a tree (make demo: 2 to 4 minutes on two cores, half of them to build) or installed: train a small
# GPT on real text across 8 ranks (dp2 x tp2 x pp2), show that one rank gets the same losses, and compare what the
# techniques do to memory and speed. Writes into OUT alone. The program says in TRIVIUM where it is.
set -u -o pipefail
usage='trivium demo [--out DIR]

A small GPT learns a story on 8 ranks and on one, with the same losses; then seven strategies are compared: what each
costs and saves. One to two minutes on two cores.
  --out DIR   where metrics and the report go (trivium-demo)'
refuse() { echo "trivium demo: $1" >&2 && exit 2; }
out=trivium-demo
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) echo "$usage" && exit 0 ;;
        --out=?*) out=${1#--out=} && shift ;;
        --out) [ -n "${2-}" ] || refuse "--out names no folder; use --out trivium-demo"
            out=$2 && shift 2 ;;
        *) refuse "$1 is no option of demo; use --out DIR, or trivium train, which takes the options of a run" ;;
    esac
done
configs=$(dirname "$0")
configs=${configs#"$PWD"/} trivium=${TRIVIUM#"$PWD"/}
mkdir -p "$out" || exit 1
if [ "$trivium" = "$TRIVIUM" ] && command -v trivium >/dev/null; then shown=trivium; else shown=$trivium; fi
layout="--dp 2 --tp 2 --pp 2"

run() { # run METRICS WORDS...   the lines of a run; stops the demonstration when it fails
    local metrics=$1
    shift
    echo "\$ $shown $*"
    "$trivium" "$@" --metrics "$out/$metrics" || exit 1
}
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$out/$1"; }

# compare A B EVERY LIMIT: the losses of two runs side by side; fails when they differ by more than LIMIT, relative. The
# largest difference is left in $out/demo-worst.
compare() {
    paste -d' ' <(losses "$1") <(losses "$2") | awk -v every="$3" -v limit="$4" -v worst_file="$out/demo-worst" '
        BEGIN { printf "%8s  %-18s  %-18s  %s\n", "step", "8 ranks", "1 rank", "relative difference" }
        { d = ($2 - $4) / $4; if (d < 0) d = -d; if (d > worst) worst = d; n++
          if (n == 1 || $1 % every == 0) printf "%8d  %.12f  %.12f  %.1e\n", $1, $2, $4, d }
        END { printf "%.0e\n", worst >worst_file
               if (n == 0 || worst > limit) {
                    printf "the losses differ: %.1e is more than %.1e\n", worst, limit; exit 1 } }'
}

echo "== A GPT on 8 ranks: two data parallel replicas x two tensor parallel halves x two pipeline stages"
# shellcheck disable=SC2086
run demo-8.jsonl launch -n 8 train --config "$configs/demo.ini" $layout |
    awk '!/^step/ || NR <= 5 || / [0-9]*[05]0\//' || exit 1

echo
echo "== The same on one rank"
run demo-1.jsonl train --config "$configs/demo.ini" | awk '!/^step/ || NR <= 5 || / [0-9]*[05]0\//' || exit 1

echo
echo "== Loss by loss. In fp32 the two add in another order, so the last digits drift apart:"
compare demo-8.jsonl demo-1.jsonl 50 1e-2 || exit 1

echo
echo "== In fp64 the same runs agree to rounding: it is one computation, laid out in two ways."
double="--precision fp64 --steps 10 --eval-every 0 --log quiet"
# shellcheck disable=SC2086
run demo-8-fp64.jsonl launch -n 8 train --config "$configs/demo.ini" $layout $double > /dev/null || exit 1
# shellcheck disable=SC2086
run demo-1-fp64.jsonl train --config "$configs/demo.ini" $double > /dev/null || exit 1
compare demo-8-fp64.jsonl demo-1-fp64.jsonl 2 1e-10 || exit 1

echo
echo "== What the techniques cost and save: the same ten steps under seven strategies, in one launch."
strategies="dp=8 | dp=8 zero=1 | dp=8 zero=3 | dp=2 tp=4 | dp=2 tp=4 sp | dp=2 tp=2 pp=2 | dp=2 tp=2 pp=2 \
recompute=full"
echo "\$ $shown launch -n 8 compare --config $configs/demo.ini --steps 10 --strategies \"$strategies\""
"$trivium" launch -n 8 compare --config "$configs/demo.ini" --steps 10 --strategies "$strategies" --out "$out/report" ||
    exit 1

echo
echo "Next: $shown show program --tp 2 | less        the model as a table, before and after each rewrite"
echo "      $shown show memory --config $configs/demo.ini --dp 2 --tp 2 --pp 2   where every byte goes"
echo "8 ranks and 1 rank: the same losses, to $(cat \
    "$out/demo-worst") in fp64. The comparison, with pictures: $out/report/report.html"
