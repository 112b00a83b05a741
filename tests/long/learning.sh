#!/bin/bash
# Does it learn? nanoGPT's CPU configuration (published validation loss 1.88) on tiny Shakespeare, in three dimensions:
# 1.93 or less. DATA=path of the text. About ten minutes on two cores.
set -u -o pipefail
B=${BUILD:-build}
name="configs/shakespeare.ini on dp2 tp2 pp2 reaches validation loss 1.93"
if [ -z "${DATA:-}" ]; then
    echo "skip $name: give DATA=path of tinyshakespeare.txt"
    exit 0
fi
metrics=$(mktemp)
trap 'rm -f "$metrics"' EXIT
"$B/trivium" launch -n 8 train --config configs/shakespeare.ini --data "$DATA" --dp 2 --tp 2 --pp 2 \
    --metrics "$metrics" --log quiet || {
    echo "not ok $name: training failed"
    exit 1
}
loss=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' "$metrics" | tail -1)
if awk -v x="${loss:-9}" 'BEGIN { exit !(x <= 1.93) }'; then
    echo "ok $name ($loss)"
else
    echo "not ok $name: it is ${loss:-missing}"
fi
