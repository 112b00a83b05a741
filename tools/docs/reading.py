"""What a reader of the site's pages needs and Doxygen does not make: a search of their whole text, links to the next
and the previous page, and headings whose address can be copied.

The search is lunr.js (https://lunrjs.com), in the browser: it finds words by their stems and takes wild cards. A page
is indexed by its sections, so that a hit leads to the place. The texts lie in a script, so it works from file://,
too."""
import html
import json
import os
import re
from html.parser import HTMLParser

LUNR = ["/usr/share/javascript/lunr/lunr.min.js", "/usr/share/nodejs/lunr/lunr.min.js"]
HEADING = re.compile(r"<h([1-4])\b[^>]*>(?:(?!</h\1>).)*?<a class=\"anchor\" id=\"([^\"]+)\"></a>.*?</h\1>", re.S)


class Text(HTMLParser):
    """The words of a piece of HTML. Numbers of lines and formulas' delimiters are none."""
    def __init__(self):
        super().__init__()
        self.out, self.silent = [], 0

    def handle_starttag(self, tag, attrs):
        self.silent += tag in ("script", "style")
        if tag not in ("a", "code", "b", "em", "i", "span", "strong"):
            self.out.append(" ")

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.silent:
            self.out.append(data)


def text_of(piece):
    parser = Text()
    parser.feed(piece)
    return re.sub(r"\s+", " ", re.sub(r"\\[()\[\]]", " ", "".join(parser.out))).strip()


def contents_of(page):
    """Where the text is, between Doxygen's header and footer; and its title."""
    begin = re.search(r'<div class="contents">', page)
    end = re.search(r"</div><!-- (?:PageDoc|contents) -->", page)
    title = re.search(r'<div class="title">(.*?)</div>', page, re.S)
    return (begin.end(), end.start(), text_of(title.group(1)) if title else "") if begin and end else None


def sections(page, title):
    """[(anchor, heading, text)] of a page's text; the first has no anchor."""
    at, name, anchor, out = 0, title, "", []
    for match in HEADING.finditer(page):
        out.append((anchor, name, text_of(page[at:match.start()])))
        anchor, name, at = match.group(2), text_of(match.group()), match.end()
    out.append((anchor, name, text_of(page[at:])))
    return [section for section in out if section[2]]


def with_links(page, before, after):
    """Headings lead to themselves, and the page to those before and after it, each (address, title) or None."""
    begin, end, _ = contents_of(page)
    def heading(match):
        level, anchor = match.group(1), match.group(2)
        return match.group()[:-len(f"</h{level}>")] + f' <a class="here" href="#{anchor}" title="the address of this ' \
               f'section">#</a></h{level}>'
    turn = "".join(f'<a class="{kind}" rel="{kind}" href="{address}">{html.escape(title)}</a>'
                   for kind, (address, title) in (("prev", before or ("", "")), ("next", after or ("", ""))) if address)
    return page[:begin] + HEADING.sub(heading, page[begin:end]) + f'<nav class="turn">{turn}</nav>' + page[end:]


SEARCH = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Search: Trivium</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="style.css"></head><body class="plain">
<h1>Search</h1><p><a href="index.html">Trivium</a>. All words of the pages; <code>bubbl*</code> finds what begins so,
<code>+ring +backward</code> only sections with both.</p>
<form id="form"><input id="words" type="search" size="40" autofocus aria-label="words"> <button>Search</button></form>
<p id="count" role="status"></p><ol id="hits" class="hits"></ol>
<script src="lunr.min.js"></script><script src="texts.js"></script><script src="search.js"></script></body></html>
"""
SCRIPT = """// The texts of texts.js, searched by lunr. #words in the address is a search, too.
// Chinese has no blanks between words: of a run of its characters, each two that follow one another are a word.
const RUNS = /\\p{Script=Han}+|[^\\p{Script=Han}]+/gu;
function pairs(text) {
  return [...text.matchAll(RUNS)].flatMap(({0: run, index}) => /\\p{Script=Han}./u.test(run)
    ? [...run.slice(1)].map((_, i) => [run.slice(i, i + 2), index + i]) : [[run, index]]);
}
function bare(token) { return token.update(word => word.replace(/^[^\\p{L}\\p{N}]+|[^\\p{L}\\p{N}]+$/gu, "")); }
lunr.Pipeline.registerFunction(bare, "bare");
const index = lunr(function () {
  this.tokenizer = (text, said) => lunr.tokenizer(text, said).flatMap(({str, metadata}) => pairs(str).map(
    ([word, at]) => new lunr.Token(word, {...metadata, position: [metadata.position[0] + at, word.length]})));
  this.pipeline.before(lunr.trimmer, bare);
  this.pipeline.remove(lunr.trimmer);
  this.ref("at"); this.field("heading", {boost: 4}); this.field("title", {boost: 2}); this.field("text");
  this.metadataWhitelist = ["position"];
  TEXTS.forEach((row, at) => this.add({at, ...row}));
});
function found(words) {
  // All words have to be there, unless the reader says otherwise.
  const plain = !/[+:~^-]/.test(words);
  const parts = words.trim().split(/\\s+/).flatMap(word => pairs(word).map(([part]) => "+" + part));
  try { return index.search(plain ? parts.join(" ") : words); }
  catch (error) { return []; }
}
// The text around the first place, with all places marked.
function excerpt(text, hit) {
  const places = Object.values(hit.matchData.metadata).flatMap(fields => fields.text ? fields.text.position : [])
    .sort((a, b) => a[0] - b[0]);
  const p = document.createElement("p"), from = Math.max(0, (places.length ? places[0][0] : 0) - 80);
  let at = from;
  if (from > 0) p.append("... ");
  for (const [start, length] of places) {
    if (start < at || start > from + 240) continue;
    const mark = document.createElement("mark");
    mark.append(text.slice(start, start + length));
    p.append(text.slice(at, start), mark);
    at = start + length;
  }
  p.append(text.slice(at, Math.max(at, from + 300)), " ...");
  return p;
}
function show(words) {
  const hits = words.trim() ? found(words) : [], list = document.getElementById("hits");
  document.getElementById("count").textContent = words.trim() ? hits.length + " sections" : "";
  list.replaceChildren(...hits.slice(0, 60).map(hit => {
    const row = TEXTS[hit.ref], item = document.createElement("li"), link = document.createElement("a");
    link.href = row.address;
    link.append(row.heading === row.title ? row.title : row.title + ": " + row.heading);
    item.append(link, excerpt(row.text, hit));
    return item;
  }));
}
const box = document.getElementById("words");
document.getElementById("form").addEventListener("submit", event => {
  event.preventDefault();
  location.hash = encodeURIComponent(box.value);
});
function read() { box.value = decodeURIComponent(location.hash.slice(1)); show(box.value); }
addEventListener("hashchange", read);
read();
"""


def write(site, addresses):
    """addresses: of the pages, in the order of reading. Returns the number of sections."""
    pages, rows = {}, []
    for address in addresses:
        with open(os.path.join(site, address), encoding="utf-8") as file:
            pages[address] = file.read()
    titles = {address: contents_of(page)[2] for address, page in pages.items()}
    for i, address in enumerate(addresses):
        begin, end, title = contents_of(pages[address])
        rows += [{"address": address + ("#" + anchor if anchor else ""), "title": title, "heading": heading,
                  "text": text}
                 for anchor, heading, text in sections(pages[address][begin:end], title)]
        beside = [(addresses[j], titles[addresses[j]]) if 0 <= j < len(addresses) else None for j in (i - 1, i + 1)]
        with open(os.path.join(site, address), "w", encoding="utf-8") as file:
            file.write(with_links(pages[address], *beside))
    for name, text in (("search.html", SEARCH), ("search.js", SCRIPT),
                       ("texts.js", "const TEXTS = " + json.dumps(rows) + ";\n")):
        with open(os.path.join(site, name), "w", encoding="utf-8") as file:
            file.write(text)
    return len(rows)
