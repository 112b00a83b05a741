"""What the concept pictures are drawn with: boxes, arrows, words, and colours that are told apart by readers who see few.

A picture paints its own background, so that it can be read on a dark page. Sizes are pixels of a page 860 wide; no text is smaller than 12.
Colours are pale, after Okabe and Ito, under black text; what differs by colour differs by a word or a frame, too.
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
    done = subprocess.run([f"{BUILD}/trivium"] + shlex.split(command), capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
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
        self.text(16, 26, title, size=16, bold=True)

    def text(self, x, y, words, size=13, anchor="start", colour=INK, bold=False, italic=False, mono=False):
        style = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italic else "")
        style += ' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"' if mono else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{style}>{html.escape(words)}</text>')

    def box(self, x, y, width, height, fill=PALE, words="", size=13, edge=LINE, thick=1.0, dashed=False, round_by=0, bold=False, colour=INK):
        """Words may have several lines; they stand in the middle."""
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" rx="{round_by}" '
                          f'fill="{fill}" stroke="{edge}" stroke-width="{number(thick)}"{dash}/>')
        lines = words.split("\n") if words else []
        for i, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + size * 0.35 + (i - (len(lines) - 1) / 2) * (size + 3), line, size, "middle", bold=bold, colour=colour)

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
        left, right = ((x - ux * size + sign * uy * size * 0.45, y - uy * size - sign * ux * size * 0.45) for sign in (1, -1))
        self.parts.append(f'<path d="M{number(x)} {number(y)} L{number(left[0])} {number(left[1])} L{number(right[0])} {number(right[1])} Z" fill="{colour}"/>')

    def curve(self, start, bend, end, colour=INK, thick=1.6):
        """An arrow that is bent towards a point."""
        (x0, y0), (bx, by), (x, y) = start, bend, end
        self.parts.append(f'<path d="M{number(x0)} {number(y0)} Q{number(bx)} {number(by)} {number(x)} {number(y)}" fill="none" '
                          f'stroke="{colour}" stroke-width="{number(thick)}"/>')
        length = ((x - bx) ** 2 + (y - by) ** 2) ** 0.5 or 1
        ux, uy = (x - bx) / length, (y - by) / length
        self.arrow([(x - ux * 2, y - uy * 2), (x + ux * 2, y + uy * 2)], colour, thick)

    def dot(self, x, y, radius=4, fill=INK, edge="none"):
        self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}" stroke="{edge}"/>')

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

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif">\n'
                f"<title>{html.escape(self.title)}</title>\n<desc>{html.escape(self.description)}</desc>\n"
                f'<rect width="100%" height="100%" fill="{PAPER}"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"
