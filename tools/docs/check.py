#!/usr/bin/env python3
"""Does the site open from its folder alone, without a server, and does each link of each lesson lead somewhere?

  tools/docs/check.py [SITE]           SITE: build/docs/html; a line for each test

A headless Chromium (planner/explorer/browser.py) opens a copy of the folder, so that nothing of the tree is at hand. It
reads the links of every lesson, opens each page that they name, and looks there for the place; the explorer with each
link's layout.
"""
import os
import re
import shutil
import sys
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "planner", "explorer"))
import browser  # noqa: E402

BRACKETS = re.compile(r"\[[\w.-]+/[\w./-]+\.(?:c|h|cu|py|sh)(?::\w+)?\]")
LINKS = """return [[...document.querySelectorAll('.contents a[href]')].map(a => [a.href, a.className, a.textContent]),
    [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
    [...document.querySelectorAll('.contents p, .contents li, .contents td')].map(e => e.textContent).join('\\n')]"""
# What the browser has found of these places: null where there is none, else the text of its line
PLACES = """return %s.map(name => {
    const found = document.getElementById(name) ?? document.getElementsByName(name)[0];
    return found ? (found.closest('.line') ?? found).textContent : null; })"""
FORMULA = """const found = () => document.querySelector('.MathJax_SVG svg') !== null;
    for (let i = 0; i < 1500 && !found(); i++) await new Promise(f => setTimeout(f, 20));
    return found()"""
EXPLORED = """const alone = document.body.classList.contains('alone');
    for (let i = 0; alone && i < 1500 && !document.querySelector('#verdict li'); i++)
        await new Promise(f => setTimeout(f, 20));
    return [prediction.asked() || alone, at('refusal').textContent,
    document.querySelectorAll('#memory button.row').length + document.querySelectorAll('#verdict li').length]"""


def report(name, failures, remark=""):
    for failure in failures[:12]:
        print(f"#   {failure}")
    print(f"not ok {name}: {len(failures)} of them" if failures else f"ok {name}{': ' + remark if remark else ''}")
    sys.stdout.flush()


def read_lessons(page, site):
    """{file: {fragment: [(lesson, link's text, whether it is an anchor into code)]}}, what is wrong in lessons, and
    counts."""
    targets, wrong, n_links, n_anchors = {}, [], 0, 0
    for lesson in sorted(name for name in os.listdir(site) if re.fullmatch(r"lesson_\d\d\.html", name)):
        page.open(os.path.join(site, lesson))
        links, broken, text = page.run(LINKS)
        wrong += [f"{lesson} shows no {image}" for image in broken]
        wrong += [f"{lesson} has brackets in place of a link: {left}" for left in BRACKETS.findall(text)]
        for address, kind, words in links:
            if re.match(r"https?:", address):
                continue
            path, _, fragment = address.partition("#")
            file = urllib.parse.unquote(path.removeprefix("file://"))
            if not file.startswith(site + "/"):
                wrong.append(f"{lesson}: {address} lies outside of the site")
                continue
            n_links, n_anchors = n_links + 1, n_anchors + (kind == "anchor" and ":" in words)
            targets.setdefault(file, {}).setdefault(fragment, []).append((lesson, words, kind == "anchor"))
    return targets, wrong, f"{n_links} links, {n_anchors} of them to a line of code"


def check_target(page, file, places):
    """Opens a file that lessons lead to. What is wrong, of all its places."""
    lesson = next(iter(places.values()))[0][0]
    if not os.path.isfile(file):
        return [f"{lesson}: there is no {file}"]
    if os.path.basename(file) == "explorer.html":
        return [problem for fragment, found in places.items()
                for problem in check_explorer(page, file, fragment, found[0][0])]
    page.open(file)
    names = [urllib.parse.unquote(fragment) for fragment in places if fragment]
    wrong = []
    for (fragment, found), line in zip([item for item in places.items() if item[0]], page.run(PLACES % names)):
        if line is None:
            wrong.append(f"{found[0][0]}: {os.path.basename(file)} has no #{fragment}")
        for lesson, words, is_anchor in found:
            name = words.partition(":")[2]
            if line is not None and is_anchor and name and name not in line:
                wrong.append(f"{lesson}: {words} leads to the line {line.strip()[:80]}")
    return wrong


def check_explorer(page, file, fragment, lesson):
    page.open(file, fragment)
    asked, refusal, rows = page.run(EXPLORED)
    return [] if asked and not refusal and rows \
           else [f"{lesson}: explorer.html#{fragment}: {refusal or 'neither layout nor puzzle'}"]


def main():
    folder = tempfile.mkdtemp()
    try:
        site = os.path.join(os.path.realpath(folder), "site")
        shutil.copytree(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "docs", "html"), site)
        with browser.Browser() as page:
            targets, wrong, counted = read_lessons(page, site)
            report("site_lessons_open", wrong, counted)
            wrong = [problem for file, places in targets.items() for problem in check_target(page, file, places)]
            report("site_links_of_lessons_resolve", wrong, f"{len(targets)} pages")
            page.open(os.path.join(site, "lesson_03.html"))
            report("site_formulas_are_set", [] if page.run(FORMULA) else ["lesson_03.html has none"])
            report("site_has_no_complaint", page.errors)
    finally:
        shutil.rmtree(folder)


main()
