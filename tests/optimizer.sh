#!/bin/bash
# SGD and Muon from the command line: what holds for AdamW in every layout holds for them, too. Layouts and offloads
# make the losses of one rank; a run goes on from a checkpoint, to the bit in the same layout, and in another one;
# another optimizer's checkpoint, and options that are not read, are refused in a line.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir disk

common=(--layers 4 --hidden 32 --heads 4 --seq 16 --global-batch 8 --val-fraction 0 --precision fp64 --optimizer sgd
    --lr 0.1 --log warn)
# losses NAME RANKS OPTIONS: step and loss of each line, to 12 digits
losses() {
    local name=$1 n=$2
    shift 2
    "$trivium" launch -n "$n" train "${common[@]}" --metrics "$name.jsonl" "$@" >log 2>&1 || {
        grep -m1 E_ log
        return 1
    }
    sed -nE 's/^\{"step":([0-9]+),.*"loss":([0-9.]+).*/\1 \2/p' "$name.jsonl" | awk '{ printf "%d %.11f\n", $1, $2 }'
}
same() {                                              # NAME EXPECTED: the losses on stdin are these
    local got
    got=$(cat)
    if [ -n "$got" ] && [ "$got" = "$2" ]; then echo "ok $1"
    else echo "not ok $1: $(tr '\n' ' ' <<<"$got"), not $(tr '\n' ' ' <<<"$2")"; fi
}
refused() {                                           # NAME WORDS COMMAND...
    local name=$1 words=$2
    shift 2
    if "$@" >log 2>&1; then echo "not ok $name: not refused"
    elif grep E_ log | grep -qF -- "$words"; then echo "ok $name"
    else echo "not ok $name: $(grep -m1 E_ log)"; fi
}

one=$(losses one 1 --steps 4)
plain=$(losses plain 1 --steps 4 --momentum 0)
[ "$one" != "$plain" ] && echo "ok sgd_momentum_is_read" || echo "not ok sgd_momentum_is_read: $one"
losses guess 2 --steps 4 --pp 2 --micro-batch 1 --schedule zb-2p --optim-sync validate --clip 1 |
    same sgd_guesses_as_one_rank "$one"
losses disk 2 --steps 4 --dp 2 --zero 1 --offload optimizer --offload-to disk --offload-path disk |
    same sgd_offloads_to_disk "$one"
losses none 2 --steps 4 --dp 2 --zero 3 --offload params --offload-to disk --offload-path disk --momentum 0 |
    same sgd_without_states_offloads "$plain"
unclipped=$(losses unclipped 1 --steps 4 --clip 0)
losses ssp 2 --steps 4 --dp 2 --servers 1 --server-ranks own --server-mode ssp --clip 0 |
    same sgd_of_a_server_is_that_of_one_rank "$unclipped"

losses begun 1 --steps 4 --save ck --save-every 2 --keep 0 >begun || echo "not ok sgd_saves: $(cat begun)"
losses went 4 --steps 4 --dp 2 --tp 2 --zero 2 --resume ck/step-00000002 |
    same sgd_goes_on_in_another_layout "$(tail -2 <<<"$one")"
losses from 1 --steps 4 --momentum 0 --save ck0 >begun || echo "not ok sgd_saves: $(cat begun)"

resume=("$trivium" train "${common[@]:0:12}" --val-fraction 0 --steps 5 --log warn)
refused adamw_does_not_go_on_from_sgd "trained by sgd-momentum, and this run is by adamw" "${resume[@]}" --resume ck
refused sgd_without_momentum_does_not_go_on_from_it "this run is by sgd," \
    "${resume[@]}" --optimizer sgd --momentum 0 --resume ck
refused sgd_does_not_go_on_without_its_momentum "trained by sgd, and this run is by sgd-momentum" \
    "${resume[@]}" --optimizer sgd --resume ck0
refused sgd_reads_no_beta "beta1 is read by optimizer=adamw" "${resume[@]}" --optimizer sgd --beta1 0.9
refused adamw_reads_no_momentum "momentum is read by optimizer=sgd" "${resume[@]}" --momentum 0.9
refused adamw_plans_no_momentum "momentum is read by optimizer=sgd" \
    "$trivium" show memory --params 1e9 --momentum 0.9
refused the_oracle_follows_adamw "the oracle follows the moments of AdamW alone" \
    "$trivium" oracle record --out rec --optimizer sgd
refused sgd_without_momentum_has_nothing_to_offload "no states to offload; use offload none" \
    "$trivium" launch -n 2 train "${common[@]}" --steps 1 --dp 2 --momentum 0 --zero 1 --offload optimizer
refused tables_are_not_by_sgd "rowwise Adagrad" \
    "$trivium" show memory --arch dlrm --features 2 --bag 2 --dense 2 --optimizer sgd

bytes=$("$trivium" show memory --params 1e9 --dp 1 --precision bf16 --optimizer sgd --json |
    sed -n 's/.*"optim": \([0-9]*\).*/\1/p')
if [ "$bytes" = 8000000000 ]; then echo "ok sgd_keeps_8_bytes_a_parameter"
else echo "not ok sgd_keeps_8_bytes_a_parameter: $bytes"; fi

# ---- Muon ----
common=("${common[@]/sgd/muon}")
common=("${common[@]/0.1/0.01}")
digits() { grep -o '"loss":[0-9.]*' "$1.jsonl" | tail -n 2; }   # NAME: all digits of two losses
muon=$(losses muon 1 --steps 4)
losses both 4 --steps 4 --dp 2 --tp 2 --zero 1 --save mk --save-every 2 --keep 0 | same muon_is_that_of_one_rank "$muon"
losses stages 4 --steps 4 --pp 2 --dp 2 --micro-batch 1 --zero 2 | same muon_of_stages_is_that_of_one_rank "$muon"
losses again 4 --steps 4 --dp 2 --tp 2 --zero 1 --resume mk/step-00000002 >begun
[ -s begun ] && [ "$(digits again)" = "$(digits both)" ] && echo "ok muon_goes_on_to_the_bit" ||
    echo "not ok muon_goes_on_to_the_bit: $(cat begun)"
losses alone 1 --steps 4 --resume mk/step-00000002 | same muon_goes_on_on_one_rank "$(tail -2 <<<"$muon")"
losses sharded 4 --steps 4 --dp 4 --zero 3 --resume mk/step-00000002 |
    same muon_goes_on_in_another_layout "$(tail -2 <<<"$muon")"
resume=("$trivium" train "${common[@]:0:12}" --val-fraction 0 --steps 5 --log warn)
refused adamw_does_not_go_on_from_muon "trained by muon, and this run is by adamw" "${resume[@]}" --resume mk
refused muon_does_not_go_on_from_sgd "trained by sgd-momentum, and this run is by muon" \
    "${resume[@]}" --optimizer muon --resume ck
refused sgd_reads_no_muon_steps "use optimizer muon" "${resume[@]}" --optimizer sgd --muon-steps 3

# ---- the bias of routers, which moves by the load ----
common=("${common[@]/muon/adamw}" --arch moe --experts 4 --router-scores sigmoid --router-bias-rate 0.05 --tie off)
moved=$(losses moved 1 --steps 4)
losses steps 2 --steps 4 --dp 2 --zero 1 --save bk --save-every 2 --keep 0 | same bias_is_that_of_one_rank "$moved"
losses again 2 --steps 4 --dp 2 --zero 1 --resume bk/step-00000002 | same bias_goes_on "$(tail -2 <<<"$moved")"
losses other 4 --steps 4 --tp 2 --ep 2 --dp 2 --resume bk/step-00000002 |
    same bias_goes_on_in_another_layout "$(tail -2 <<<"$moved")"
losses redone 2 --steps 4 --pp 2 --micro-batch 1 --schedule zb-2p --optim-sync validate --clip 0.1 >redone
losses waited 1 --steps 4 --clip 0.1 | same bias_of_a_wrong_guess_is_that_of_one_rank "$(cat redone)"
still=$(losses still 1 --steps 4 --router-bias-rate 0)
[ "$(head -1 <<<"$moved")" = "$(head -1 <<<"$still")" ] && [ "$moved" != "$still" ] && echo "ok bias_moves" ||
    echo "not ok bias_moves: $still"
