# The stages of tools/gpu-check but the models (gpt.sh). Sourced; uses its variables: device, name, build, dir, NOT_RUN.
# shellcheck shell=bash disable=SC2154

# ---- what stages use ----
quote() { # TEXT as a JSON string
    local text=${1//\\/\\\\}
    printf '"%s"' "$(tr -s '\000-\037' ' ' <<<"${text//\"/\\\"}" | sed 's/ *$//')"
}
# KEY FILE: its first value; FILE has a line a key, or one object a line
number() { sed -n "s/.*\"$1\": *\\([^,} ]*\\).*/\\1/p" "$2" | head -1; }
commit() {
    local at=${GPU_CHECK_COMMIT-}
    [ -z "$at" ] || { echo "$at"; return; }
    at=$(git rev-parse --short HEAD 2>/dev/null) || { echo unknown; return; }
    git diff --quiet HEAD -- . ':!docs' 2>/dev/null || at+=-changed
    echo "$at"
}
note() { echo "$*" | tee "$dir/$current.note"; }
not_run() { note "$*"; exit "$NOT_RUN"; }
needs_gpu() {
    [ "$device" = cuda ] || not_run "no GPU (rehearsal)"
    [ "$(gpu_count)" -gt 0 ] || not_run "no GPU"
}
needs_build() { [ -x "$build/trivium" ] && [ -x "$build/trivium-tests" ] ||
    { note "nothing is built: tools/gpu-check build"; exit 1; }; }
gpu_count() { nvidia-smi -L 2>/dev/null | grep -c '^GPU'; }
gpu_query() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | head -1; }
python_with_torch() { # prints a python that has torch and, on a GPU, sees it
    local python
    for python in ${PYTHON:-python3 python}; do
        # what the build needs in LD_LIBRARY_PATH is not for PyTorch, which brings its own
        LD_LIBRARY_PATH=$path_before "$python" \
            -c "import torch; assert '$device' == 'simt' or torch.cuda.is_available()" 2>/dev/null &&
            echo "$python" && return
    done
    return 1
}

# Everything that runs inside a stage begins here.
inside() {
    current=$1 path_before=${LD_LIBRARY_PATH-}
    local tree=${GPU_TREE:-$name/gpu-tree}
    [ -x /usr/local/cuda/bin/nvcc ] && PATH=$PATH:/usr/local/cuda/bin
    if { ! command -v mpicc >/dev/null || [ -n "${GPU_TREE-}" ]; } && [ -f "$tree/env.sh" ]; then . "$tree/env.sh"; fi
    if [ -f "$dir/libraries.sh" ]; then . "$dir/libraries.sh"; fi
    case $current in
        units-*) stage_units "${current#units-}" ;;
        memcheck | racecheck | synccheck) stage_sanitizer "$current" ;;
        bench-kernels) stage_kernels ;;
        bench-*) stage_model "${current#bench-}" ;;
        *) "stage_$current" ;;
    esac
}

# ---- machine ----
# Of the toolkit; else of Python's package, whose headers are found when the program is built.
header_version() { # PACKAGE HEADER MACROS...: 9.19.0
    local package=$1 header=$2 macro out=
    shift 2
    if ! includes "$header"; then
        "${PYTHON:-python3}" -c 'import importlib.metadata as m, sys
print(next((d.version for d in m.distributions() if (d.metadata["Name"] or "").startswith(sys.argv[1])), "none"))' \
    "$package" 2>/dev/null || echo none
        return
    fi
    for macro in "$@"; do
        out+=.$(printf '#include <%s>\n%s\n' "$header" "$macro" | gcc -E -P -I"$cuda_home/include" -x c - \
            2>/dev/null | tail -1)
    done
    echo "${out#.}"
}
stage_machine() {
    local gpu cuda_home nvcc versions torch
    nvcc=$(command -v nvcc) && cuda_home=$(dirname "$(dirname "$(readlink -f "$nvcc")")") || cuda_home=/usr/local/cuda
    gpu=$(gpu_query name)
    rm -f "$dir/gpu-name"
    [ "$device" = cuda ] && [ -n "$gpu" ] && echo "$gpu" >"$dir/gpu-name"
    versions="CUDA $("${nvcc:-nvcc}" --version 2>/dev/null |
        sed -n 's/.*release \([0-9.]*\),.*/\1/p'), cuDNN $(header_version nvidia-cudnn cudnn_version.h \
        CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL), NCCL $(header_version nvidia-nccl nccl.h NCCL_MAJOR NCCL_MINOR \
        NCCL_PATCH), $(mpicc --showme:version 2>/dev/null |
        sed 's/.*\(Open MPI [0-9.]*\).*/\1/')"
    torch=$(python=$(python_with_torch) &&
        LD_LIBRARY_PATH=$path_before "$python" -c 'import torch; print(torch.__version__)') || torch=none
    nvidia-smi
    lscpu
    gcc --version | head -1
    printf '{"gpu": %s, "gpus": %d, "memory_mib": %s, "driver": %s, "compute_capability": %s, "versions": %s, '\
'"pytorch": %s, "cpu": %s, "cores": %d, "kernel": %s}\n' \
        "$(quote "$gpu")" "$(gpu_count)" "$(quote "$(gpu_query memory.total)")" \
        "$(quote "$(gpu_query driver_version)")" \
        "$(quote "$(gpu_query compute_cap)")" "$(quote "$versions")" "$(quote "$torch")" \
        "$(quote "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)")" "$(nproc)" "$(quote "$(uname -sr)")" \
        >"$dir/machine.data.json"
    note "${gpu:-no GPU}${gpu:+ x $(gpu_count), driver $(gpu_query \
        driver_version)}, $versions, PyTorch $torch, $(nproc) cores"
    [ -n "$gpu" ] || exit "$NOT_RUN"
}

# ---- build ----
# The toolkit may lack cuBLASLt, cuDNN or NCCL, and Python's packages (which PyTorch brings) have them, without the
# names that a linker looks for. What is found there is written to DIR/libraries.sh.
links() { echo 'int main(void) { return 0; }' | gcc -x c - -o /dev/null -L"$cuda_home/lib64" "-l$1" 2>/dev/null; }
includes() { echo "#include <$1>" | gcc -x c -E - -o /dev/null -I"$cuda_home/include" 2>/dev/null; }
find_library() { # LIBRARY HEADER
    local folder packages so
    if links "$1" && includes "$2"; then return; fi
    packages=$("${PYTHON:-python3}" -c 'import site, sys; print(*[p for p in sys.path if p.endswith("-packages")])' \
        2>/dev/null)
    for folder in $packages; do
        so=$(find "$folder/nvidia" -name "lib$1.so*" 2>/dev/null | sort | head -1)
        header=$(find "$folder/nvidia" -path "*/include/$2" 2>/dev/null | sort | head -1)
        [ -n "$so" ] && [ -n "$header" ] || continue
        ln -sf "$so" "$dir/lib/lib$1.so"
        echo "for lib$1 $so and $header"
        printf 'export CPATH=%q${CPATH:+:$CPATH} LD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n' \
            "$(dirname "$header")" "$(dirname "$so")" >>"$dir/libraries.sh"
        return
    done
    echo "tools/gpu-check: no lib$1 or $2, neither in $cuda_home nor in Python's packages"
    missing+=" $1"
}
stage_build() {
    local what=("$build/trivium" "$build/trivium-tests" bench-kernels bench-step) arch cuda_home missing=
    command -v mpicc >/dev/null || export MPI=0
    if [ "$device" = simt ]; then
        make -j"$(nproc)" BUILD_NAME="$name" SIMT=1 "${what[@]}" || exit 1
        note "emulated device"
        return
    fi
    command -v nvcc >/dev/null || not_run "no nvcc"
    cuda_home=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
    rm -rf "${dir:?}/lib" && mkdir -p "$dir/lib"
    printf 'export LIBRARY_PATH=%q${LIBRARY_PATH:+:$LIBRARY_PATH}\n' "$dir/lib" >"$dir/libraries.sh"
    . "$dir/libraries.sh"
    find_library cudart cuda_runtime.h
    find_library cublasLt cublasLt.h
    find_library cudnn cudnn.h
    find_library nccl nccl.h
    [ -z "$missing" ] || { note "not found:$missing"; exit 1; }
    . "$dir/libraries.sh"
    arch=$(gpu_query compute_cap | tr -d .)   # for this GPU alone: a third of the time
    make -j"$(nproc)" BUILD_NAME="$name" CUDA=1 CUDNN=1 CUDA_HOME="$cuda_home" \
        ${arch:+CUDA_ARCH="$arch"} "${what[@]}" || exit 1
    nm "$build/trivium" | grep -c cudnnCreate >/dev/null ||
        { note "cuDNN is found, and not in $build/trivium"; exit 1; }
    note "${MPI:+without MPI, }${arch:+for sm_$arch, }$(ls "$build"/kernels/*/*.o "$build"/kernels/*/*/*.o 2>/dev/null |
        wc -l) kernel files"
}

# ---- smoke ----
# Five steps of two wide layers, against losses that the CPU computed in fp32 (tools/bench/smoke.losses, same seed, so
# same weights and data). bf16 may be off in the third digit. One way of computing after the other: which of them is
# wrong shows at once.
smoke_options=(--layers 2 --hidden 768 --heads 12 --seq 1024 --vocab 50304 --global-batch 1 --micro-batch 1 --steps 5 \
    --lr 1e-4 --warmup 0
    --data configs/demo.txt --val-fraction 0)
stage_smoke() {
    local way ways=("own --fuse on" "own --fuse off" "cudnn --fuse on") losses=tools/bench/smoke.losses \
        options=("${smoke_options[@]}") said=''
    needs_build
    if [ "$device" = cuda ]; then needs_gpu; else # tiny, and against this machine's own CPU
        ways=("own --fuse on" "own --fuse off") options+=(--hidden 64 --heads 2 --seq 32 --vocab 512) \
            losses=$dir/smoke.cpu
        smoke_losses --device cpu --precision fp32 "${options[@]}" >"$losses" ||
            { note "no losses on the CPU: see the log"; exit 1; }
    fi
    for way in "${ways[@]}"; do
        # shellcheck disable=SC2086 # options
        smoke_losses --device cuda --precision bf16 "${options[@]}" --attention-core $way >"$dir/smoke.gpu" ||
            { said+=", $way: failed"; continue; }
        said+=", $way: $(paste "$dir/smoke.gpu" "$losses" |
            awk '{ d = $1 / $2 - 1; if (d < 0) d = -d; if (d > w || d != d) w = d; n++ }
            END { print (n == 5 && w < 0.01 ? "" : "WRONG, ") "off by " w }')"
    done
    note "losses${said#,}"
    [[ $said != *WRONG* && $said != *failed* ]]
}
smoke_losses() { # OPTIONS...
    "$build/trivium" train "$@" --metrics "$dir/smoke.jsonl" --log warn >&2 &&
        sed -n 's/.*"loss": *\([-0-9.e+]*\).*/\1/p' "$dir/smoke.jsonl"
}

# ---- tests ----
stage_units() { # RANKS
    local last limit
    limit=$(limit_of "$current")
    needs_build
    if [ "$device" = cuda ]; then needs_gpu; fi
    command -v mpirun >/dev/null || export TEST_LAUNCH=own
    BUILD=$build DEVICE=$device TEST_RANKS=$1 TEST_LIMIT=$((limit > 60 ? limit - 30 : limit)) tests/run \
        ${GPU_CHECK_FILTER:+"$GPU_CHECK_FILTER"} |
        # the counts are kept from the first file on: the limit may come
        tee "$dir/$current.units" | while read -r last; do
            echo "$last"
            [[ $last != "so far: "* ]] || echo "${last#so far: }, then came to no end" >"$dir/$current.note"
        done
    last=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$dir/$current.units" | tail -1)
    note "${last:-came to no end}${GPU_CHECK_FILTER:+ (only $GPU_CHECK_FILTER)}"
    [[ $last == [1-9]*" 0 failed"* ]]
}

# The same five steps over NCCL and over MPI. They add in another order, so bf16 losses may differ in the third digit.
stage_nccl() {
    local n transport
    needs_gpu
    needs_build
    n=$(gpu_count)
    for transport in nccl mpi; do
        "$build/trivium" launch -n "$n" train --device cuda --comm $transport --config configs/demo.ini --dropout 0 \
            --steps 5 --global-batch $((8 * n)) \
            --micro-batch 4 --dp "$n" --zero 1 --metrics "$dir/nccl-$transport.jsonl" ||
            { note "train --comm $transport on $n GPUs failed"; exit 1; }
        sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$dir/nccl-$transport.jsonl" >"$dir/nccl-$transport.txt"
    done
    paste "$dir/nccl-nccl.txt" "$dir/nccl-mpi.txt" |
        awk '{ d = $1 / $2 - 1; if (d < 0) d = -d; if (!(d < 0.02)) bad = 1; n++ } END { exit n != 5 || bad }' ||
        { note "losses over NCCL and MPI differ: see nccl-*.txt"; exit 1; }
    if [ "$n" = 1 ]; then
        note "one GPU: a rank with --comm nccl trains, and sends nothing; more needs two GPUs"; return
    fi
    n=$((n >= 8 ? 8 : n >= 4 ? 4 : 2))
    BUILD=$build DEVICE=cuda TEST_RANKS=$n TEST_LIMIT=200 tests/run test_comm_device ||
        { note "test_comm_device on $n GPUs failed"; exit 1; }
    note "$(gpu_count) GPUs: 5 steps as over MPI; test_comm_device on $n"
}

# Files one by one, so that a slow one takes nothing from the others' results.
kernel_tests() { ls lib/ops/test_*.c tp/test_tp_{pieces,cross_entropy}.c zero/test_zero_pack.c 2>/dev/null; }
stage_sanitizer() { # TOOL
    local tool=$1 file n=0 bad='' slow='' end tests
    needs_gpu
    needs_build
    command -v compute-sanitizer >/dev/null || not_run "no compute-sanitizer in PATH"
    end=$((SECONDS + $(limit_of "$tool") - 20))
    tests=$(kernel_tests)
    for file in $tests; do
        [ $SECONDS -lt $end ] || { slow+=" ${file##*/}"; continue; }
        [[ $file == *"${GPU_CHECK_FILTER-}"* ]] || continue
        DEVICE=cuda timeout $((end - SECONDS < 150 ? end - SECONDS : 150)) compute-sanitizer --tool "$tool" \
            --error-exitcode 9 "$build/trivium-tests" "$file"
        case $? in 0) n=$((n + 1)) ;; 124) slow+=" ${file##*/}" ;; *) bad+=" ${file##*/}" ;; esac
        echo "-- $file"
    done
    note "$n of $(wc -w <<<"$tests") files clean${bad:+; errors in$bad}${slow:+; no time for$slow}"
    [ -z "$bad" ] && [ "$n" -gt 0 ]
}

# ---- no waits ----
# The step that lies between cudaProfilerStart and Stop, as nsys sees it: no call that waits.
nsys_sees_no_wait() {
    local n
    command -v nsys >/dev/null || { echo "no nsys"; return; }
    nsys profile -t cuda --capture-range=cudaProfilerApi --capture-range-end=stop -f true -o "$dir/step" "$@" \
        >"$dir/nsys.log" 2>&1 &&
        nsys stats --force-export=true -r cuda_api_sum "$dir/step.nsys-rep" >"$dir/nsys.txt" 2>&1 ||
        { echo "nsys made no report"; return; }
    cat "$dir/nsys.txt" >&2
    grep -q 'LaunchKernel' "$dir/nsys.txt" || { echo "nsys saw no launch"; return; }
    n=$(grep -cE 'cuda?[A-Za-z]*Synchronize|cudaMemcpy($|_)' "$dir/nsys.txt")
    echo "nsys: $n kinds of calls that wait"
    [ "$n" = 0 ]
}
stage_step() {
    local size core seen='' trace
    local options=(--device cuda --precision bf16 --val-fraction 0 --log warn --layers 2)
    needs_build
    if [ "$device" = cuda ]; then
        needs_gpu
        size=(--hidden 768 --heads 12 --seq 1024 --vocab 50304 --global-batch 4 --micro-batch 2)
    else
        size=(--hidden 64 --heads 2 --seq 32 --global-batch 4 --micro-batch 2)
    fi
    for core in own $([ "$device" = simt ] || echo cudnn); do
        "$build/bench-step" --json "$dir/step-$core.json" "${options[@]}" "${size[@]}" --attention-core "$core" ||
            { note "the host waits (attention-core $core): see the log"; exit 1; }
        seen+="$core, "
    done
    cp "$dir/step-$core.json" "$dir/step.data.json"
    if [ "$device" = simt ]; then trace="emulated"; else
        trace=$(nsys_sees_no_wait "$build/bench-step" "${options[@]}" "${size[@]}") ||
            { note "nsys saw waits in a step: nsys.txt"; exit 1; }
    fi
    note "whole steps are queued while the GPU is held still (attention ${seen%, }); $trace"
}

# ---- kernels ----
stage_kernels() {
    [ -x "$build/bench-kernels" ] || { note "nothing is built: tools/gpu-check build"; exit 1; }
    if [ "$device" = simt ]; then
        "$build/bench-kernels" --small --json "$dir/bench-kernels.data.json" || exit 1
        note "$(grep -c '"op"' "$dir/bench-kernels.data.json") ops run (tiny, emulated: no times)"
    else
        needs_gpu
        "$build/bench-kernels" ${GPU_CHECK_MODEL:+--model "$GPU_CHECK_MODEL"} --json "$dir/bench-kernels.data.json" ||
            exit 1
        note "copy $(number copy_gb_s \
            "$dir/bench-kernels.data.json") GB/s; of it: $(shares "$dir/bench-kernels.data.json")"
    fi
    ! grep -qE '"error"|NOT A NUMBER' "$dir/bench-kernels.data.json" ||
        { note "some ops failed or gave no numbers: see the log"; exit 1; }
}
# "layernorm 88-93%, gelu 91-95%, ...": lowest and highest share of the copy bandwidth of the ops that only move memory
shares() {
    awk -F'": ' '{ value = $2; gsub(/[",]/, "", value) }
        /"op"/ { split(value, word, " "); op = word[1] }
        /"share_of_copy"/ { share = 100 * value }
        /"wanted"/ && value == "true" {
            if (!(op in low)) { order[++n] = op; low[op] = share }
            if (share < low[op]) low[op] = share
            if (share > high[op]) high[op] = share }
        END { for (i = 1; i <= n; i++)
            printf "%s%s %.0f-%.0f%%", (i > 1 ? ", " : ""), order[i], low[order[i]], high[order[i]] }' "$1"
}
