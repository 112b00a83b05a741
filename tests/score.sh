#!/bin/bash
# trivium score: of checkpoints that one rank saved, two ranks by table and two by row, the loss and the AUC are those
# of the training run's own evaluation, and the probabilities are the same, though no table is ever whole in memory.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() { echo "not ok score_reads_any_layout $*"; exit 1; }
run() { "$@" >log 2>&1 || fail "$*: $(grep E_ log | head -1)"; }
metric() { grep -o "\"$1\": *[0-9.e+-]*" "$2" | tail -1 | sed 's/.*: *//'; }

common=(--arch wide-deep --precision fp64 --hidden 6 --mlp-top 9-5 --global-batch 32 --log warn)
run "$trivium" data synth-clicks --to clicks.bin --samples 3000 --rows 40 --features 4 --bag 3 --dense 5
run "$trivium" data synth-clicks --to other.bin --samples 450 --rows 40 --features 4 --bag 3 --dense 5 --seed 2
for layout in "1 table" "2 table" "2 row"; do
    read -r n by <<<"$layout"
    name=$n-$by
    run "$trivium" launch -n "$n" train "${common[@]}" --data clicks.bin --val-data other.bin --steps 20 \
        --emb-by "$by" --save "$name" --metrics "$name.jsonl"
    run "$trivium" score "${common[@]}" --data other.bin --checkpoint "$name" --out "$name.txt"
    awk -v loss="$(metric val_loss "$name.jsonl")" -v auc="$(metric val_auc "$name.jsonl")" '/samples: loss/ {
        said_loss = $4 + 0; said_auc = $6 + 0; d = said_loss - loss; e = said_auc - auc
        exit !(loss > 0 && auc > 0 && d < 1e-10 && d > -1e-10 && e < 1e-10 && e > -1e-10) } END { if (!NR) exit 1 }' \
            log ||
        fail "$name: $(cat log), and training said $(tail -2 "$name.jsonl" | grep val_loss)"
    [ "$(wc -l <"$name.txt")" = 450 ] || fail "$name: $(wc -l <"$name.txt") probabilities of 450 samples"
done
paste 1-table.txt 2-row.txt | awk '{ d = $1 - $2; if (d > 1e-8 || d < -1e-8 || $1 <= 0 || $1 >= 1) exit 1 }' ||
    fail "probabilities differ"
"$trivium" score "${common[@]}" --data other.bin --checkpoint 2-row --hidden 8 >log 2>&1 &&
    fail "another model is scored"
grep -q "hidden is 6 there and 8 here" log || fail "another model: $(cat log)"

# Which model it is need not be said; the data of other tables are named.
run "$trivium" score "${common[@]:2}" --data other.bin --checkpoint 2-row --out unsaid.txt
cmp -s unsaid.txt 2-row.txt || fail "without --arch other probabilities"
run "$trivium" data synth-clicks --to larger.bin --samples 450 --rows 50 --features 4 --bag 3 --dense 5
"$trivium" score "${common[@]}" --data larger.bin --checkpoint 2-row >log 2>&1 && fail "ids of other tables are scored"
grep -q "larger.bin has ids of tables of 50 rows, and those of 2-row.* have 40; make the clicks with --rows 40" log ||
    fail "other tables: $(cat log)"
echo "ok score_reads_any_layout"
