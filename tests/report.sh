#!/bin/bash
# report.html of `trivium compare`: complete by itself, and with the numbers of compare.json; strategies with hostile
# names, and those that were refused, are in it too. What a browser draws of it: tests/more/pages.sh
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
strategies="dp=2 | dp=2 zero=1 offload=optimizer | pp=2 | pp=2 schedule=interleaved chunks=2 recompute=full | \
tp=3 | $hostile | "
# shellcheck disable=SC2086
"$B/trivium" launch -n 2 compare $model --strategies "$strategies" --out "$out/report" >"$out/stdout" 2>"$out/stderr" ||
    { echo "not ok report the comparison failed"; cat "$out/stdout" "$out/stderr"; exit 1; }

cat >"$out/read.py" <<'END'
import html.parser, json, os, re, sys

folder = sys.argv[1]
text = open(f"{folder}/report.html", "rb").read().decode("utf-8")
compare = json.load(open(f"{folder}/compare.json"))
rows, report = compare["strategies"], json.load(open(f"{folder}/report.json"))
hostile = "data=/no/<script>alert(1)</script>&amp;\"'\ufffd\ufffd"
names = ["dp=2", "dp=2 zero=1 offload=optimizer", "pp=2", "pp=2 schedule=interleaved chunks=2 recompute=full", "tp=3",
         hostile, "(as it is)"]
tables = {t["id"]: t for t in report["tables"]}

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.kind = [], [], None
        self.feed(text)
    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script": self.kind = dict(attributes).get("type", "js")
    def handle_endtag(self, tag):
        self.kind = None
    def handle_data(self, data):
        if self.kind: self.scripts.append((self.kind, data))

page = Page()
data = [json.loads(x) for kind, x in page.scripts if kind == "application/json"]

def the_page_has_the_json():
    assert data == [report] and report["kind"] == "compare" and report["compare"] == compare
    assert len(rows) == report["about"]["strategies"]

def complete_by_itself():
    for tag, attributes in page.tags:
        assert tag in ("html", "head", "meta", "title", "style", "body", "main", "noscript", "p", "script"), tag
        for key in attributes: assert not key.startswith("on") and key not in ("src", "href"), (tag, key)
    policy = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policy) == 1 and policy[0].startswith("default-src 'none'") and "http" not in policy[0], policy
    style = text[text.index("<style>"):text.index("</style>")]
    assert not re.search(r"url\(|@import", style)

def every_strategy_once():
    for table in tables.values(): assert [row[0] for row in table["rows"]] == names
    assert [row["strategy"] or "(as it is)" for row in rows] == names

def value_of(row, key):
    if key == "ranks x threads": return f"{row['ranks']} x {row['threads']}"
    if "*" in key:
        return sum(v for k, v in row.items() if re.fullmatch(key.split(" of the ")[0].replace("*", "(.*)"), k)
                   and k.split("_")[1] not in ("tp", "dp", "shard", "replicate", "pp"))
    return sum(row[k] for k in key.split(" + "))

def numbers_are_those_of_the_json():
    n = 0
    for name, table in tables.items():
        for row, (_, *cells) in zip(rows, table["rows"]):
            if row["status"] != "ran": continue
            assert len(cells) == len(table["heads"]) - 1, (name, len(cells))
            for head, shown in zip(table["heads"][1:], cells):
                key, value = head["title"], value_of(row, head["title"])
                if shown == "" and value == 0 or shown == value: continue
                factor = 2.0**-20 if "_bytes" in key else 100 if key in ("bubble_share", "extra_flops") else 1
                digits = len(shown.partition("e")[0].partition(".")[2])
                tolerance = 0.1 * abs(value) if "e-" in shown else 0.51 * 10.0**-digits
                assert abs(float(shown) - factor * value) <= tolerance, (key, shown, value)
                n += 1
    assert n > 90, n

def refused_rows_are_shown():
    assert [r["status"] for r in rows] == ["ran"] * 4 + ["refused"] * 2 + ["ran"]
    for i in (4, 5):
        assert tables["memory-table"]["rows"][i][1:] == [{"reason": f"refused: {rows[i]['error']}"}]

def pictures_have_their_numbers():
    for row in rows:
        for rank in row["per_rank"]:
            assert rank["step_ms"] > 0 and set(rank["predicted_host_roles"]) <= {"optim", "grad", "param", "act"}
            assert sum(rank["predicted_host_roles"].values()) == rank["predicted_host_bytes"]
    assert rows[1]["per_rank"][0]["predicted_host_roles"]["optim"] > 0

def pipelines_are_predicted_and_traced():
    charts = report["pipelines"]
    headings = [f"{how}: {names[i]}" for i in (2, 3) for how in ("predicted", "traced")]
    assert [c["heading"] for c in charts] == headings, charts
    for chart, chunks in zip(charts, (1, 1, 2, 2)):
        assert len(chart["stages"]) == 2 and chart["chunks"] == chunks and 0 <= chart["idle"] < chart["makespan"]
        for actions in chart["stages"]:                                                # one thing after the other
            assert len(actions) == 2 * 4 * chunks, actions
            assert all(0 <= a[3] < a[4] <= chart["makespan"] * (1 + 1e-9) for a in actions), actions
            assert all(a[4] <= b[3] * (1 + 1e-5) + 1e-9 for a, b in zip(actions, actions[1:])), actions

def timelines_end_at_the_plan():
    ran = [r for r in rows if r["status"] == "ran"]
    assert len(report["timelines"]) == len(ran)
    for line, row in zip(report["timelines"], ran):
        assert line["planned_bytes"] == max(r["predicted_total_bytes"] for r in row["per_rank"])
        alive = [sum(at) for at in zip(*line["alive_bytes"].values())]
        assert len(alive) == len(line["row"]) > 10 and max(alive) <= line["planned_bytes"], line["strategy"]
        assert line["marks"][0][1].startswith("F0") and line["row"] == sorted(line["row"])

for check in (the_page_has_the_json, complete_by_itself, every_strategy_once, numbers_are_those_of_the_json,
              refused_rows_are_shown, pictures_have_their_numbers, pipelines_are_predicted_and_traced,
              timelines_end_at_the_plan):
    try:
        check()
        print("ok report:", check.__name__.replace("_", " "))
    except Exception as e:
        print("not ok report:", check.__name__.replace("_", " "), repr(e))
END
PYTHONIOENCODING=utf-8 python3 "$out/read.py" "$out/report" 2>"$out/stderr" ||
    { echo "not ok report cannot be read"; cat "$out/stderr"; }

# A comparison without pipelines leaves none of an earlier one's behind.
# shellcheck disable=SC2086
"$B/trivium" compare $model --strategies "dp=1 | tp=3" --out "$out/report" >"$out/stdout" 2>"$out/stderr"
if grep -q '"pipelines":\[\]' "$out/report/report.json" && grep -q '"pipelines":\[\]' "$out/report/report.html"; then
    echo "ok report: no picture of an earlier comparison stays"
else echo "not ok report: no picture of an earlier comparison stays"; fi

# ---- show memory --out ----
show() { "$B/trivium" show memory "$@" >"$out/stdout" 2>"$out/stderr"; }
# shellcheck disable=SC2086
if show $model --pp 2 --rank 1 --out "$out/a" && show $model --pp 2 --rank 1 --out "$out/b" &&
    cmp -s "$out/a/memory.html" "$out/b/memory.html" &&
    grep -q '"strategy":"pp=2","rank":1,"ranks":2' "$out/a/memory.json" && grep -q '"B3"' "$out/a/memory.json" &&
    show $model --pp 2 --rank 1 --json && python3 - "$out/stdout" "$out/a/memory.json" <<'P'; then
import json, sys
shown, page = (json.load(open(name)) for name in sys.argv[1:])
assert shown["timeline"] == page["timeline"] and page["kind"] == "memory"
assert shown["timeline"]["planned_bytes"] == shown["ranks"][1]["total"]
P
    echo "ok report: show memory writes a rank's step, the same every time"
else echo "not ok report: show memory writes a rank's step, the same every time"; fi
good=1
for options in "--params 1e9" "--layers 2 --hidden 32 --heads 2"; do
    # shellcheck disable=SC2086
    show $options --out /dev/null/folder
    [ $? = 1 ] && grep -q '^E_IO .*/dev/null/folder' "$out/stderr" || good=0
done
[ $good = 1 ] || printf 'not '
echo "ok report: a page that cannot be written is an error"
