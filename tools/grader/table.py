"""Tables of scores: written so that a spreadsheet can read them, and never half written."""
import csv
import io
import os
import re
import tempfile

HEAD = ["student", "lesson", "exercise", "score", "claims passed", "claims", "status", "message", "figure", "days late"]


def cell(value):
    """Safe in a spreadsheet: what begins like a formula does not begin so any more."""
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", str(value))
    return "'" + text if text[:1] in "=+-@\t\r\n" and text else text


def replace_file(out, text):
    """Replace the file as a whole: a reader finds the old one or the new one."""
    handle, path = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(out)), prefix=".scores-")
    try:                                                      # to the file system names are bytes
        with open(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(path, 0o644)
        os.replace(path, out)
    except BaseException:
        os.unlink(path)
        raise


def write(rows, out):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[cell(c) for c in row] for row in rows])     # RFC 4180: quotes where needed, CRLF
    replace_file(out, text.getvalue())
