"""What was handed in: whose folders there are, and where somebody's file for an exercise is: FOLDER/FILE, or FOLDER/03/FILE. A name that differs in upper
and lower case only is found, and said."""
import datetime
import math
import os
import re

from . import Trouble, build


def students(folder):
    try:
        return sorted(n for n in os.listdir(folder) if not n.startswith(".") and os.path.isdir(os.path.join(folder, n)))
    except OSError as e:
        raise Trouble(f"DIR={folder}: {e.strerror}") from None


def moment(text):
    """Seconds of "2026-12-01 18:00", local time; None of ""."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        raise Trouble(f"DEADLINE={text} is no date and time; write it like 2026-12-01 18:00") from None


def lateness(path, deadline):
    """What to say of a file that was last written after the deadline: begun days."""
    late = os.lstat(path).st_mtime - deadline if path and deadline is not None else 0
    days = math.ceil(late / 86400)
    return f"late: {days} day{'s' * (days != 1)}" if late > 0 else ""


def printable(name):
    return re.sub(r"[^\w.-]", "?", name)


def entry(folder, name):
    """(path, remark) of what has this name; (None, "") if nothing has. Several that differ in case only are no choice of ours."""
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        return path, ""
    try:
        like = sorted(n for n in os.listdir(folder) if n.lower() == name.lower())
    except OSError:
        like = []
    if not like:
        return None, ""
    listed = " and ".join(like).encode("utf-8", "backslashreplace").decode()
    return (os.path.join(folder, like[0]) if len(like) == 1 else None), f"there is {listed} instead of {name}"


def find(folder, e):
    """(path, remark) for an exercise. A folder on the way that is a link counts as a link: its path is the answer."""
    if os.path.islink(folder):
        return folder, ""
    remarks = []
    for below in (e.number, e.lesson, ""):
        inside, said = entry(folder, below) if below else (folder, "")
        if inside and below and os.path.islink(inside):
            return inside, said
        path, remark = entry(inside, e.file) if inside else (None, "")
        remarks += filter(None, [said, remark])
        if path:
            return path, "; ".join(remarks)
    return None, "; ".join(remarks)


def text_of(path):
    """As far as a submission may be long; "" for what cannot be read, or is a link."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8", errors="replace") as f:
            return f.read(build.MAX_SOURCE)
    except OSError:
        return ""
