#!/bin/bash
# tools/metrics: what it exports is read back, number by number, by TensorBoard's own reader, an OpenMetrics parser and
# as CSV; what is no file of metrics is refused by line. Run from the project's root. PYTHON: one with tensorboard and
# prometheus-client (pip install), without which their parts are skipped.
set -u -o pipefail
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$1" = 0 ]; then echo "ok metrics: $2"; else
    echo "not ok metrics: $2"; sed 's/^/# /' "$work/said"; fi; }
export_to() { "$python" tools/metrics export "$@" >"$work/said" 2>&1; }

train=(train --layers 1 --hidden 32 --heads 2 --seq 16 --global-batch 4 --steps 4 --eval-every 2 --log quiet)
"${BUILD:-build}/trivium" "${train[@]}" --metrics "$work/m.jsonl" >"$work/said" 2>&1
report $? "a run"
# a restart: step 4 again, whose later row counts; a step that was skipped; and the beginning of a row
printf '%s\n' '{"step":4,"loss":1.25,"grad_norm":null,"lr":0.5,"step_ms":2.5,"skipped":true}' >>"$work/m.jsonl"
printf '{"step":5,"lo' >>"$work/m.jsonl" # no line end: left out

# Reads what was exported, as {step: {key: number}}, or the newest of each key: KIND PATH
cat >"$work/read.py" <<'END'
import csv, json, math, struct, sys
kind, path, source = sys.argv[1:]
steps = {}
for line in open(source).read().split("\n")[:-1]:
    row = json.loads(line)
    steps.setdefault(row.pop("step"), {}).update(row)
number = lambda v: math.nan if v is None else float(v)
fp32 = lambda v: struct.unpack("f", struct.pack("f", v))[0]
same = lambda a, b: a == b or (math.isnan(a) and math.isnan(b))
wanted = {(s, k): number(v) for s, row in steps.items() for k, v in row.items()}
if kind == "csv":
    found = {(int(row["step"]), k): float(v) for row in csv.DictReader(open(path)) for k, v in row.items()
             if k != "step" and v != ""}
    wanted = {at: v for at, v in wanted.items() if not math.isnan(v)}
elif kind == "tensorboard":
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(path).Reload()
    found = {(e.step, tag): e.value for tag in events.Tags()["scalars"] for e in events.Scalars(tag)}
    wanted = {at: fp32(v) for at, v in wanted.items()}
    times = [e.wall_time for e in events.Scalars("loss")]
    assert times == sorted(times) and math.isclose(times[3] - times[2], 0.0025, abs_tol=1e-6), times
else:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    found = {s.name.removeprefix("trivium_"): s.value
             for family in text_string_to_metric_families(open(path).read()) for s in family.samples}
    newest = {}
    for step in sorted(steps):
        newest.update(steps[step], step=step)
    wanted = {k: number(v) for k, v in newest.items()}
assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
wrong = [(at, found[at], v) for at, v in wanted.items() if not same(found[at], v)]
assert len(wanted) > 15 and not wrong, wrong
END
for kind in csv tensorboard:tensorboard openmetrics:prometheus_client; do
    needs=${kind#*:} kind=${kind%:*}
    if [ "$kind" != csv ] && ! "$python" -c "import $needs" 2>"$work/said"; then
        echo "skip metrics: there is no $needs; pip install ${needs/_/-}"
        continue
    fi
    export_to "$work/m.jsonl" --to "$kind" && out=$(cat "$work/said") &&
        "$python" "$work/read.py" "$kind" "$out" "$work/m.jsonl" >"$work/said" 2>&1
    report $? "--to $kind: each number is read back"
done
printf '%s\n' '{"step":1,"loss":3}' '{"step":2,"loss":9}' '{"step":2,"spike_loss":9,"rolled_back_to":1}' \
    >"$work/spike.jsonl"
export_to "$work/spike.jsonl" --to csv && [ "$(tr '\n' ' ' <"$work/spike.csv")" = \
    "step,loss,spike_loss,rolled_back_to 1,3.0,, 2,,9.0,1.0 " ]
report $? "a step that was rolled back is none"

refuses() { # WORDS FILE...
    export_to "$2" --to "${3-csv}" --out "${4-$work/out}"
    [ $? = 2 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -qF -- "$1" "$work/said" && [ ! -e "$work/out" ]
}
printf '{"step":1,"loss":2}\n{"loss":1}\n' >"$work/stepless"
printf '{"step":1,"loss":"low"}\n' >"$work/words"
: >"$work/empty"
refuses stepless:2: "$work/stepless" && refuses 'words:1: "low" is no number' "$work/words" &&
    refuses 'empty has no row' "$work/empty" && refuses 'cannot read' "$work/absent" && refuses 'cannot read' "$work"
report $? "no file of metrics is taken for one"
if "$python" -c 'import tensorboard' 2>/dev/null; then
    export_to "$work/m.jsonl" --to tensorboard
    [ $? = 2 ] && grep -q 'events of another run.*give --out another folder' "$work/said" &&
        export_to "$work/m.jsonl" --to tensorboard --out "$work/other"
    report $? "events of two runs are not mixed"
fi
