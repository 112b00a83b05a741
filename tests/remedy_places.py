"""Where the sources have a message that advises what can be typed: an option, a command, a tool, a setting of the
environment."""

import ast
import re
import subprocess

ONE = r'"(?:[^"\\\n]|\\.)*"'
SEVERAL = re.compile(ONE + r"(?:\s*(?:PRI\w+\s*)?" + ONE + r")*(?:\s*PRI\w+)?")
CALL = re.compile(r"\b(FAIL|REFUSE|fail_\w+|stderr)\b")
ELSEWHERE = re.compile(
    r"(^|/)(test_|example_)|^(nano|tests|tools/bench|tools/concepts)/|^lessons/.*\.(c|cu|h)$|^planner/explorer/"
)
ASKS = re.compile(
    r"(?:^|[;:,.?!] |\bor |\band "
    r")(?:use|Use|give|Give|set|raise|leave|start|see|build|read|tokenize|say|point|quote|save|choose|make it) "
)
TYPED = re.compile(
    r"(?<![\w-])--[a-z]|\btrivium [a-z]+|\btools/\w|\bmake [a-z]+|\bmake "
    r"[A-Z]+=|\b[A-Z]{2,}_[A-Z_]+\b|\b[A-Z]{2,}=|TMPDIR|ulimit|iconv|"
    r"\bnumpy\.|astype|reshape|save_pretrained|/dev/shm|yama"
)


def option_names(program):
    """The options in every command's --help, but --from, whose name without dashes is a preposition."""
    names = set()
    for command in "train compare plan budget generate score schedule launch oracle show data checkpoint".split():
        shown = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout
        names.update(re.findall(r"^  --([a-z][a-z0-9-]+)", shown, re.M))
    return names - {"from"}


def advises(text, options):
    """Does it say what to type?"""
    parts = re.split(r"[;:?] ", text, maxsplit=1)
    after = parts[-1]
    if len(parts) == 1 and not ASKS.search(text):
        return False
    words = re.findall(r"(?:use|give|leave|or|and|raise|lower|with|set|make) ([a-z][a-z0-9-]+)", after)
    return bool(TYPED.search(after) or any(word in options for word in words))


def of_c(text, every):
    text = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group(0)), text, flags=re.S)
    for found in SEVERAL.finditer(text):
        whole = re.sub(r'%"\s*PRI\w+', '%s"', found.group(0))
        joined = "".join(part[1:-1] for part in re.findall(ONE, whole)).replace(r"\"", '"')
        begin = max(text.rfind(end, 0, found.start()) for end in (";\n", "{\n", "}\n", ") {", ":\n"))
        called = bool(CALL.search(text[begin + 1 : found.start()]))
        if every or called or ASKS.search(joined):
            yield joined


def words_of(node):
    """The text of a string of Python, %s where a value goes; of a sum and a join, too."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "%s"
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "%s" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return words_of(node.left) + words_of(node.right)
    return "%s"


def texts_of(node):
    """Each text that an argument may be"""
    if isinstance(node, ast.IfExp):
        return texts_of(node.body) + texts_of(node.orelse)
    if isinstance(node, (ast.Call, ast.List)):
        inside = node.args if isinstance(node, ast.Call) else node.elts
        return [text for part in inside for text in texts_of(part)]
    return [words_of(node)]


def of_python(text):
    for node in ast.walk(ast.parse(text)):
        leaves = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("exit", "error")
        )
        call = node.exc if isinstance(node, ast.Raise) else node if leaves else None
        if isinstance(call, ast.Call):
            yield from texts_of(call)


def of_shell(text):
    for line in text.splitlines():
        if re.search(r">&2|\bdie ", line):
            for found in re.findall(ONE, line):
                yield re.sub(r"\$\{[^}]*\}|\$\([^)]*\)|\$[\w*@]+", "%s", found[1:-1])


def places(program, every=False):
    """(file, text) of each; every: of all messages, whether they advise or not"""
    options = option_names(program)
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    for file in listed:
        if ELSEWHERE.search(file) or not file.endswith((".c", ".cu", ".h", ".py")) and not file.startswith("tools/"):
            continue
        try:
            text = open(file).read()
        except (UnicodeDecodeError, IsADirectoryError):
            continue
        first = text.split("\n", 1)[0]
        read = (
            of_c
            if file.endswith((".c", ".cu", ".h"))
            else of_python if "python" in first or file.endswith(".py") else of_shell if "sh" in first[-5:] else None
        )
        for said in (read(text, every) if read is of_c else read(text)) if read else ():
            if " " in said and (every or advises(said, options)):
                yield file, said


def pattern(text):
    """What fits a line that such a text was printed in"""
    text = text.replace(r"\n", "").replace(r"\t", "\t").strip()
    parts = re.split(r"%[-+#0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z%]", text)
    return re.compile(".*".join(re.escape(part) for part in parts))
