"""Where a file of the project defines a name: for anchors in lessons and pages, `[path:name]` and `[path]`.

definitions(path) -> {name: line} of functions, structs, enums, macros, variables, enumerators and members of a C or
CUDA file; functions and variables of a bash or Python file; targets and variables of a Makefile; keys of an ini file. A
prototype counts in a header only: an anchor to a .c file leads to what the function does.
"""
import functools
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_KINDS = (".c", ".h", ".cu", ".cuh", ".cpp")
# An anchor: a path with a folder or an ending, perhaps a name; no link of markdown's, which has ( or [ behind it, and
# no target of one, which has a : behind it and begins a line.
ANCHOR = re.compile(r"(?<![\w!\]\\])\[((?:[\w.-]+/)*[\w.-]+)(?::([A-Za-z_][\w-]*))?\](?![(\[])")
PATHLIKE = re.compile(r"/|\.(c|h|cu|cuh|cpp|py|sh|bash|md|ini|txt|patch|json|svg)$|^Makefile$")


def find(text):
    """The anchors in a line: (match, path, name or None). What has neither folder nor ending, as in [x] or [0], is
    none."""
    for match in ANCHOR.finditer(text):
        path, name = match.groups()
        if text[match.end():match.end() + 1] == ":" and (match.start() == 0 or text[match.start() - 1] == "\n"):
            continue
        if PATHLIKE.search(path) and (name or not re.fullmatch(r"[\d./]+", path)):
            yield match, path, name


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def _without_comments(text):
    """Comments blank and strings empty, with every line where it was."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: _blank(m) if m.group()[0] == "/" else m.group()[0] + " " * (len(m.group()) - 2)
                  + m.group()[0],
                  text, flags=re.S)


def _closing(text, at, pair):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == pair[0]:
            depth += 1
        elif text[i] == pair[1]:
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


def _function_name(head):
    """(name, where) in `static enum status CPU(gelu_forward)(const struct call *call)`: a name in a macro's bracket is
    the function's."""
    for match in re.finditer(r"([A-Za-z_]\w*)\s*\(", head):
        if match.group(1) in ("__launch_bounds__", "__attribute__", "__align__", "__aligned__", "void", "int"):
            continue
        behind = head[_closing(head, match.end() - 1, "()"):]
        inner = re.match(r"\s*([A-Za-z_]\w*)\s*\)", head[match.end():])
        if inner and (behind.lstrip().startswith("(") or match.group(1) == "TEST"):    # tests/test.h
            return inner.group(1), match.start()
        return match.group(1), match.start()
    return None, 0


def _declarators(text):
    """Names that `int a, *b[3] = {...}, (*f)(int)` declares, with where they stand."""
    pointer = re.search(r"\(\s*\*+\s*(?:const\s+)?([A-Za-z_]\w*)", text)
    if pointer:
        return [(pointer.group(1), pointer.start(1))]
    out, at, depth = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            piece = re.split(r"[=\[({:]", text[at:i], maxsplit=1)[0]
            names = list(re.finditer(r"[A-Za-z_]\w*", piece))
            if names:
                out.append((names[-1].group(), at + names[-1].start()))
            at = i + 1
    return out


class _CFile:
    def __init__(self, text, is_header):
        self.text, self.is_header, self.found = text, is_header, {}

    def add(self, name, at):
        self.found.setdefault(name, self.text.count("\n", 0, at) + 1)

    def members(self, kind, begin, end):
        body = self.text[begin:end]
        if kind == "enum":
            for match in re.finditer(r"(?:^|,)\s*([A-Za-z_]\w*)", re.sub(r"=[^,]*", _blank, body)):
                self.add(match.group(1), begin + match.start(1))
            return
        at = 0
        for match in re.finditer(r"[;{]", body):
            if match.start() < at:
                continue
            if match.group() == "{":            # a struct in the struct: its members, then go on behind it
                end_inner = _closing(body, match.start(), "{}")
                self.members("struct", begin + match.end(), begin + end_inner - 1)
                at = end_inner
            else:
                for name, where in _declarators(body[at:match.start()]):
                    self.add(name, begin + at + where)
                at = match.end()

    def statement(self, begin, end, ended_by):
        """Declarations without a body: variables; in a header prototypes and what is defined elsewhere too."""
        head = self.text[begin:end]
        bare = head.split("=")[0]
        if re.search(r"\(\s*\*", bare) and not re.match(r"\s*typedef", bare):
            prototype = False
        else:
            prototype = "(" in re.sub(r"__\w+__\s*\(+[^)]*\)+", "", bare)
        if prototype:
            name, where = _function_name(head)
            if self.is_header and name:
                self.add(name, begin + where)
        elif self.is_header or not re.match(r"\s*extern\b", head):
            if not re.match(r"\s*(struct|enum|union)\s+\w+\s*$", head):
                for name, where in _declarators(head):
                    self.add(name, begin + where)

    def scan(self):
        text, at, i = self.text, 0, 0
        while i < len(text):
            c = text[i]
            if c == ";":
                self.statement(at, i, c)
                at = i = i + 1
            elif c == "}":
                at = i = i + 1
            elif c == "(":
                i = _closing(text, i, "()")
            elif c == "{":
                head, close = text[at:i], _closing(text, i, "{}")
                kind = re.search(
                    r"\b(struct|enum|union)\b\s*(?:__\w+__\(\(.*?\)\)\s*)?([A-Za-z_]\w*)?\s*(?::\s*\w+\s*)?$", head)
                if "=" in head:                 # a variable with its values: the statement goes on to its ;
                    i = close
                elif kind:
                    if kind.group(2):
                        self.add(kind.group(2), at + kind.start(2))
                    self.members(kind.group(1), i + 1, close - 1)
                    at = i = close
                elif "(" in head:
                    name, where = _function_name(head)
                    if name:
                        self.add(name, at + where)
                    at = i = close
                else:                           # extern "C" {, namespace {: look inside
                    at = i = i + 1
            else:
                i += 1
        return self.found


def _c_definitions(text, is_header):
    text = _without_comments(text)
    macros = {}
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, flags=re.M):
        macros.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", _blank, text, flags=re.M | re.S)
    found = _CFile(text, is_header).scan()
    for name, line in macros.items():
        found.setdefault(name, line)
    return found


def _line_definitions(text, patterns):
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        for pattern in patterns:
            match = re.match(pattern, line)
            if match:
                found.setdefault(match.group(1), number)
    return found


@functools.lru_cache(maxsize=None)
def definitions(path):
    """{name: line} of the file at this path from the project's root."""
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    ending, first = os.path.splitext(path)[1], text.split("\n", 1)[0]
    if ending in C_KINDS:
        return _c_definitions(text, ending in (".h", ".cuh"))
    if ending == ".py" or first.startswith("#!") and "python" in first:
        return _line_definitions(text,
                                 [r"\s*(?:async\s+)?def\s+(\w+)", r"\s*class\s+(\w+)", r"(\w+)(?:\s*:[^=]+)?\s*=[^=]"])
    if ending in (".sh", ".bash") or first.startswith("#!") and "sh" in first:
        return _line_definitions(text, [r"\s*(?:function\s+)?([A-Za-z_]\w*)\s*\(\)",
                                        r"(?:export |readonly |declare \S+ )?([A-Za-z_]\w*)="])
    if os.path.basename(path) == "Makefile":
        return _line_definitions(text, [r"([A-Za-z_][\w-]*)\s*(?:::?)(?!=)", r"([A-Za-z_][\w-]*)\s*[:?+]?="])
    if ending == ".ini":
        return _line_definitions(text, [r"\s*([A-Za-z_][\w-]*)\s*="])
    return {}


def resolve(path, name):
    """(line, None), or (None, what is wrong)."""
    import difflib
    if not os.path.exists(os.path.join(ROOT, path)):
        near = difflib.get_close_matches(os.path.basename(path), _names_of_files(), n=3, cutoff=0.75)
        places = [p for p in _files() if os.path.basename(p) in near][:3]
        return None, f"[{path}] is no file" + (f"; did you mean {', '.join(places)}?" if places else "")
    if name is None:
        return 1, None
    if os.path.isdir(os.path.join(ROOT, path)):
        return None, f"[{path}:{name}] names something in a folder; name its file"
    line = definitions(path).get(name)
    if line:
        return line, None
    near = difflib.get_close_matches(name, definitions(path), n=3, cutoff=0.6)
    return None, f"{path} does not define {name}" + (f"; did you mean {', '.join(near)}?" if near else "")


@functools.lru_cache(maxsize=None)
def _files():
    out = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders
                            if not f.startswith(".") and not (folder == ROOT and f.startswith("build")))
        out += [os.path.relpath(os.path.join(folder, n), ROOT) for n in sorted(names)]
    return out


@functools.lru_cache(maxsize=None)
def _names_of_files():
    return sorted({os.path.basename(path) for path in _files()})
