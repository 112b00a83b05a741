"""What a page of markdown holds: its lines of prose, headings, links, anchors and fenced blocks, each with its line."""
import itertools
import os
import re

import lessons.anchors as anchors

SECTIONS = ["Goal", "Theory", "Code tour", "Run it", "Measure it", "Real world", "Exercises"]
LINK = re.compile(
    r"(!?)\[((?:[^\[\]\n]|\n(?!\s*\n)|\[[^\[\]\n]*\])*)\]"
    r"\(\s*<?([^()\s>]*(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+[\"'][^)]*)?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]\n]+\]:\s*(\S+)", re.M)
HTML_LINK = re.compile(r"<a\b[^>]*?\bhref\s*=\s*[\"']([^\"']+)[\"']")
HTML_IMAGE = re.compile(r"<img\b[^>]*>")


class Block:
    """A fenced block: `info` behind the fence, `text`, the line of its fence, and the line behind its end."""

    def __init__(self, line, info):
        self.line, self.info, self.lines, self.end = line, info, [], line

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


class Page:
    def __init__(self, path):
        """`path` from the project's root."""
        self.path = path
        self.folder = os.path.dirname(path)
        self.blocks, self.headings, self.prose = [], [], []       # prose: (line, text) outside of blocks
        with open(os.path.join(anchors.ROOT, path), encoding="utf-8") as file:
            self._read(file.read().split("\n"))

    def _read(self, lines):
        block = fence = None
        for number, line in enumerate(lines, 1):
            mark = re.match(r" {0,3}(`{3,}|~{3,})\s*(.*?)\s*$", line)
            if block is not None:
                if mark and mark.group(1).startswith(fence) and not mark.group(2):
                    block.end, block = number + 1, None
                else:
                    block.lines.append(line)
            elif mark and "`" not in mark.group(2):
                block, fence = Block(number, mark.group(2)), mark.group(1)
                self.blocks.append(block)
            elif not re.match(r"(    |\t)\s*\S", line) or self._goes_on(number, lines):
                self.prose.append((number, line))
                heading = re.match(r"(#{1,6})\s+(.*?)\s*#*$", line)
                if heading:
                    self.headings.append((number, len(heading.group(1)), heading.group(2)))
        self.open_block = block

    def _goes_on(self, number, lines):
        """An indented line is code only behind a blank line or other code; in a list it is the list's text."""
        for before in reversed(lines[:number - 1]):
            if not before.strip():
                continue
            return bool(re.match(r"\s*([-*+]|\d+[.)])\s", before)) or (lines[number - 2].strip() != ""
                                                                       and not before.startswith("    "))
        return False

    def _text(self):
        """The prose with its line breaks, and nothing in the lines that are none: a link may go over two lines."""
        lines = dict(self.prose)
        return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))

    def links(self):
        """(line, is_image, text, target) of every link and image in prose."""
        plain = re.sub(r"(`+)(?!`)(?:[^`\n]|\n(?!\s*\n))+?\1(?!`)", lambda m: re.sub(r"[^\n]", "`", m.group()),
                       self._text())
        for match in LINK.finditer(plain):
            number = plain.count("\n", 0, match.start()) + 1
            yield number, match.group(1) == "!", match.group(2), match.group(3)
            inner = LINK.search(match.group(2))                # an image in a link's text
            if inner:
                yield number, inner.group(1) == "!", inner.group(2), inner.group(3)
        for match in HTML_IMAGE.finditer(plain):
            source, text = (re.search(rf'\b{name}\s*=\s*"([^"]*)"', match.group()) for name in ("src", "alt"))
            yield plain.count("\n", 0, match.start()) + 1, True, text.group(1) if text else "", source.group(1) \
                if source else ""
        for pattern in (REFERENCE, HTML_LINK):
            for match in pattern.finditer(plain):
                yield plain.count("\n", 0, match.start()) + 1, False, "-", match.group(1)

    def anchors(self):
        """(line, path, name) of every anchor in prose, in `code` too, but not in formulas."""
        plain = re.sub(r"\$[^$\n]+\$", lambda m: " " * len(m.group()), self._text())
        for match, path, name in anchors.find(plain):
            yield plain.count("\n", 0, match.start()) + 1, path, name

    def slugs(self):
        """The headings' names in links, as GitHub makes them."""
        out, seen = set(), {}
        for _, _, text in self.headings:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            n = seen.get(slug, 0)
            seen[slug] = n + 1
            out.add(slug if n == 0 else f"{slug}-{n}")
        return out


MOST_QUOTED = 20             # lines of a file, in one block

# The one page that is built and that lessons lead to (make explorer); its address says what is set there.
EXPLORER = "build/explorer/explorer.html"
EXPLORER_WORDS = {"rank", "ask", "answer", "pin", "puzzle"}


def check_preset(fragment):
    """The error in the address of a layout: #tp=2&ask=..."""
    with open(os.path.join(anchors.ROOT, "docs", "options.md"), encoding="utf-8") as file:
        options = set(re.findall(r"^\| `--([\w-]+)`", file.read(), flags=re.M))
    for word in fragment.split("&"):
        name, equals, _ = word.partition("=")
        if not equals or name not in options | EXPLORER_WORDS:
            return f"the explorer's address has {word}, which is no option=value"
    return None


def check_links(page):
    """[(line, what is wrong)]"""
    wrong = []
    for line, is_image, text, target in page.links():
        if is_image and not text.strip():
            wrong.append((line, f"the image {target} has no text for those who cannot see it"))
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, fragment = target.partition("#")
        place = os.path.normpath(os.path.join(page.folder, path)) if path else page.path
        if target == "" or path.startswith("/") or place.startswith(".."):
            wrong.append((line, f"the link ({target}) leads out of the project; links are relative to the file"))
        elif place == EXPLORER:
            problem = check_preset(fragment)
            if problem:
                wrong.append((line, problem))
        elif place.split("/")[0].startswith("build"):
            wrong.append((line, f"the link ({target}) leads to what is built, which readers do not have"))
        elif not os.path.exists(os.path.join(anchors.ROOT, place)):
            wrong.append((line, f"the link ({target}) leads nowhere: there is no {place}"))
        elif fragment and place.endswith(".md"):
            slugs = (page if place == page.path else Page(place)).slugs()
            if fragment not in slugs:
                wrong.append((line, f"{place} has no heading #{fragment}; it has {', '.join(sorted(slugs)[:12])}"))
    return wrong


def check_anchors(page):
    """(how many there are, [(line, what is wrong)])"""
    found = list(page.anchors())
    results = [(line, anchors.resolve(path, name)[1]) for line, path, name in found]
    return len(found), [(line, why) for line, why in results if why]


def check_quotes(page):
    """[(line, what is wrong)] in the blocks "python docs/pytorch/dp.py": lines of that file. A line "..." stands for
    those left out."""
    wrong = []
    for block in page.blocks:
        words = block.info.split()
        if words[:1] != ["python"] or len(words) == 1:
            continue
        path = os.path.join(anchors.ROOT, words[1])
        if len(words) > 2 or not os.path.isfile(path):
            wrong.append((block.line, f'"{block.info}" is not "python FILE", with a file of the project'))
            continue
        with open(path, encoding="utf-8") as file:
            there = file.read().split("\n")
        wrong += _not_in(block, words[1], there)
        if len(block.lines) > MOST_QUOTED:
            wrong.append((block.line, f"{len(block.lines)} lines of {words[1]}; at most {MOST_QUOTED} are shown"))
    return wrong


def _not_in(block, name, there):
    """The first line that the file does not have where the block has it."""
    pieces, at = [[]], 0
    for number, line in enumerate(block.lines, block.line + 1):
        if line == "...":
            pieces.append([])
        else:
            pieces[-1].append((number, line))
    for piece in filter(None, pieces):
        lines = [line for _, line in piece]
        fits = [sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(lines, there[i:])))
                for i in range(at, len(there))]
        most = max(fits, default=0)
        if most < len(lines):
            return [(piece[most][0], f"{name} does not have this line there: {lines[most]}")]
        at += fits.index(most) + most
    return []


# ---- a lesson's anchors as links on a forge: [path:name] is a reference, which a line at the lesson's end defines ----
DEFINITION = re.compile(r"^\[[\w./-]+(?::[\w-]+)?\]: (?!\w+:)\S+$")


def definitions(page):
    """The lines that a lesson ends with, in the order of its anchors. They lead to the file: a line's number would not
    stay true."""
    plain = re.sub(r"(`+)(?!`)(?:[^`\n]|\n(?!\s*\n))+?\1(?!`)|\$[^$\n]+\$", lambda m: " " * len(m.group()),
                   page._text())
    found = dict.fromkeys((match.group(), path) for match, path, _ in anchors.find(plain))
    return [f"{text}: {os.path.relpath(path, page.folder)}" for text, path in found]


def check_definitions(page):
    lines = [(number, text) for number, text in page.prose if DEFINITION.match(text)]
    if [text for _, text in lines] == definitions(page):
        return []
    last = lines[0][0] if lines else page.prose[-1][0]
    return [(last, f"the last lines do not define its anchors as links; tools/check-lessons --define {page.path} does")]


def define(page):
    """Write them. A blank line and the definitions are the end of the file."""
    path = os.path.join(anchors.ROOT, page.path)
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if not DEFINITION.match(line)]
    text = "\n".join(lines).rstrip("\n") + "\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n" + "\n".join(definitions(page)) + "\n" if definitions(page) else text)


def is_lesson(path):
    return re.fullmatch(r"lessons/\d\d-[^/]+/README\.md", path) is not None


def check_sections(page):
    """A lesson's head and its sections, in their order."""
    number = re.match(r"lessons/(\d\d)", page.path).group(1)
    seconds = [(line, text) for line, level, text in page.headings if level == 2]
    head_end = seconds[0][0] if seconds else page.prose[-1][0] + 1
    wrong = []
    first = page.headings[0] if page.headings else (1, 0, "")
    if first[1] != 1 or not re.match(number + r"  ?\S", first[2]):
        wrong.append((first[0], f'the first heading has to be "# {number}  Title"'))
    head = "\n".join(text for line, text in page.prose if line < head_end)
    wrong += [(first[0], f"the paragraph below the title does not say **{word}**")
              for word in ("Prerequisites", "Time", "You need") if f"**{word}" not in head]
    names = [text for _, text in seconds]
    wrong += [(head_end, f"there is no section ## {name}") for name in SECTIONS if name not in names]
    should = [name for name in SECTIONS if name in names]
    for (line, text), name in zip([pair for pair in seconds if pair[1] in SECTIONS], should):
        if text != name:
            wrong.append((line, f"## {text} stands where ## {name} has to be; the order is {', '.join(SECTIONS)}"))
            break
    last = max([line for line, text in seconds if text == SECTIONS[-1]], default=0)
    wrong += [(line, f"## {text} is no section of a lesson; make it ### under one")
              for line, text in seconds if text not in SECTIONS and line < last]
    return wrong
