#!/bin/bash
# Bad requests and dead peers, from outside: a job that cannot go on says one line and ends, within seconds.
#
#   one line   exactly one `E_CODE file:line function: ...` on standard error, with value, limit and remedy, and nothing
#              else:
#              no second rank's complaint, no mpirun boilerplate. Of a running job also launch's `postmortem: ...`
#   exit code  of the whole job: 2 for a bad request, 1 for what happens at run time
#   no remains no process of a job outlives it, not even one that was stopped
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
marker=TRIVIUM_FAULTS=$$.$RANDOM # every process of a job has it in its environment, and so can be found
limit=10                          # seconds that a job may take to say what is wrong
# With a sanitizer: what MPI leaves behind is not the question here, and a request for too much memory is.
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0:allocator_may_return_null=1}

# shellcheck source=tests/processes.bash
. tests/processes.bash
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" && mkdir tmp || exit 1
export TMPDIR=$work/tmp # what launch keeps of a failed job goes with it

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' err
}

# Open MPI's helpers of a program end a moment after it.
leaves_nothing() { # NAME
    if wait_for 5 is_alone; then return; fi
    not_ok "$1" "processes are left: $(pids | tr '\n' ' ')"
    end_all
}

# judge NAME CODE WANTED WORD...   What a finished job left: `err`, its exit code and the code that is wanted.
judge() {
    local name=$1 code=$2 wanted=$3 word errors
    shift 3
    errors=$(grep -cE '^(\[rank [^]]*\] )?E_[A-Z]+ [a-z_]+\.c:[0-9]+ [a-z_]+: ' err)
    if [ "$code" != "$wanted" ]; then
        if [ "$code" = 124 ]; then
            not_ok "$name" "did not end within $limit s"
        else
            not_ok "$name" "exit code $code, not $wanted"
        fi
        return
    fi
    if [ "$errors" != 1 ]; then not_ok "$name" "$errors error lines, not 1"; return; fi
    if [ "$(grep -vc '^postmortem: ' err)" != 1 ]; then not_ok "$name" "more than the error line"; return; fi
    for word in "$@"; do
        if ! grep -qF -- "$word" err; then not_ok "$name" "does not say \"$word\""; return; fi
    done
    echo "ok $name"
}

# refuses NAME CODE WORD... -- ARGUMENTS...
refuses() {
    local name=$1 wanted=$2 words=()
    shift 2
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    env "$marker" timeout -k 2 "$limit" "$trivium" "$@" >out 2>err </dev/null
    judge "$name" $? "$wanted" "${words[@]}"
    leaves_nothing "$name"
}

# ---- commands and values ----
refuses unknown_command 2 E_USAGE tran train -- tran
refuses unknown_option 2 E_USAGE --layer --layers -- train --layer 3
refuses unknown_option_far_off 2 E_USAGE --qwertyuiop --help -- train --qwertyuiop 3
refuses word_without_dashes 2 E_USAGE "steps is not an option" -- train steps 3
refuses missing_value 2 E_USAGE "--steps has no value" -- train --steps
refuses negative_value 2 E_USAGE "--layers -1" "from 1" -- train --layers -1
refuses zero_value 2 E_USAGE "--steps 0" "from 1" -- train --steps 0
refuses word_for_a_number 2 E_USAGE "--lr abc" "not a number" -- train --lr abc
refuses half_a_number 2 E_USAGE "--steps 1e" "not an integer" -- train --steps 1e
refuses integer_overflow 2 E_USAGE 99999999999999999999 "out of range" -- train --steps 99999999999999999999
refuses real_overflow 2 E_USAGE 1e999 "too large" -- train --lr 1e999
refuses nan_for_a_number 2 E_USAGE "--lr nan" "not a number" -- train --lr nan
refuses not_a_choice 2 E_USAGE "--schedule zigzag" gpipe 1f1b -- train --schedule zigzag
refuses unknown_preset 2 E_CONFIG model=gpt5 tiny gpt2-124m -- train --model gpt5

# ---- layouts and sizes ----
refuses heads_not_dividing_hidden 2 E_CONFIG heads=3 hidden=100 "1, 2, 4, 5" -- train --hidden 100 --heads 3
refuses world_not_dp_tp_pp 2 E_CONFIG dp=3 "needs 3 ranks" "there are 1" "launch -n 3" -- train --dp 3 --global-batch 9
refuses world_whose_remedy_has_too_many_stages 2 E_CONFIG pp=3 layers=2 "pp 2 or less" -- train --pp 3 --layers 2
refuses world_not_a_multiple_of_tp_pp 2 E_CONFIG tp=2 pp=3 "a multiple of 6" -- train --tp 2 --pp 3 --layers 6
refuses micro_batch_not_dividing_share 2 E_CONFIG micro-batch=3 "= 8" "1, 2, 4, 8" -- train --global-batch 8 \
    --micro-batch 3
refuses pp_split_for_other_stages 2 E_CONFIG pp-split=1,3 pp=1 layers=4 -- train --pp-split 1,3
refuses pp_split_of_other_layers 2 E_CONFIG pp-split=3 layers=4 "sum to 4" -- train --pp-split 3
refuses pp_split_not_numbers 2 E_CONFIG pp-split=4, -- train --pp-split 4,
refuses min_lr_above_lr 2 E_CONFIG min-lr=1 lr=0.1 -- train --min-lr 1 --lr 0.1
# 5 petabytes: more than any address space holds, however freely the system promises memory
refuses model_larger_than_memory 1 E_MEMORY "rank of this host needs" -- train --hidden 1000000 --heads 1 --layers 100

# ---- checkpoints ----
refuses resume_from_nowhere 2 E_DATA "nowhere is no checkpoint" manifest.json latest -- train --resume nowhere
refuses save_every_without_save 2 E_CONFIG save-every=3 --save -- train --save-every 3
refuses time_limit_without_save 2 E_CONFIG "time-limit=5 s" --save -- train --time-limit 5
refuses resume_and_init 2 E_CONFIG resume=a init=b -- train --resume a --init b
refuses inspect_of_nowhere 2 E_DATA "nowhere is no checkpoint" -- checkpoint inspect nowhere
refuses inspect_of_nothing 2 E_USAGE "takes one folder" -- checkpoint inspect
refuses checkpoint_command 2 E_USAGE "checkpoint look is no command" inspect -- checkpoint look
touch in_the_way
refuses save_where_a_file_is 1 E_IO in_the_way -- train --steps 1 --save in_the_way
refuses preflight_where_a_file_is 1 E_IO in_the_way -- preflight --device cpu --save in_the_way

# ---- data ----
# bytes N FILE: N bytes of text. integers N...: little-endian 32-bit numbers.
bytes() { head -c "$1" "$demo" >"$2"; }
integers() {
    local n
    for n in "$@"; do
        # shellcheck disable=SC2059 # the format is the point
        printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) \
            $((n >> 24 & 255)))"
    done
}
# llmc VERSION SAYS HAS FILE: an llm.c file of 16-bit tokens, zeros, whose header says one number of them and that has
# another.
llmc() {
    integers 20240520 "$1" "$2" >"$4"
    truncate -s $((1024 + 2 * $3)) "$4"
}
mkdir folder
: >empty
mkfifo pipe
bytes 300 short.txt
bytes 50 shorter.txt
llmc 1 1000 900 cut.bin
llmc 1 1000 1100 long.bin
llmc 9 1000 1000 version.bin
llmc 1 1000 1000 whole.bin
head -c 100 cut.bin >header.bin
refuses data_missing 2 E_DATA absent.txt "No such file" -- train --data absent.txt
refuses data_is_a_directory 2 E_DATA "folder is a directory" -- train --data folder
refuses data_is_empty 2 E_DATA "empty is empty" -- train --data empty
refuses data_is_a_pipe 2 E_DATA "pipe is a pipe" -- train --data pipe
refuses data_truncated 2 E_FORMAT cut.bin "truncated" "1000 tokens" 3024 2824 -- train --data cut.bin --vocab 50257
refuses data_truncated_in_its_header 2 E_FORMAT header.bin "truncated" "100 bytes" -- train \
    --data header.bin --vocab 50257
refuses data_too_long 2 E_FORMAT long.bin "too long" -- train --data long.bin --vocab 50257
refuses data_of_another_version 2 E_FORMAT version.bin "version 9" -- train --data version.bin --vocab 50257
refuses data_without_vocabulary 2 E_CONFIG whole.bin vocab -- train --data whole.bin
refuses data_shorter_than_a_batch 2 E_DATA short.txt "4 training samples" global-batch=8 -- train --data short.txt \
    --val-fraction 0
refuses data_shorter_than_a_sample 2 E_DATA shorter.txt "50 tokens" "seq+1 = 65" -- train --data shorter.txt \
    --val-fraction 0
refuses validation_shorter_than_a_sample 2 E_DATA short.txt "validation part" val-fraction -- train --data short.txt
refuses val_data_missing 2 E_DATA absent.txt -- train --val-data absent.txt
refuses token_beyond_the_vocabulary 2 E_DATA "is not below vocab=100" "use --vocab" -- train --vocab 100 --metrics ""

# Only root may read it, and only while it has that capability.
chmod 000 short.txt
if [ "$(id -u)" != 0 ]; then
    refuses data_unreadable 2 E_DATA "short.txt: Permission denied" -- train --data short.txt
elif setpriv --bounding-set -dac_override,-dac_read_search true 2>/dev/null; then
    setpriv --bounding-set -dac_override,-dac_read_search timeout "$limit" "$trivium" train --data short.txt >out \
        2>err </dev/null
    judge data_unreadable $? 2 E_DATA "short.txt: Permission denied"
else
    echo "skip data_unreadable: root may read everything"
fi

# ---- config files ----
# config NAME WORD... -- LINE...: refuses a file of these lines
config() {
    local name=$1 words=()
    shift
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    printf '%s\n' "$@" >bad.ini
    refuses "$name" 2 "${words[@]}" -- train --config bad.ini
}
config config_duplicate_key E_FORMAT bad.ini:3 "layers was set on line 1" -- "layers = 2" "seq = 8" "layers = 3"
config config_unknown_key E_USAGE bad.ini:2 "did you mean layers" -- "seq = 8" "layesr = 2"
config config_overlong_line E_FORMAT bad.ini:1 "5007 bytes" -- "data = $(printf '%5000s' '' | tr ' ' x)"
config config_inline_comment E_FORMAT bad.ini:1 "a comment inside a line" -- "layers = 2 ; two"
config config_without_equals E_FORMAT bad.ini:2 "is not key = value" -- "layers = 2" "hidden 64"
config config_bad_value E_USAGE "bad.ini:1: layers = many" "not an integer" -- "layers = many"
refuses config_missing 2 E_DATA absent.ini "No such file" -- train --config absent.ini
refuses config_is_a_pipe 2 E_DATA "pipe is a pipe" -- train --config pipe
config config_inside_a_config E_USAGE bad.ini:2 "config is an option of the command line" -- "layers = 2" "config = x"
refuses config_of_a_process 2 E_USAGE "did you mean layers" -- train --config <(echo "layesr = 2")
refuses config_is_a_directory 2 E_DATA folder -- train --config folder

# ---- at run time ----
small=(--layers 2 --hidden 32 --heads 2 --seq 16 --global-batch 8 --metrics "")
refuses metrics_unwritable 2 E_USAGE absent/metrics.jsonl "No such file" -- train --metrics absent/metrics.jsonl
refuses non_finite_loss 1 E_NUMERIC "the loss of step" "lr=1e+06" "no weight was changed" \
    -- train "${small[@]}" --lr 1e6 --clip 0

# ---- what launch itself is asked ----
refuses launch_without_ranks 2 E_USAGE "-n 8" -- launch train
refuses launch_of_no_ranks 2 E_USAGE "-n 0" "1 to" -- launch -n 0 train
refuses launch_of_no_command 2 E_USAGE "needs a command" -- launch -n 2
refuses launch_unknown_option 2 E_USAGE "no option --tp" -- launch -n 2 --tp 2 train
refuses restarts_of_no_number 2 E_USAGE "--max-restarts many" -- launch -n 2 --max-restarts many train
refuses restarts_of_another_command 2 E_USAGE "is for train" compare -- launch -n 2 --max-restarts 2 compare
refuses restarts_from_nothing 2 E_CONFIG "--max-restarts 2" --save -- launch -n 2 --max-restarts 2 train
refuses restarts_of_a_bad_request 2 E_USAGE --layers -- launch -n 2 --max-restarts 2 train --save s --layer 3
refuses min_ranks_without_restarts 2 E_USAGE "--min-ranks 1" --max-restarts -- launch -n 2 --min-ranks 1 train

# ---- several ranks: one of them speaks for all ----
refuses ranks_unknown_command 2 E_USAGE tran -- launch -n 2 tran
refuses ranks_unknown_option 2 "[rank 0/2" E_USAGE --layers -- launch -n 2 train --layer 3
refuses ranks_world_not_dp_tp_pp 2 "[rank 0/2" E_CONFIG dp=3 "there are 2" -- launch -n 2 train --dp 3 --global-batch 9
refuses ranks_global_batch_not_dividing 2 E_CONFIG dp=2 global-batch=7 "global-batch 8" -- launch -n 2 train \
    --global-batch 7
refuses ranks_pp_split 2 E_CONFIG pp-split=3,2 layers=4 pp=2 -- launch -n 2 train --pp 2 --pp-split 3,2
refuses ranks_more_stages_than_layers 2 E_CONFIG pp=2 layers=1 "pp 1 or less" -- launch -n 2 train --pp 2 --layers 1
refuses ranks_tp_not_dividing_heads 2 "[rank 0/4" E_CONFIG tp=4 heads=6 "1, 2, 3, 6" -- launch -n 4 train --tp 4 \
    --heads 6 --hidden 96
refuses ranks_data_truncated 2 E_FORMAT cut.bin "truncated" -- launch -n 2 train --data cut.bin --vocab 50257
refuses ranks_metrics_unwritable 2 "[rank 0/2" absent/metrics.jsonl -- launch -n 2 train --metrics absent/metrics.jsonl
# not at set-up but in the middle of a step, and on one rank before the other
refuses ranks_token_beyond_the_vocabulary 2 E_DATA "vocab=100" -- launch -n 2 train --pp 2 --vocab 100 --metrics ""
refuses ranks_non_finite_loss 1 "[rank 0/4 " E_NUMERIC "the loss of step" -- \
    launch -n 4 train "${small[@]}" --dp 2 --tp 2 --lr 1e6 --clip 0

# Only rank 1 has a bad request: no rank may wait for it.
cat >one_bad_rank <<END
#!/bin/bash
if [ "\$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$trivium" "\$@" --data absent.txt; fi
exec "$trivium" "\$@"
END
chmod +x one_bad_rank
# Only rank 1 has other data, as a host may that has a copy of its own: its part of each batch would be of those.
tr a-y b-z <"$demo" >other.txt
sed 's/absent.txt/other.txt/' one_bad_rank >other_data && chmod +x other_data
TRIVIUM_EXE=$work/other_data refuses ranks_have_the_same_data 2 "[rank 1/2" E_DATA \
    "(here other.txt; those of rank 0 count)" -- \
    launch -n 2 train --dp 2 --steps 2 --data "$demo" --metrics ""
TRIVIUM_EXE=$work/one_bad_rank refuses ranks_only_one_fails 2 "[rank 1/2" E_DATA absent.txt \
    -- launch -n 2 train --metrics ""

# ---- what the machine does not let it have: a shell's limits, and small file systems ----
# under LIMIT COMMAND...: with this `ulimit`
under() {
    # shellcheck disable=SC2086 # an option and its value
    (ulimit $1 && "${@:2}")
}
judge_clean() { # NAME CODE
    if [ "$2" != 0 ]; then not_ok "$1" "exit code $2"
    elif [ -s err ]; then not_ok "$1" "it complains"
    else echo "ok $1"; fi
    leaves_nothing "$1"
}
# As refuses, of what only MPI needs: the direct transport trains all the same
mpi_refuses() { # NAME CODE WORD... -- ARGUMENTS...
    local name=$1
    if [ $starter = mpirun ] || [[ $name != launch* ]]; then refuses "$@"; return; fi
    while [ "$1" != -- ]; do shift; done
    env "$marker" timeout -k 2 60 "$trivium" "${@:2}" --steps 2 --val-fraction 0 --metrics "" >out 2>err </dev/null
    judge_clean "$name" $?
}
for command in train "launch -n 2 train"; do
    kind=${command%% *}
    # shellcheck disable=SC2086 # several words
    {
        under "-v 250000" refuses "${kind}_address_space" 1 E_MEMORY "ulimit -v" "is 250000 kB" -- $command
        under "-n 20" mpi_refuses "${kind}_open_files" 1 E_IO "ulimit -n" "is 20," -- $command
        under "-f 100" refuses "${kind}_file_size" 1 E_IO "ulimit -f" "is 100," -- $command
        TMPDIR=/proc mpi_refuses "${kind}_tmpdir_read_only" 1 E_IO "/proc " "set TMPDIR" -- $command
    }
done
under "-n 40" mpi_refuses launch_some_open_files 1 E_IO "is 40, and Open MPI needs 56" -- launch -n 4 train
# small NAME FOLDER ...: mpi_refuses, with a file system of 1 MiB there
small_there() {
    local name=$1 folder=$2 code more=()
    shift 2
    [ $starter = mpirun ] || more=(--steps 2 --val-fraction 0 --metrics "")
    if ! unshare -m mount -t tmpfs -o size=1m none "$folder" 2>/dev/null; then
        echo "skip $name: nothing can be mounted"
        return
    fi
    # shellcheck disable=SC2016 # for the inner shell
    env "$marker" unshare -m sh -c 'mount -t tmpfs -o size=1m none "$1"; shift; exec "$@"' sh "$folder" \
        timeout -k 2 "$limit" "$trivium" launch -n 2 train "${more[@]}" >out 2>err </dev/null
    code=$?
    if [ $starter = mpirun ]; then judge "$name" $code 1 "$@"; else judge_clean "$name" $code; fi
    leaves_nothing "$name"
}
mkdir -p small
TMPDIR=$work/small small_there launch_small_tmpdir "$work/small" E_IO "small has 1.0 MiB left" "needs 10.0 MiB" TMPDIR
small_there launch_small_shared_memory /dev/shm E_MEMORY "/dev/shm has 1.0 MiB left" "needs 8.5 MiB" "--shm-size"
# closed: the first file that is opened would get the number
standard_closed() {
    local name=$1
    shift
    eval "env '$marker' timeout -k 2 60 '$trivium' $2 --steps 2 --val-fraction 0 --threads 1 \
        >out 2>err </dev/null $1"
    judge_clean "$name" $?
}
for stream in "<" ">" "2>"; do
    standard_closed "train_closed_$(tr '<>' io <<<"$stream")" "$stream&-" "train ${small[*]@Q}"
    standard_closed "launch_closed_$(tr '<>' io <<<"$stream")" "$stream&-" "launch -n 2 train ${small[*]@Q}"
done
standard_closed launch_all_closed "<&- >&- 2>&-" "launch -n 2 train ${small[*]@Q}"
# a log that is lost: the job goes on, and it is said once
env "$marker" timeout -k 2 60 "$trivium" launch -n 2 train "${small[@]}" --steps 2 --val-fraction 0 >/dev/full 2>err
code=$?
if [ "$code" != 0 ]; then not_ok launch_output_full "exit code $code"
elif [ "$(grep -c '' err)" != 1 ] || ! grep -q "not all of the standard output .*No space left" err; then
    not_ok launch_output_full "does not say that output was lost"
else echo "ok launch_output_full"; fi
leaves_nothing launch_output_full

# ---- fewer cores than the machine has ----
if command -v taskset >/dev/null; then
    env -u OMP_NUM_THREADS taskset -c "$(taskset -cp $$ | grep -oE '[0-9]+$')" \
        "$trivium" train "${small[@]}" --steps 1 --val-fraction 0 >out 2>err
    if grep -qE "1 thread per rank, (bound to 1 of|free on 1 core)" out; then echo "ok threads_of_the_mask"
    else not_ok threads_of_the_mask "$(grep layout out)"; fi
else
    echo "skip threads_of_the_mask: without taskset"
fi

# Rank 1 never comes to MPI's start: the line does not blame the ranks that wait for it.
cat >one_asleep <<END
#!/bin/bash
if [ "\$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 1000; fi
exec "$trivium" "\$@"
END
chmod +x one_asleep
TRIVIUM_EXE=$work/one_asleep refuses ranks_only_one_starts 1 E_TIMEOUT "start of MPI and of all ranks" never -- \
    launch -n 2 train --metrics "" --comm-timeout 1

# As if a mapped file had become shorter.
printf '#!/bin/bash\nkill -BUS $$\n' >bus
chmod +x bus
TRIVIUM_EXE=$work/bus refuses bus_error_names_files 1 E_COMM "file that it reads was shortened" -- launch -n 1 train

# ---- dead peers ----
has_stepped() { [ "$(grep -c '^step ' out)" -ge 3 ]; }

# loses NAME SIGNAL RANK SECONDS WORD...   A long job of four ranks, two by two, one of which is sent the signal.
loses() {
    local name=$1 signal=$2 rank=$3 seconds=$4 job code victim started
    shift 4
    : >out # has_stepped must not see the last job's
    env "$marker" "$trivium" launch -n 4 train "${small[@]}" --dp 2 --tp 2 --steps 1000000 --comm-timeout 3 >out \
        2>err </dev/null &
    job=$!
    if ! wait_for 30 has_stepped; then not_ok "$name" "no steps within 30 s"; end_all; return; fi
    victim=$(pids "$rank" | head -1)
    if [ -z "$victim" ]; then not_ok "$name" "rank $rank cannot be found"; end_all; return; fi
    started=$SECONDS
    kill -s "$signal" "$victim"
    wait_for 30 eval "! kill -0 $job 2>/dev/null" || end_all
    wait "$job"
    code=$?
    if [ $((SECONDS - started)) -gt "$seconds" ]; then
        not_ok "$name" "ended after $((SECONDS - started)) s, not $seconds"; return
    fi
    judge "$name" "$code" 1 "$@"
    leaves_nothing "$name"
}
if [ ! -r /proc/self/environ ]; then
    echo "skip rank_killed, rank_stopped: without /proc the ranks cannot be found"
    exit 0
fi
loses rank_killed KILL 2 5 E_COMM "rank 2 of 4" "killed by signal 9"
loses rank_stopped STOP 1 10 E_TIMEOUT "no answer from rank 1 " "within 3 s"
