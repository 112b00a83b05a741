"""Prose of this project, as Doxygen has to get it: what Doxygen would take for commands is escaped, formulas become its
formulas, anchors and links lead to pages of the site. One line in, one line out: a place in a source file stays where
it is."""
import html
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lessons import anchors, pages  # noqa: E402

# Commands that comments may use; any other @word, as in @node03, is text.
COMMANDS = "collective|errors|source|param|return|file|f\\$|f\\[|f\\]|ref|verbatim|endverbatim"
TAGS = "a|b|br|code|details|div|em|i|img|kbd|p|pre|strong|sub|summary|sup"


def page_id(path):
    """The name of a markdown file's page: its address without .html."""
    lesson = re.fullmatch(r"lessons/(\d\d)-[^/]+/README\.md", path)
    if lesson:
        return "lesson_" + lesson.group(1)
    if path == "README.md":
        return "index"
    return re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"(/README)?\.md$", "", path)).strip("_").lower() + "_page"


def slug(text):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def heading_id(path, name):
    """Characters outside of ASCII become their numbers: headings of one length would share a name."""
    return page_id(path) + "_" + re.sub(r"[^a-z0-9]", lambda c: "_" if c[0].isascii() else f"{ord(c[0]):x}", name)


def escape(text, commands=COMMANDS):
    """Text outside of code and formulas. What stands in double quotes Doxygen leaves alone, but for tags."""
    parts = re.split(r'("[^"\n]*")', text)
    return "".join(part if i % 2 and not re.search(r"[<@\\]", part) else _escape(part, commands)
                   for i, part in enumerate(parts))


def _escape(text, commands):
    text = re.sub(r"\\(?![\\`*_{}\[\]()#+.!|<>-])", r"\\\\", text)
    text = re.sub(rf"@(?!(?:{commands})(?![a-z]))" if commands else "@", r"\\@", text)
    text = re.sub(rf"<(?!/?(?:{TAGS})\b|!--)", r"\\<", text)
    text = re.sub(r"%(?=\w)", r"\\%", text)
    text = re.sub(r"(?<![\w&])#(?=\w)", r"\\#", text)
    return re.sub(r"(?<![-\\|:])--(?![-|:])", r"\\--", text)


def source_link(path, line, text):
    """A link that tools/docs/build turns into one to the source's page, once Doxygen has chosen its name."""
    return f'<a href="source:{path}:{line}" class="anchor">{text}</a>'


def link(text, target, page):
    """Markdown's [text](target), from this page of the project."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return f"[{text}]({target})"
    path, _, fragment = target.partition("#")
    place = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if place == pages.EXPLORER:
        return f'<a href="explorer.html#{html.escape(fragment)}">{text}</a>'
    if os.path.isdir(os.path.join(anchors.ROOT, place)):
        readme = os.path.join(place, "README.md")
        place = readme if os.path.exists(os.path.join(anchors.ROOT, readme)) else place
    if place.endswith(".md"):
        address = page_id(place) + ".html" + ("#" + heading_id(place, fragment) if fragment else "")
        return f'<a href="{address}">{text}</a>'
    if place.endswith((".svg", ".png")):
        return f'<a href="files/{place}">{text}</a>'
    if os.path.isfile(os.path.join(anchors.ROOT, place)):
        return source_link(place, 1, text)
    return text


def image(text, target, page, width=""):
    place = os.path.normpath(os.path.join(os.path.dirname(page), target))
    return f'<img class="figure" src="files/{place}"{width} alt="{text}"/>'


def html_image(tag, page):
    """<img src="..." width="..." alt="...">, as pages have it where a picture is small: in a table."""
    said = dict(re.findall(r'\b(src|width|alt)\s*=\s*"([^"]*)"', tag))
    return image(said.get("alt", ""), said.get("src", ""), page, f' width="{said["width"]}"' if "width" in said else "")


def names_of_files(text, page):
    """In a comment: dp_bucket.c and lib/ops/op.h become links."""
    def linked(match):
        place = file_named(match.group(), page)
        return source_link(place, 1, match.group()) if place and place != page else match.group()
    return re.sub(r"(?<![\w/.<>=\"-])(?:[\w-]+/)*[\w-]+\.(?:cu|cpp|c|h)(?![\w/>\"-])(?!\.\w)", linked, text)


# Code, formulas, images, links: what must be taken as a whole, in this order.
PIECES = re.compile(r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
                    r"|(?P<display>\$\$(?P<display_text>[^$]+)\$\$)"
                    r"|(?<![\w\\$])\$(?P<math>[^\s$](?:[^$]*[^\s$\\])?)\$(?![\w$])"
                    r"|!\[(?P<alt>[^\]]*)\]\((?P<image>[^()\s]+)\)"
                    r"|(?P<html_image><img\b[^>]*>)"
                    r"|(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])+)\]\((?P<target>[^()\s]+)\)"
                    r"|(?P<anchor>" + anchors.ANCHOR.pattern + ")", re.S)


def file_named(name, page):
    """The project's file of this name, next to the page or from the root; None."""
    for place in (os.path.normpath(os.path.join(os.path.dirname(page), name)), name):
        if re.fullmatch(r"[\w.-][\w./-]*", name) and not place.startswith("..") \
                and os.path.isfile(os.path.join(anchors.ROOT, place)):
            return place
    return None


def code(text, page, links=True):
    """`code`: an anchor or the name of a file is a link. One tick and a quote inside would end Doxygen's span, two do
    not."""
    inner = text.strip("`")
    place = file_named(inner, page) if links else None
    if place and place != page:
        return link(f"<code>{inner}</code>", os.path.relpath(place, os.path.dirname(page) or "."), page)
    found = list(anchors.find(inner)) if links else []
    if found and found[0][0].group() == inner.strip():
        return anchor(found[0][1], found[0][2])
    if re.search(r"%\w|\\\|", inner):          # a per cent sign, and a bar in a table
        quoted = re.sub(r"([\\@#<>&%\"])", r"\\\1", inner.replace("\\|", "\0"))
        return "<code>" + quoted.replace("\0", "\\|").replace("--", "\\--") + "</code>"
    return f"``{inner}``" if "'" in inner and not text.startswith("``") else text


def anchor(path, name):
    line, problem = anchors.resolve(path, name)
    if problem:
        return escape(f"{path}:{name}" if name else path)
    if os.path.isdir(os.path.join(anchors.ROOT, path)):
        return link(f"<code>{path}</code>", path, "README.md")
    return source_link(path, line, f"<code>{path}:{name}</code>" if name else f"<code>{path}</code>")


def inline(line, page, commands=COMMANDS, links=True):
    """A line or paragraph of prose. `page`: the file that it is in, from the project's root. links False: the text of a
    link, in which names of files do not become links of their own."""
    out, at = [], 0
    for match in PIECES.finditer(line):
        out.append(escape(line[at:match.start()], commands))
        at = match.end()
        if match.group("code"):
            out.append(code(match.group(), page, links))
        elif match.group("display"):
            out.append("@f[ " + match.group("display_text").strip() + " @f]")
        elif match.group("math"):
            out.append("@f$" + match.group("math") + "@f$")
        elif match.group("image"):
            out.append(image(match.group("alt"), match.group("image"), page))
        elif match.group("html_image"):
            out.append(html_image(match.group(), page))
        elif match.group("target"):
            out.append(link(inline(match.group("text"), page, commands, False), match.group("target"), page))
        else:
            found = list(anchors.find(match.group("anchor")))
            out.append(anchor(found[0][1], found[0][2]) if found else escape(match.group(), commands))
    out.append(escape(line[at:], commands))
    # Doxygen sees no ** next to a tag, which is what links and code have become.
    return re.sub(r"\*\*((?:(?!\*\*)[^`])*<(?:a|code)\b(?:(?!\*\*)[^`])*|`[^`]+`)\*\*", r"<b>\1</b>", "".join(out))
