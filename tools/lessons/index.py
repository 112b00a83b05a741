"""The lessons' index, lessons/README.md: a row of each lesson says what the lesson's own head and docs/pytorch say.

A row is | title, a link | <img> | hours | after | scripts | you will |. Hours are those to read, "+", those of the
exercises. After are the lessons of the head's first clause, and in parentheses those that stand later in it. The
picture is one that the lesson shows."""
import glob
import os
import re

import lessons.anchors as anchors
import lessons.pages as pages

INDEX = "lessons/README.md"
TWINS = "docs/pytorch/README.md"
WORDS = {"an hour and a half": "1½", "an": "1", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
         "six": "6", "seven": "7",
         "eight": "8", "nine": "9", "ten": "10"}
NUMBER = "(" + "|".join(WORDS) + ")"


def head_part(text, name):
    """What stands after **Time**: in a lesson's head, up to the next bold word."""
    found = re.search(rf"\*\*{name}\*\*:?\s*(.*?)(?=\*\*|\n\s*\n|\Z)", text, re.S)
    return " ".join(found.group(1).split()) if found else ""


def hours(time):
    """ "two hours to read, three to six for the exercises" is 2 + 3 to 6; None: no hours to read."""
    read = re.search(rf"\b{NUMBER}(?: hours?)? to read", time)
    more = re.search(rf"\b(?:{NUMBER} to )?{NUMBER}(?: hours?)? for the exercises?", time)
    if not read:
        return None
    low, high = (WORDS.get(word) for word in more.groups()) if more else (None, None)
    return WORDS[read.group(1)] + (" + " + (low + " to " if low else "") + high if more else "")


def numbers(text):
    """The lessons that a text names, in order: 03 to 07 are five."""
    out = set()
    for first, last in re.findall(r"\b(\d\d)\b(?: to (\d\d)\b)?", text):
        out |= set(range(int(first), int(last or first) + 1))
    return sorted(out)


def said(found):
    """[1, 2, 4, 5, 6] as 01, 02, 04 to 06"""
    out, i = [], 0
    while i < len(found):
        end = i
        while end + 1 < len(found) and found[end + 1] == found[end] + 1:
            end += 1
        out += [f"{found[i]:02d} to {found[end]:02d}"] if end - i >= 2 else [f"{n:02d}" for n in found[i:end + 1]]
        i = end + 1
    return ", ".join(out)


def after(prerequisites):
    """The first clause has what a lesson needs. Its parentheses, and what follows, have what helps."""
    outside = re.sub(r"\([^()]*\)", lambda m: " " * len(m.group()), prerequisites)
    clause = re.match(r"[^;.]*", outside).group()
    needs = numbers(clause)
    helps = [n for n in numbers(prerequisites) if n not in needs]
    return " ".join(part for part in (said(needs), f"({said(helps)})" if helps else "") if part)


def twins():
    """{number of a lesson: its scripts}, by the table of docs/pytorch."""
    out, path = {}, os.path.join(anchors.ROOT, TWINS)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for number, script in re.findall(r"^\| \[?(\d\d)\b[^|]*\| \[(\w+\.py)\]", file.read(), re.M):
                out.setdefault(number, []).append(script)
    return out


def row_of(lesson, scripts):
    """What the index has to say of a lesson: (hours, after, scripts, the names of its pictures)"""
    page = pages.Page(lesson)
    with open(os.path.join(anchors.ROOT, lesson), encoding="utf-8") as file:
        head = file.read().split("\n## ")[0]
    names = {os.path.basename(target) for _, is_image, _, target in page.links() if is_image}
    return hours(head_part(head, "Time")), after(head_part(head, "Prerequisites")), ", ".join(scripts), names


def check_row(line, cells, lesson, scripts):
    h, a, s, pictures = row_of(lesson, scripts)
    if h is None:
        return [(line, f'the head of {lesson} does not say "N hours to read"')]
    wrong = []
    for name, cell, should in (("hours", cells[2], h), ("after", cells[3], a),
                               ("scripts", ", ".join(re.findall(r"\[(.*?)\]", cells[4])), s)):
        if cell != should:
            wrong.append((line, f'{name}: the index has "{cell}", and {lesson} has "{should}"'))
    picture = re.search(r'src="([^"]*)"', cells[1])
    if pictures and not (picture and os.path.basename(picture.group(1)) in pictures):
        wrong.append((line, f"the picture is none of those that {lesson} shows: {', '.join(sorted(pictures))}"))
    return wrong


def check(page):
    """[(line, what is wrong)]: a row for each lesson, in an order in which they can be read."""
    wrong, seen, scripts = [], [], twins()
    all_of_them = [os.path.relpath(p, anchors.ROOT)
                   for p in sorted(glob.glob(os.path.join(anchors.ROOT, "lessons", "*", "README.md")))]
    unread = set(numbers(" ".join(all_of_them)))
    for line, text in page.prose:
        row = re.match(r"\| \[[^\]]*\]\(((\d\d)-[^/)]+/README\.md)\) \|", text)
        lesson = "lessons/" + row.group(1) if row else ""
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if row and len(cells) == 6 and os.path.exists(os.path.join(anchors.ROOT, lesson)):
            seen.append(lesson)
            wrong += check_row(line, cells, lesson, scripts.get(row.group(2), []))
            late = [n for n in numbers(re.sub(r"\(.*?\)", "", cells[3])) if n in unread and n != int(row.group(2))]
            wrong += [(line, f"{lesson} stands before lesson {n:02d}, which it needs") for n in late]
            unread.discard(int(row.group(2)))
    if sorted(seen) != all_of_them:
        wrong.append((1, "rows of six cells, one per lesson: "
                      f"{', '.join(p for p in all_of_them if p not in seen) or 'one has two'}"))
    return wrong
