#!/bin/bash
# The site's search, and its links from page to page: of two pages as Doxygen writes them, tools/docs/reading.py makes
# an index, and a browser without a screen is asked for words. Then the whole site is built, and opened from its folder
# alone (tools/docs/check.py). Skipped where tools/install-deps docs explorer browser finds something missing.
#
# Run from the project's root. LUNR: another lunr.min.js than the distribution's. QUICK=1: not the whole site.
set -u -o pipefail
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1 ${3-}"; fi; }

mkdir "$work/site" && cd "$work/site" || exit 1
page() { # FILE TITLE: the text comes by standard input
    { echo "<html><body><div class=\"title\">$2</div><div class=\"contents\">"
        cat; echo "</div><!-- PageDoc -->"; } >"$1"
}
page one.html "Pipelines" <<'E1'
<p>Stages in a row.</p><h2><a class="anchor" id="a_bubble"></a>The bubble</h2>
<p>It takes (<code>p</code>-1)/m of a step,
which is <b>idle</b> time.</p><script>var hidden = 1;</script>
E1
page two.html "Experts" <<'E2'
<p>An all-to-all takes tokens to their experts. No <em>bubbles</em> here, and rank 7 is not idle.</p>
E2
page three.html "上下文并行" <<'E3'
<p>张量并行切分每一层；这里切分的是序列。</p>
E3
python3 - "$root/tools/docs" <<'P' >"$work/out" 2>&1
import os, shutil, sys
sys.path.insert(0, sys.argv[1])
import reading
assert reading.write(".", ["one.html", "two.html", "three.html"]) == 4, "sections"
text = open("texts.js").read()
assert "(p-1)/m of a step, which is idle time." in text and "hidden" not in text, text
one, two = open("one.html").read(), open("two.html").read()
assert 'rel="next" href="two.html">Experts<' in one and 'rel="prev"' not in one, one
assert 'rel="prev" href="one.html">Pipelines<' in two and 'rel="next" href="three.html">上下文并行<' in two, two
assert 'rel="next"' not in open("three.html").read(), "after the last"
assert 'href="#a_bubble"' in one and one.count('class="here"') == 1, one
lunr = [path for path in [os.environ.get("LUNR", ""), *reading.LUNR] if os.path.exists(path)]
if lunr:
    shutil.copy(lunr[0], "lunr.min.js")
P
report site_pages_lead_on_and_are_indexed $? "$(tail -1 "$work/out")"

browser=
for name in chromium chromium-browser google-chrome chrome; do
    if command -v $name >/dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ] || [ ! -e lunr.min.js ]; then
    echo "skip site_search there is no browser, or no lunr.min.js (tools/install-deps docs browser)"
    exit 0
fi
search() { # NAME WORDS COUNT TEXT: the number of sections (a pattern), and this in the page
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --virtual-time-budget=5000 --dump-dom \
        "file://$PWD/search.html#$2" >"$work/dom" 2>"$work/err"
    grep -qE ">$3 sections<" "$work/dom" && grep -qF -- "$4" "$work/dom"
    report "site_search_$1" $? "$(grep -o '>[0-9]* sections<.*' "$work/dom" | head -c 300)"
}
search finds_a_text idle%20time 1 '<a href="one.html#a_bubble">Pipelines: The bubble</a>'
search knows_stems bubble 2 '<mark>bubbles</mark>'
search wants_all_words experts%20idle 1 '<a href="two.html">Experts</a>'
search knows_chinese 张量并行 1 '<mark>张量</mark>'
search wants_all_of_a_run 上下文层 0 '<ol id="hits" class="hits"></ol>'
search says_when_there_is_nothing nonsense 0 '<ol id="hits" class="hits"></ol>'

if [ "${QUICK-}" = 1 ]; then exit; fi

cd "$root" || exit 1
missing=$(tools/install-deps --check docs explorer browser) || { echo "skip site_whole ${missing#*: }"; exit 0; }
if { make --no-print-directory explorer && tools/docs/build; } >"$work/out" 2>&1; then echo "ok site_builds"
else echo "not ok site_builds: see below"; tail -5 "$work/out" | sed 's/^/#   /'; exit 0; fi
cd build/docs/html || exit 1
search of_the_site_finds_a_lesson ulysses '[1-9][0-9]*' '<a href="lesson_13.html#'
search of_the_site_finds_a_guide lighthouse '[1-9][0-9]*' '<a href="docs_elastic_page.html#'
search of_the_site_finds_the_museum zigzag%20published '[1-9][0-9]*' '<a href="docs_museum_page.html'
search of_the_site_finds_the_metrics goodput%20spike '[1-9][0-9]*' '<a href="docs_metrics_page.html'
search of_the_site_finds_the_reference metrics-append '[1-9][0-9]*' '<a href="docs_options_page.html'
search of_the_site_finds_chinese 激活重计算 '[1-9][0-9]*' '<a href="docs_zh_glossary_page.html#'
cd "$root" || exit 1
python3 tools/docs/check.py build/docs/html || echo "not ok site_check: it did not reach its end"
