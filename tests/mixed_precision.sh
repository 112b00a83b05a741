#!/bin/bash
# What an fp16 run says of itself: skipped steps in the metrics and on the screen; and what is refused.
set -u -o pipefail
B=${BUILD:-build}
metrics=$(mktemp) lines=$(mktemp)
trap 'rm -f "$metrics" "$lines"' EXIT
small="--layers 1 --hidden 32 --heads 2 --seq 16 --global-batch 4 --warmup 2 --lr 1e-3 --val-fraction 0"

report() { if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; fi; }
row_has() { # ROW WORDS...   every word is in the row
    local row=$1 word
    shift
    for word in "$@"; do [[ $row == *"$word"* ]] || return 1; done
}

# The default scale, 2^32, is far too large: the first steps overflow and are skipped.
# shellcheck disable=SC2086
"$B/trivium" train $small --precision fp16 --steps 30 --metrics "$metrics" > "$lines"
report $? "an fp16 run from the default loss scale ends well"
row_has "$(head -1 "$metrics")" '"skipped":true' '"grad_norm":null' '"lr":0.0005' \
    '"loss_scale":4294967296.0' '"loss":5.'
report $? "the row of a skipped step has no norm, the rate that waits, and the scale that was too large"
last=$(tail -1 "$metrics")
row_has "$last" '"skipped":false' '"loss_scale":' && [[ $last =~ \"grad_norm\":[0-9] ]] && ! row_has "$last" 4294967296
report $? "the last row has a norm and a smaller scale"
grep -q '^step 1/30 .*| scale 4294967296 | skipped$' "$lines" && grep -q '^step 30/30 .*| scale [0-9]*$' "$lines"
report $? "a step's line shows scale and skipped"

message=$("$B/trivium" train --precision bf16 --loss-scale 128 --metrics "" 2>&1)
[ $? = 2 ] && [[ $message == *E_CONFIG*loss-scale=128*fp16* ]]
report $? "a loss scale without fp16 is refused"

# An lr of a million makes every later step overflow: the scale sinks to its minimum, and the run ends.
# shellcheck disable=SC2086
message=$("$B/trivium" train $small --precision fp16 --lr 1e6 --loss-scale-init 64 --steps 100 --metrics "" \
    --log quiet 2>&1)
[ $? = 1 ] && [[ $message == *E_NUMERIC*"in a row at loss scale 1,"* ]]
report $? "a run that could only skip ends with E_NUMERIC"
