"""What was handed in: whose folders there are, and where somebody's file for an exercise is: FOLDER/03/FILE, or
FOLDER/FILE.

A name that differs in upper and lower case only is found, and said; so is a browser's second download, "scale (1).c".
Where there are several files for one exercise, the first of this order is graded, and all are named: the name as it
should be in FOLDER/03, then in FOLDER; then a name that is nearly so, if there is only one. Of several names that are
nearly so none is chosen."""
import datetime
import math
import os
import re

from . import ROOT, Trouble, build


def students(folder):
    try:
        return sorted(e.name for e in os.scandir(folder) if not e.name.startswith(".")
                      and (e.is_dir() or e.is_symlink()))
    except OSError as e:
        raise Trouble(f"DIR={folder}: {e.strerror}") from None


def moment(text):
    """Seconds of "2026-12-01 18:00", local time; None of ""."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        raise Trouble(f"DEADLINE={text} is no date and time; write it like 2026-12-01 18:00") from None


def days_late(path, deadline):
    """Begun days after the deadline at which a file was last written; None if there is no deadline."""
    if deadline is None:
        return None
    return max(0, math.ceil((os.lstat(path).st_mtime - deadline) / 86400)) if path else 0


def printable(name):
    return re.sub(r"[^\w.-]", "?", name)


def said(names):
    return " and ".join(names).encode("utf-8", "backslashreplace").decode()


def plain(name):
    """Without what a browser or a file manager adds to the name of a second copy: "scale (1).c", "scale(1).c",
    "scale-1.c", "scale copy.c"."""
    return re.sub(r"( ?\(\d{1,3}\)|-\d{1,3}| copy| - Copy| \(copy\))(?=\.[^.]*$|$)", "", name, flags=re.I).lower()


def like(folder, name):
    """Names in the folder that are nearly this one."""
    try:
        return sorted(n for n in os.listdir(folder) if n != name and plain(n) == name.lower())
    except OSError:
        return []


def entry(folder, name):
    """(path, remark) of what has this name; (None, "") if nothing has. Several that are nearly so are no choice of
    ours."""
    exact, others = os.path.join(folder, name), like(folder, name)
    if os.path.lexists(exact):
        return exact, f"there is {said([name, *others])}: {name} is graded" if others else ""
    if len(others) > 1:
        return None, f"there is {said(others)} instead of {name}: keep one, under that name"
    return (os.path.join(folder, others[0]), f"there is {said(others)} instead of {name}") if others else (None, "")


def find(folder, e, anywhere=True):
    """(path, remark) for an exercise. A folder on the way that is a link counts as a link: its path is the answer.
    anywhere: the student's folder itself may have the file; else only those of the lesson."""
    if os.path.islink(folder):
        return folder, ""
    found, remarks = [], []
    for below in (e.number, e.lesson, *([""] if anywhere else [])):
        inside, remark = entry(folder, below) if below else (folder, "")
        remarks.append(remark)
        if inside and below and os.path.islink(inside):
            return inside, remark
        path, remark = entry(inside, e.file) if inside else (None, "")
        remarks.append(remark)
        if path:
            found.append(os.path.relpath(path, folder))
    found.sort(key=lambda path: os.path.basename(path) != e.file)  # as it should be before nearly so; else as above
    if len(found) > 1:
        remarks.append(f"there is {said(found)}: {said(found[:1])} is graded")
    return os.path.join(folder, found[0]) if found else None, "; ".join(filter(None, remarks))


def find_door(folder, e, anywhere=lambda door: True):
    """(door, path, remark) for an exercise that may be done in C or in Python. Of two files one that is not its starter
    is graded; else that in C. anywhere(door): may its file be in the folder itself?"""
    found = [(door, *find(folder, door, anywhere(door))) for door in e.doors]
    there = [f for f in found if f[1]]
    if len(there) > 1:
        there.sort(key=lambda f: is_starter(*f[:2]))
    if not there:
        return e, None, "; ".join(filter(None, (remark for _, _, remark in found)))
    door, path, remark = there[0]
    if len({path for _, path, _ in there}) > 1:               # a folder that is a link is found for both
        names = said([os.path.relpath(p, folder) for _, p, _ in there])
        remark = "; ".join(filter(None, [remark, f"there is {names}: {os.path.basename(path)} is graded"]))
    return door, path, remark


def is_starter(door, path):
    return text_of(path) == text_of(os.path.join(ROOT, door.starter))


def text_of(path):
    """"" for what is not graded: a link, what is no regular file, what is too long."""
    try:
        return build.content(path, links=False).decode("utf-8", "replace")
    except build.Refused:
        return ""
