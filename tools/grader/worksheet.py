"""Questions with numbers of one's own: a layout is drawn by the student's name, and the program itself computes the
answer.

A lesson's questions are in lessons/NN-name/worksheet.ini. A section is a question; what is not one of its five words is
drawn:

    [stage]
    ask     = {params} parameters on {dp} ranks, ZeRO stage {zero}: bytes of states on a rank
    command = show memory --params {params} --dp {dp} --zero {zero}      printed by trivium with --json
    answer  = bytes.optim                                                where in that; ranks.0 is the first of a list
    unit    = bytes                                                      of that number
    within  = 1                                                          percent
    params  = 7e9 13e9 30e9
    dp      = 8 64
    zero    = 1 2 3"""
import ast
import configparser
import json
import operator
import os
import random
import shlex
import subprocess

from . import ROOT, Trouble, build, sheet

NAME, TITLE, SHEET = "worksheet", "Numbers of one's own", "worksheet.txt"
SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
WORDS = ("ask", "command", "answer", "unit", "within")


def ini_of(lesson):
    return os.path.join("lessons", lesson, "worksheet.ini")


def there(lesson):
    return os.path.isfile(os.path.join(ROOT, ini_of(lesson)))


def drawn(lesson, student):
    """name -> the words of the question, with this student's numbers in them."""
    if not there(lesson):
        raise Trouble(f"lesson {lesson} has no {os.path.basename(ini_of(lesson))}")
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=(";",))
    parser.read(os.path.join(ROOT, ini_of(lesson)), encoding="utf-8")
    found = {}
    for name in parser.sections():
        section = parser[name]
        numbers = {key: random.Random(f"{lesson} {student} {name} {key}").choice(section[key].split())
                   for key in section if key not in WORDS}
        found[name] = {word: section[word].format(**numbers) for word in WORDS}
    return found


def questions(lesson, student):
    return list(drawn(lesson, student))


def text_for(lesson, student):
    """The sheet to be filled in."""
    lines = [f"# Lesson {lesson}, for {student}. Write a number behind each name; a calculation with + - * / "
             "and parentheses will do: 13e9 * 2 / 64."]
    for name, q in drawn(lesson, student).items():
        lines += ["", f"# {q['ask']} (in {q['unit']}, within {q['within']} %)", f"{name} = "]
    return "\n".join(lines) + "\n"


# ---- grading ----

def value(text):
    """The value of a number, or of a calculation with + - * / and parentheses; None if it is neither."""
    def of(node):
        if isinstance(node, ast.BinOp):
            return SIGNS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -of(node.operand)
        return float({"nan": "nan", "inf": "inf"}[node.id] if isinstance(node, ast.Name) else node.value)
    try:
        return of(ast.parse(text[:200].strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, AttributeError, KeyError, ArithmeticError, RecursionError, MemoryError):
        return None


def known(q):
    """What the program says."""
    program = os.path.join(ROOT, build.build_folder(), "trivium")
    done = subprocess.run([program, *shlex.split(q["command"]), "--json"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Trouble(f"trivium {q['command']}: {done.stderr.strip()[:200]}")
    found = json.loads(done.stdout)
    for key in q["answer"].split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


class Answer:
    def __init__(self, number, text, q):
        self.number, self.text = number, text
        said, wanted = value(text), known(q)
        self.understood = said is not None
        self.right = self.understood and abs(said - wanted) <= float(q["within"]) / 100 * abs(wanted)
        what = "nothing said" if not text else f"wrong: {text[:60]}" if self.understood else "not understood: " \
               f"\"{text[:60]}\" is no number or calculation; units are left out"
        self.told = f"{what}; see trivium {q['command']}"


def graded(lesson, student, text, built=False):
    """The answers; what is written behind a name, without a comment."""
    if not built:
        build.make(f"{build.build_folder()}/trivium")
    said = {name: words.split("#")[0].strip() for name, words in sheet.written(text, r"[\w-]+", "=:")}
    return [Answer(i, said.get(name, ""), q) for i, (name, q) in enumerate(drawn(lesson, student).items(), 1)]
