"""The parts of the concept pictures: boxes, arrows, words, and colours that a color-blind reader can distinguish.

A picture paints its own background, so that it can be read on a dark page. Sizes are pixels of a page 860 wide; no text
is smaller than 12. Colours are pale, after Okabe and Ito, under black text; what differs by colour differs by a word or
a frame, too. What moves does so by CSS within the file, round and round. Without it (on paper, or where a reader asked
for less motion) the picture stands still, and is whole.
"""
import html
import os
import shlex
import subprocess
import sys
import textwrap

BUILD = os.environ.get("BUILD", "build")
WIDTH = 860
INK, SOFT, LINE, PAPER = "#1a1a1a", "#5a5a5a", "#8a8a86", "#fdfdfb"
BLUE, ORANGE, GREEN, PINK = "#9cc3e6", "#f0b27a", "#93d0b5", "#e0b0cf"
RANKS = [BLUE, ORANGE, GREEN, PINK]
GREY, PALE, RED = "#dcdcd8", "#f2f2ee", "#d55e00"


def trivium(command):
    """What the program prints: numbers of a picture are the program's, not the painter's."""
    done = subprocess.run([f"{BUILD}/trivium"] + shlex.split(command), capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode:
        sys.exit(f"tools/concepts: trivium {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def number(x):
    """Coordinates without a tail of digits: the same text on every machine."""
    return f"{x:.1f}".rstrip("0").rstrip(".")


class Canvas:
    """Everything returns None and adds to .parts; (x, y) is a box's upper left corner, a text's baseline."""

    def __init__(self, title, description, height, width=WIDTH):
        self.title, self.description, self.width, self.height, self.parts = title, description, width, height, []
        self.rules, self.period = [], 0.0  # of what moves; the seconds after which all of it begins again
        self.text(16, 26, title, size=16, bold=True)

    def text(self, x, y, words, size=13, anchor="start", colour=INK, bold=False, italic=False, mono=False):
        style = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italic else "")
        style += ' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"' if mono else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" text-anchor="{anchor}" '
                          f'fill="{colour}"{style}>{html.escape(words)}</text>')

    def box(self, x, y, width, height, fill=PALE, words="", size=13, edge=LINE, thick=1.0, dashed=False, round_by=0,
            bold=False, colour=INK):
        """Words may have several lines; they stand in the middle."""
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
                          f'rx="{round_by}" '
                          f'fill="{fill}" stroke="{edge}" stroke-width="{number(thick)}"{dash}/>')
        lines = words.split("\n") if words else []
        for i, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + size * 0.35 + (i - (len(lines) - 1) / 2) * (size + 3), line, size,
                      "middle", bold=bold, colour=colour)

    def line(self, points, colour=LINE, thick=1.2, dashed=False):
        path = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{number(thick)}"{dash}/>')

    def arrow(self, points, colour=INK, thick=1.6, dashed=False):
        """Along the points; the head is at the last one."""
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5 or 1
        ux, uy, size = (x - x0) / length, (y - y0) / length, 5 + 2 * thick
        self.line(points[:-1] + [(x - ux * size * 0.7, y - uy * size * 0.7)], colour, thick, dashed)
        left, right = ((x - ux * size + sign * uy * size * 0.45, y - uy * size - sign * ux * size * 0.45)
                       for sign in (1, -1))
        self.parts.append(f'<path d="M{number(x)} {number(y)} L{number(left[0])} {number(left[1])} L{number(right[0])} '
                          f'{number(right[1])} Z" fill="{colour}"/>')

    def curve(self, start, bend, end, colour=INK, thick=1.6):
        """An arrow that is bent towards a point."""
        (x0, y0), (bx, by), (x, y) = start, bend, end
        self.parts.append(f'<path d="M{number(x0)} {number(y0)} Q{number(bx)} {number(by)} {number(x)} {number(y)}" '
                          'fill="none" '
                          f'stroke="{colour}" stroke-width="{number(thick)}"/>')
        length = ((x - bx) ** 2 + (y - by) ** 2) ** 0.5 or 1
        ux, uy = (x - bx) / length, (y - by) / length
        self.arrow([(x - ux * 2, y - uy * 2), (x + ux * 2, y + uy * 2)], colour, thick)

    def dot(self, x, y, radius=4, fill=INK, edge="none"):
        self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}" '
                          f'stroke="{edge}"/>')

    def legend(self, x, y, entries, gap=24):
        """[(fill, words)] side by side; returns the x after the last."""
        for fill, words in entries:
            self.box(x, y - 11, 14, 14, fill)
            self.text(x + 20, y, words, size=12)
            x += 20 + 6.6 * len(words) + gap
        return x

    def note(self, *lines):
        """The caption, at the foot; it is wrapped, and the height has to have room for it."""
        lines = [part for line in lines for part in textwrap.wrap(line, 132, break_on_hyphens=False)]
        for i, line in enumerate(lines):
            self.text(16, self.height - 12 - 17 * (len(lines) - 1 - i), line, size=12, colour=SOFT)

    # ---- what moves: what is drawn between begin... and end() ----
    def begin(self, frames, hidden=False):
        """frames: [(second, CSS)] of one period. hidden: not there when nothing moves."""
        name = f"m{len(self.rules)}"
        shown = "".join(f"{100 * at / self.period:.2f}%{{{css}}}" for at, css in frames)
        self.rules.append(f".{name}{{animation:{name} {number(self.period)}s linear infinite}}@keyframes "
                          f"{name}{{{shown}}}")
        self.parts.append(f'<g class="{name}"{" opacity=" + chr(34) + "0" + chr(34) if hidden else ""}>')

    def begin_from(self, at, until=None, faint=0.0, hidden=False):
        """There from a second on, until another; faint before and after."""
        until = self.period if until is None else until
        off, on = f"opacity:{number(faint)}", "opacity:1"
        self.begin([(0, on if at <= 0 else off), *([(at, off), (at + 0.01, on)] if at > 0 else []),
                    *([(until, on), (until + 0.01, off), (self.period, off)] if until < self.period
                      else [(self.period, on)])], hidden)

    def begin_way(self, dx, dy, at, until):
        """On its way by (dx, dy) between two seconds, and not there otherwise."""
        there, off = f"transform:translate({number(dx)}px,{number(dy)}px)", "opacity:0;transform:translate(0px,0px)"
        self.begin([(0, off), (at, off), (at + 0.01, "opacity:1;transform:translate(0px,0px)"),
                    (until, f"opacity:1;{there}"), (until + 0.01, f"opacity:0;{there}"),
                    (self.period, f"opacity:0;{there}")], hidden=True)

    def end(self):
        self.parts.append("</g>")

    def svg(self):
        moving = "".join(f"{rule}\n" for rule in self.rules)
        style = f"<style>\n{moving}@media " \
                f"(prefers-reduced-motion:reduce){{g{{animation:none!important}}}}\n</style>\n" if moving else ""
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif">\n'
                f"<title>{html.escape(self.title)}</title>\n<desc>{html.escape(self.description)}</desc>\n"
                f'{style}<rect width="100%" height="100%" fill="{PAPER}"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"
