#!/bin/bash
# A power cut takes no name of what is saved: after each folder that is made, and each file that gets its name, the
# folder that it lies in is flushed, and a file that is written under its own name itself (tests/faultfs/faultfs.c notes
# the calls). Hidden names are of what is unfinished. Run from the project's root. BUILD: where the program is (default:
# build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! ${CC:-gcc} -O1 -Wall -Werror -shared -fPIC -o "$work/faultfs.so" tests/faultfs/faultfs.c -ldl; then
    echo "not ok durable: faultfs does not compile"
    exit 1
fi
cd "$work" || exit 1
head -c 4000 "$demo" >text.txt
export OMP_NUM_THREADS=1
durable() { # NAME COMMAND...
    local name=$1
    shift
    rm -f log
    find "$work" >before
    if ! FAULT_UNDER="$work" FAULT_LOG="$work/log" LD_PRELOAD="$work/faultfs.so" "$trivium" "$@" >out 2>err \
        </dev/null; then
        echo "not ok durable_$name: $(tail -1 err)"
        return
    fi
    python3 - "$name" <<'EOF'
import os, sys
before = set(open("before").read().split("\n"))
calls = [line.split(" ", 2)[1:] for line in open("log").read().splitlines()]
calls = [(call, os.path.abspath(path)) for call, path in calls]
made, missing = 0, []
for path in {p for call, p in calls if call in ("mkdir", "rename", "renameat2", "open", "open64", "fopen")} - before:
    name = os.path.basename(path)
    if name.startswith(".") or not os.path.exists(path) or "/." in path: continue
    first, made = [p for _, p in calls].index(path), made + 1
    if ("fsync", os.path.dirname(path)) not in calls[first:]: missing.append(path)
    if calls[first][0] not in ("mkdir", "rename", "renameat2") and ("fsync", path) not in calls[first:]:
        missing.append("what is in " + path)
print(f"not ok durable_{sys.argv[1]}: {missing or 'nothing is made'}" if missing or not made
      else f"ok durable_{sys.argv[1]}")
EOF
}
train=(train --data text.txt --layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --global-batch 2 --log quiet \
    --val-fraction 0 --metrics '' --threads 1)
durable folders_above "${train[@]}" --steps 2 --save deep/er/save
durable steps_set_aside "${train[@]}" --steps 1 --save deep/er/save
durable tokens data tokenize text.txt --to text.bin
durable clicks data synth-clicks --to clicks.bin --samples 10
durable export_into_a_folder checkpoint export deep/er/save --to hf new/
durable import checkpoint import --from hf new --to imported/one
mkdir llmc && durable export_of_a_file checkpoint export deep/er/save --to llmc llmc/model.bin
