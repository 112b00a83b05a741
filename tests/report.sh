#!/bin/bash
# report.html of `trivium compare`: well-formed, complete by itself, and with the numbers of compare.json; strategies with hostile names, and those
# that were refused, are in it too.
set -u -o pipefail
B=${BUILD:-build}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0} # MPI keeps what it allocates on the way
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! command -v python3 >/dev/null; then
    echo "skip report there is no python3 to read it with"
    exit 0
fi

model="--layers 4 --hidden 32 --heads 4 --seq 16 --global-batch 8 --micro-batch 2 --steps 3"
hostile='data=/no/<script>alert(1)</script>&amp;"'\'$'\001\303'
strategies="dp=2 | dp=2 zero=1 offload=optimizer | pp=2 | pp=2 schedule=interleaved chunks=2 recompute=full | tp=3 | $hostile | "
# shellcheck disable=SC2086
"$B/trivium" launch -n 2 compare $model --strategies "$strategies" --out "$out/report" >"$out/stdout" 2>"$out/stderr" ||
    { echo "not ok report the comparison failed"; cat "$out/stdout" "$out/stderr"; exit 1; }

cat >"$out/read.py" <<'END'
import json, os, re, sys
import xml.etree.ElementTree as ET

folder = sys.argv[1]
text = open(f"{folder}/report.html", "rb").read().decode("utf-8")
rows = json.load(open(f"{folder}/compare.json"))["strategies"]
page = ET.fromstring(text)
X, S = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
hostile = "data=/no/<script>alert(1)</script>&amp;\"'\ufffd\ufffd"
names = ["dp=2", "dp=2 zero=1 offload=optimizer", "pp=2", "pp=2 schedule=interleaved chunks=2 recompute=full", "tp=3", hostile, "(as it is)"]
words = lambda e: "".join(e.itertext())
table = lambda name: page.find(f".//{X}table[@id='{name}']")
bodies = {name: table(name).findall(f"{X}tbody/{X}tr") for name in ("memory-table", "speed-table")}

def well_formed():
    assert page.tag == X + "html" and page.find(f"{X}head/{X}title") is not None
    assert page.find(f".//{X}strong") is None, "says that it is not complete"

def complete_by_itself():
    for e in page.iter():
        assert e.tag not in (X + "script", X + "link", X + "img", X + "iframe", S + "script", S + "image"), e.tag
        for key, value in e.attrib.items():
            assert not key.startswith("on") and key.split("}")[-1] not in ("src", "href"), (e.tag, key)
    assert not re.search(r"url\(|@import|<script", text) and set(re.findall(r"https?:[^\"]*", text)) == {X[1:-1], S[1:-1]}

def every_strategy_once():
    for body in bodies.values(): assert [words(tr.find(f"{X}th")) for tr in body] == names
    for name in ("memory", "throughput", "time", "wire"):
        shown = [words(t) for t in page.find(f".//{X}h2[@id='{name}']/../{X}figure").iter(S + "text")] and \
            [words(t) for t in ET.parse(f"{folder}/{name}.svg").iter(S + "text")]
        assert all(shown.count(n) == 1 for n in names), (name, shown)

def value_of(row, key):
    if key == "ranks x threads": return f"{row['ranks']} x {row['threads']}"
    return sum(row[k] for k in key.split(" + "))

def numbers_are_those_of_the_json():
    n = 0
    for name, body in bodies.items():
        heads = table(name).findall(f"{X}thead/{X}tr/{X}th")[1:]
        for row, tr in zip(rows, body):
            cells = tr.findall(f"{X}td")
            if row["status"] != "ran": continue
            assert len(cells) == len(heads), (name, len(cells), len(heads))
            for head, cell in zip(heads, cells):
                key, shown, value = head.get("title"), words(cell), value_of(row, head.get("title"))
                if shown == "" and value == 0 or shown == value: continue
                factor = 2.0**-20 if key.endswith("_bytes") else 100 if key in ("bubble_share", "extra_flops") else 1
                digits = len(shown.partition("e")[0].partition(".")[2])
                tolerance = 0.1 * abs(value) if "e-" in shown else 0.51 * 10.0**-digits
                assert abs(float(shown) - factor * value) <= tolerance, (key, shown, value)
                n += 1
    assert n > 90, n

def refused_rows_are_shown():
    assert [r["status"] for r in rows] == ["ran"] * 4 + ["refused"] * 2 + ["ran"]
    for i in (4, 5):
        cell = bodies["memory-table"][i].findall(f"{X}td")
        assert len(cell) == 1 and words(cell[0]) == f"refused: {rows[i]['error']}", words(cell[0])

def pictures_are_files_too():
    inside = re.findall(r"<figure>\n(.*?)</figure>", text, re.S)
    files = sorted(f for f in os.listdir(folder) if f.endswith(".svg"))
    assert len(inside) == len(files) and {open(f"{folder}/{f}").read() for f in files} == set(inside), files
    for f in files: ET.parse(f"{folder}/{f}")

def memory_bars_are_the_fullest_rank():
    full = lambda row: max(row["per_rank"], key=lambda r: r["predicted_total_bytes"])
    hints = [words(t) for t in ET.parse(f"{folder}/memory.svg").iter(S + "title")]
    for role in ("param", "grad", "act"):
        want = [f"{full(r)[f'{which}_{role}_bytes'] / 2**20:.3g}" for r in rows if r["status"] == "ran" for which in ("predicted", "measured")]
        assert [h.split()[2] for h in hints if re.match(rf"\w+ {role}:", h)] == want, (role, hints, want)

def pipelines_are_predicted_and_traced():
    root = ET.parse(f"{folder}/pipeline.svg").getroot()
    charts = [g.find(S + "svg") for g in root.findall(S + "g")]
    heads = [words(next(c.iter(S + "text"))) for c in charts]
    assert heads == [f"{how}: {names[i]}" for i in (2, 3) for how in ("predicted", "traced")], heads
    for chart, chunks in zip(charts, (1, 1, 2, 2)):
        boxes = [re.match(r"(\w+) of microbatch (\d+), chunk (\d+): (\S+) to (\S+)", words(t)).groups() for t in chart.iter(S + "title")]
        assert len(boxes) == 2 * 2 * 4 * chunks and all(0 <= float(b[3]) < float(b[4]) for b in boxes), boxes
        for stage in (boxes[: len(boxes) // 2], boxes[len(boxes) // 2 :]):            # one thing after the other
            assert all(float(a[4]) <= float(b[3]) * (1 + 1e-5) + 1e-9 for a, b in zip(stage, stage[1:])), stage

def timelines_end_at_the_plan():
    root = ET.parse(f"{folder}/timeline.svg").getroot()
    ran = [r for r in rows if r["status"] == "ran"]
    assert len(root.findall(S + "g")) == len(ran)
    for g, row in zip(root.findall(S + "g"), ran):
        mib = max(r["predicted_total_bytes"] for r in row["per_rank"]) / 2**20
        label = next(t for t in map(words, g.iter(S + "text")) if t.startswith("planned peaks"))
        assert abs(float(label.split()[-2]) - mib) <= 0.006 * mib, (label, mib)
        level = next(float(e.get("y1")) for e in g.iter(S + "line") if e.get("stroke-dasharray"))
        tops = [min(map(float, re.findall(r"[\d.]+", p.get("d"))[1::2])) for p in g.iter(S + "path")]
        assert tops and level <= min(tops) + 0.11, (level, tops)                       # alive at most what is planned

for check in (well_formed, complete_by_itself, every_strategy_once, numbers_are_those_of_the_json, refused_rows_are_shown, pictures_are_files_too,
              memory_bars_are_the_fullest_rank, pipelines_are_predicted_and_traced, timelines_end_at_the_plan):
    try:
        check()
        print("ok report:", check.__name__.replace("_", " "))
    except Exception as e:
        print("not ok report:", check.__name__.replace("_", " "), repr(e))
END
PYTHONIOENCODING=utf-8 python3 "$out/read.py" "$out/report" 2>"$out/stderr" || { echo "not ok report cannot be read"; cat "$out/stderr"; }

# A comparison without pipelines leaves none of an earlier one's behind.
# shellcheck disable=SC2086
"$B/trivium" compare $model --strategies "dp=1 | tp=3" --out "$out/report" >"$out/stdout" 2>"$out/stderr"
if [ -e "$out/report/memory.svg" ] && [ ! -e "$out/report/pipeline.svg" ]; then echo "ok report: no picture of an earlier comparison stays"
else echo "not ok report: no picture of an earlier comparison stays"; fi

# ---- show memory --svg ----
show() { "$B/trivium" show memory "$@" >"$out/stdout" 2>"$out/stderr"; }
# shellcheck disable=SC2086
if show $model --pp 2 --rank 1 --svg "$out/a.svg" && show $model --pp 2 --rank 1 --svg "$out/b.svg" && cmp -s "$out/a.svg" "$out/b.svg" &&
    grep -q '>Memory over a step, rank 1 of 2: pp=2<' "$out/a.svg" && grep -q '>B3<' "$out/a.svg" && python3 -c 'import sys, xml.etree.ElementTree as E; E.parse(sys.argv[1])' "$out/a.svg"; then
    echo "ok report: show memory --svg draws a rank's step, the same every time"
else echo "not ok report: show memory --svg draws a rank's step, the same every time"; fi
if show --params 7.5e9 --dp 64 --precision bf16 --svg "$out/a.svg" && [ "$(grep -oE '>(120|31.4|16.6|1.88)</text>' "$out/a.svg" | sort -u | wc -l)" = 4 ]; then
    echo "ok report: show memory --params --svg draws the four stages of the ZeRO paper"
else echo "not ok report: show memory --params --svg draws the four stages of the ZeRO paper"; fi
good=1
for options in "--params 1e9" "--layers 2 --hidden 32 --heads 2"; do
    # shellcheck disable=SC2086
    show $options --svg "$out/no/such/folder.svg"
    [ $? = 1 ] && grep -q '^E_IO .*no/such/folder.svg' "$out/stderr" || good=0
done
if [ $good = 1 ]; then echo "ok report: a picture that cannot be written is an error"; else echo "not ok report: a picture that cannot be written is an error"; fi
