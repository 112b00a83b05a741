#!/bin/bash
# README: every number has a source (tests/data/front_door.txt), hours are those of the lessons' index, and none of its
# lines is lost in a forge's first screen. What its commands print: tests/more/front_door.sh.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ ! -s "$work/wrong" ]; then echo "ok front_door_$1"; else echo "not ok front_door_$1" &&
    sed 's/^/# /' "$work/wrong"; fi; }

claims=tests/data/front_door.txt
while IFS='|' read -r words file source; do
    words=${words% } file=${file// /} source=${source# }
    grep -qF -- "$words" README.md || echo "README does not say: $words"
    grep -qF -- "$source" "$file" || echo "$file does not say: $source"
done < <(grep -v '^#' $claims) >"$work/wrong"
report each_number_is_what_its_source_says

# Without code, links' targets, the table of lessons, the numbers that have a line above, and those that name things.
awk '/^```/ { inside = !inside; next } !inside' README.md | sed -E 's/\]\([^)]*\)/]/g; s/`[^`]*`//g' |
    grep -vE "^\\| [0-9]{2} \\|" >"$work/prose"
while IFS='|' read -r words _; do
    python3 - "$work/prose" "${words% }" <<'END'
import sys
text = open(sys.argv[1]).read().replace(sys.argv[2], "")
open(sys.argv[1], "w").write(text)
END
done < <(grep -v '^#' $claims)
sed -E 's/^\*\*[1-4]\. //; s/\([0-9]+ lines\)|\[lesson [0-9]+\]//g
    s/(PyTorch = 1|bf16|fp16|fp32|fp64|fp8|x86-64|aarch64|Debian 12|A100|H100|tp=8|T5|t5)//g' \
    "$work/prose" | grep -nE '[0-9]' >"$work/wrong"
report no_number_is_without_a_source

# ---- the lessons: all of them, by title, with the hours of the index ----
for lesson in lessons/[0-9]*; do
    grep -qF "($lesson/README.md)" README.md || echo "$lesson is not in README"
done >"$work/wrong"
python3 - >>"$work/wrong" <<'END'
import re

index = open("lessons/README.md", encoding="utf-8").read()
front = open("README.md", encoding="utf-8").read()
for number, hours in re.findall(r"^\| \[(\d\d) .*?\| ([0-9.½ +to]+) \|", index, re.M):
    least, most = 0.0, 0.0
    for part in hours.replace("½", ".5").split("+"):
        ends = [float(x) for x in part.split("to")]
        least, most = least + ends[0], most + ends[-1]
    said = re.search(rf"\| {number} \| \[[^|]*\| ([0-9–]+) \|", front + " |")
    wanted = {f"{int(least + f)}" if least == most else f"{int(least + f)}–{int(most + f)}" for f in (0, 0.5)}
    if not said or said[1] not in wanted:
        print(f"lesson {number}: README says {said and said[1]} hours, the index {hours}")
END
report every_lesson_has_its_place

{ [ "$(wc -l <README.md)" -le 130 ] || echo "$(wc -l <README.md) lines, at most 130"; } >"$work/wrong"
report the_page_is_short
