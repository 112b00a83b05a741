#!/bin/bash
# tools/gpu-rented rehearsed: prepare, there and land on the emulated device; there killed at random moments; the
# programs for a GPU in a root that has no MPI, no BLAS and no network, up to the first call that needs a GPU.
#
# Run from the project's root, after SIMT=1 and CUDA=1 have been built. NAME: of those builds (default: build)
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
export BUILD_NAME=${NAME:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GPU_RENTED_PACK=$work/pack
unset GPU_CHECK_FILTER GPU_CHECK_LIMIT GPU_TREE

report() { if [ "$1" = 0 ]; then echo "ok gpu-rented: $2"; else
    echo "not ok gpu-rented: $2"; sed 's/^/    /' "$work/said"; fi; }
rented() { tools/gpu-rented "$@" >"$work/said" 2>&1; } # its exit code
said() { grep -qE "$1" "$work/said"; }
query() { # FILE EXPRESSION of r: is it true?  r: all, rows: by name
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1]))
rows = {x["row"]: x for x in r["rows"]}; sys.exit(not eval("(" + sys.argv[2] + ")"))' "$@"
}

rented there --device simt; [ $? = 2 ] && said 'make it where there is a network: tools/gpu-rented prepare'
report $? "without a pack there says how to make one"
rented prepare --device simt && said 'txz: [0-9.]+ MB, with the sources [0-9.]+ MB; ' &&
    said 'tools/gpu-rented there --out results --device simt'
report $? "prepare makes a pack and prints the call: $(sed -n 's/.*: \([0-9.]* MB, with .*\)/\1/p' \
    "$work/said" | head -1)"
rented there; [ $? = 2 ] && said 'is for --device simt'
report $? "a pack for the emulated device is not taken for a GPU's"

rm -r "$GPU_RENTED_PACK" # what travels is the archive

# ---- there, whole ----
rented there --device simt --limit 590 --out "$work/results"
[ $? = 3 ] &&
    query "$work/results/results.json" 'r["rehearsal"] and {x["result"] for x in r["rows"]} == {"passed", "not run"} and
    {n for n in rows if rows[n]["result"] == "not run"} <= {"machine", "torch-124m"} and len(rows) >= 24'
report $? "there runs every row within its limit; what needs a GPU or PyTorch is not run"
query "$work/results/results.json" 'len(rows["compare"]["data"]["strategies"]) == 6 and all(
    s["measured_total_bytes"] == s["predicted_total_bytes"] > 0
    for n in ("compare", "ranks-2", "ranks-4", "ranks-8") for s in rows[n]["data"]["strategies"])'
report $? "trivium compare on the device, on 1 to 8 ranks: bytes as predicted"
tar xzf "$work/results/results.tgz" -C "$work/pack" && cmp -s "$work/pack/results.json" "$work/results/results.json" &&
    [ -s "$work/pack/logs/compare.log" ]
report $? "the archive has results and logs"

"$GPU_RENTED_PACK/bin/trivium" train --steps 1000000 >/dev/null 2>&1 & # as one of a call that was killed
rented there --device simt --rows programs --out "$work/again" && kill $! && said '^programs +passed'
report $? "a program of the pack still runs: the pack is opened again all the same"

# ---- killed: a row is in the files before its line is printed ----
for n in 1 2 3; do
    out=$work/killed-$n
    tools/gpu-rented there --device simt --out "$out" >"$work/said" 2>&1 &
    pid=$!
    sleep "$((RANDOM % 12 + 3)).$((RANDOM % 10))"
    kill -9 $pid
    wait $pid 2>/dev/null
    finished=$(grep -cE '^[a-z0-9-]+ +(passed|not run|failed|out of time) ' "$work/said")
    query "$out/results.json" "len(rows) in ($finished, $finished + 1) and rows" && mkdir "$work/archive-$n" &&
        tar xzf "$out/results.tgz" -C "$work/archive-$n" &&
        query "$work/archive-$n/results.json" "len(rows) in ($finished, $finished + 1)"
    report $? "killed after $finished rows: these are in results.json and in the archive"
done
for _ in {1..20}; do pgrep -f "$work/killed-" >"$work/said" || break; sleep 0.2; done
[ ! -s "$work/said" ]
report $? "what it had started ends with it"
rented there --device simt --limit 160 --rows machine,programs,units-1 --out "$work/short"
query "$work/short/results.json" \
    'rows["units-1"]["result"] == "no time" and "its limit is 170 s" in rows["units-1"]["note"]'
report $? "a row whose limit does not fit into what is left is not begun"

# ---- other sources than the pack's: built there ----
rm "$GPU_RENTED_PACK.txz"
python3 - "$GPU_RENTED_PACK/pack.json" <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
json.dump({**p, "sources": "0" * 64}, open(sys.argv[1], "w"))
END
rented there --device simt --rows machine,programs,124m --out "$work/built" && false
said "programs +passed .* built here, .*the sources are others than the pack's" && said '124m +passed'
report $? "programs of other sources are not run: there builds"

# ---- land ----
rented land "$work/results"; [ $? = 2 ] && said 'these are of a rehearsal'
report $? "a rehearsal does not come into docs/benchmarks"
rented land "$work/results" --into "$work/landed" && grep -q '^\*\*A rehearsal\*\*' "$work"/landed/*.md &&
    grep -q '| ranks-8 | passed |' "$work"/landed/*.md
report $? "it lands elsewhere, labelled so, with no surprise"
cp docs/gpu.md "$work/gpu.md"
as_if() { # SCRIPT that changes rows: the results, as if a GPU had them
    mkdir -p "$work/gpu" && python3 - "$work/results/results.json" "$work/gpu/results.json" "$1" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
rows = {x["row"]: x for x in r["rows"]}
r.update(rehearsal=False, device="cuda", gpu="NVIDIA H100 80GB HBM3")
for m, p in r["predictions"].items():
    p["expected_ms"] = rows[m]["data"]["ms"] = 100
exec(sys.argv[3])
json.dump(r, open(sys.argv[2], "w"))
END
    rented land "$work/gpu" --into "$work/landed" --page "$work/gpu.md"
}
as_if 'rows["124m"]["data"].update(ms=104.25, tokens_per_s=630000, mfu=0.531)' &&
    ls "$work"/landed/*-nvidia-h100-80gb-hbm3.md >/dev/null &&
    grep -qE '^\| 124m \| passed \| 100 \| [0-9.]+ \| 104\.2 \| 630000 \| 53\.1% \|' "$work/gpu.md" &&
    grep -q '^NVIDIA H100 80GB HBM3, 20' "$work/gpu.md"
report $? "results of a GPU: expected, planned and measured next to each other, in docs/gpu.md, too"
as_if 'rows["350m"]["data"]["ms"] = 190.0'; [ $? = 1 ] && said '^surprise: 350m takes 190.0 ms, expected 100'
report $? "a time far from what was expected is a surprise, and the code is 1"
as_if 'rows["774m"]["data"]["bytes"]["measured"] += 256'; [ $? = 1 ] && said '^surprise: 774m: [0-9]+ bytes, predicted'
report $? "so is a byte"
as_if 'rows["smoke"].update(result="failed", note="WRONG")'; [ $? = 1 ] && said '^surprise: smoke failed: WRONG'
report $? "so is a row that failed"

# ---- a root without MPI, BLAS, network ----
cuda=$BUILD_NAME-cuda
if [ ! -x "$cuda/trivium" ]; then
    echo "skip gpu-rented-root there is no build for GPUs here (make check-more makes it where nvcc is)" && exit 0
fi
if ! unshare -mn true 2>/dev/null; then echo "skip gpu-rented-root may not make a root of its own here" && exit 0; fi
alone=$work/alone root=$work/root
mkdir -p "$alone" "$root"/{tmp,proc,dev,usr/bin,usr/lib,cuda,project}
for made in "$PWD/$cuda"/*; do [[ $made == */trivium* ]] || ln -s "$made" "$alone"; done # all but the programs
make MPI=0 CUDA=1 CUDA_ARCH=90 URING= SENTENCEPIECE= BUILD_NAME="$alone" SHARED="$BUILD_NAME/obj" \
    OBJ="$BUILD_NAME-simt/obj" "$alone/trivium" >"$work/said" 2>&1
report $? "the program for a GPU is linked without MPI"
needs() { ldd "$@" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p; s|^\s*\(/lib64/[^ ]*\) .*|\1|p' | sort -u; }
interpreter=$(readlink -f "$(python3 -c 'import sys; print(sys.executable)')")
libraries=$(needs "$alone/trivium" "$interpreter")
MPI=0 tools/gpu-pack "$work/tree" >"$work/said" 2>&1
code=$?
if [ $code != 0 ] && said 'could not download'; then
    echo "skip gpu-rented-root no packages can be had here" && exit 0
fi
report $code "tools/gpu-pack without MPI: $(sed -n 's/.*: \([0-9]* MB\) in.*/\1/p' "$work/said")"
# what the tree or CUDA bring is left out; so the rest of these is what any Linux has
for library in $libraries; do
    case $library in
        */libopenblas* | */libjansson* | */libinih* | */libxxhash* | */libpcre2-8* | */libutf8proc* | \
        */libyaml* | */libsodium* | \
        */libgfortran* | */libquadmath*) continue ;;
        */libcud* | */libcublas* | */libnccl*) continue ;;
    esac
    cp -L --parents "$library" "$root"
done
for name in bash env timeout dirname cat sed grep sort tr head tail date mkdir rm mv ls uname nproc; do
    path=$(readlink -f "$(command -v $name)") && cp "$path" "$root/usr/bin/$name"
    for library in $(needs "$path" 2>/dev/null); do [ -e "$root$library" ] || cp -L --parents "$library" "$root"; done
done
ln -s usr/bin "$root/bin"
cp --parents "$interpreter" "$root"
python=$(python3 -c 'import sys; print(sys.base_prefix + "/lib/python%d.%d" % sys.version_info[:2])')
(cd / && tar c --exclude=test --exclude=dist-packages --exclude=site-packages --exclude=__pycache__ "${python#/}") |
    tar x -C "$root"
python3 - "$python" <<'END' | while read -r library; do [ -e "$root$library" ] || cp -L --parents "$library" \
    "$root"; done
import glob, subprocess, sys
for so in glob.glob(sys.argv[1] + "/lib-dynload/*.so"):
    said = subprocess.run(["ldd", so], capture_output=True, text=True).stdout
    print(*[w for w in said.split() if w.startswith("/lib") or w.startswith("/usr/lib")], sep="\n")
END
git ls-files -z | xargs -0 cp --parents -t "$root/project"
pack=$root/project/build/gpu-rented
mkdir -p "$pack" && cp -r "$work/tree" "$pack/tree" && mkdir "$pack/bin" &&
    strip -o "$pack/bin/trivium" "$alone/trivium"
cp "$GPU_RENTED_PACK"/{predictions,curve}.json "$pack"
python3 - "$pack/pack.json" "$root/project" <<'END'
import json, sys
sys.path.insert(0, sys.argv[2] + "/tools")
sys.dont_write_bytecode = True
from rented import common
json.dump({"device": "cuda", "arch": "90", "commit": "rehearsed", "sources": common.hash_of_sources(),
           "date": common.now()}, open(sys.argv[1], "w"))
END
home=$(dirname "$(ldd "$alone/trivium" | sed -n 's|.*libcublasLt[^ ]* => \([^ ]*\) .*|\1|p')")
unshare -mn bash \
    -c 'mkdir -p "$1/usr/local/cuda/lib64" && mount --bind "$2" "$1/usr/local/cuda/lib64" &&
    mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" &&
    exec chroot "$1" /usr/bin/env -i PATH=/usr/bin /usr/bin/bash \
        -c "cd /project && $3 tools/gpu-rented there --out /tmp/results --rows machine,programs,124m"' \
    there "$root" "$home" "$interpreter" >"$work/said" 2>&1
said '^programs +passed .* the pack.s, commit rehearsed' && said '^124m +failed .*E_DEVICE'
report $? "in a root without MPI, BLAS and network the pack's program runs up to the first call that needs a GPU"
