# What the cases start from, in $F: made once, and only read. (tests/remedies_table.py runs this.)
# shellcheck shell=bash
cat >tiny.ini <<'INI'
layers = 1
hidden = 16
heads = 2
seq = 16
global-batch = 2
steps = 2
threads = 1
log = warn
INI
for i in $(seq 100); do echo "line $i of a text that is trained on"; done >text.txt
sed -n '1,20p' text.txt >short.txt
trivium data tokenize text.txt --to tokens.bin
trivium data tokenize text.txt --to megatron.bin --format megatron
trivium data synth-clicks --to clicks.bin --rows 50 --samples 200
trivium train --config tiny.ini --data "$F/text.txt" --save ck
trivium train --config tiny.ini --arch llama --data "$F/text.txt" --save ckl
cp "$ROOT/configs/demo.txt" demo.txt
