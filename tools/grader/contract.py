"""Does an exercise say everything that its tests ask for?

A test may ask an error's sentence for words that the reference says. Then the starter, or the headers of its contract,
have to say them: a right solution loses no mark for a word that it was not given. Numbers stand for any number: "row 7
..." gives "row 12". And a learner reads what an assertion asks: one of a bare word, assert_true(right), says nothing.

A starter is small: it shows three types of the project at most, and the text says each of them."""
import glob
import os
import re

from . import ROOT


def content_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def plain(text):
    """On one line, without a comment's stars; for a number, or what printf puts there, stands #."""
    text = re.sub(r'"\s*PRI\w+(\s*")?', "d", text)
    text = re.sub(r"\s+(\*\s+)?", " ", re.sub(r'"\s*"', "", text))
    return re.sub(r"%[-0-9.*]*(?:l|ll|z|j)?[a-zA-Z]|(?<![A-Za-z_])-?\d[\d.]*", "#", text)


def contract_of(e):
    """Starter, headers of its folder, and the first header that the starter of a file of the tree includes; in Python
    the starter alone."""
    if e.kind == "python":
        return plain(content_of(e.starter))
    headers = sorted(glob.glob(os.path.join(ROOT, e.folder, "*.h")))
    first = re.search(r'^#include "(.*)"', content_of(e.starter), re.M)
    if e.replaces and first and os.path.isfile(os.path.join(ROOT, first[1])):
        headers.append(first[1])
    return plain(" ".join(map(content_of, [e.starter, *headers])))


def arguments(text, start):
    """From the parenthesis at `start` to its end, strings left whole."""
    depth = 0
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|[()]').finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return text[start + 1:found.start()]
    return ""


def asked_for(path):
    """(line, word) of every word that a test of this file asks for in an error's sentence."""
    text = content_of(path)
    for call in re.finditer(r"\.refuses\(", text):           # in Python: the words that follow the call
        said = arguments(text, call.end() - 1)
        for word in re.findall(r'"((?:[^"\\]|\\.)*)"', said.partition("],")[2]):
            yield text[:call.start()].count("\n") + 1, word
    for call in re.finditer(r"\bassert_fails\(", text):
        code = re.search(r",\s*E_[A-Z]+\s*,", said := arguments(text, call.end() - 1))
        for word in re.findall(r'"((?:[^"\\]|\\.)*)"', said[code.end():]) if code else []:
            yield text[:call.start()].count("\n") + 1, word


def is_given(word, contract):
    """Literally, up to numbers; or an option and its value, where the option is named."""
    option = re.fullmatch(r"([a-z-]+)=#", word)
    return word in contract or word == "#" or bool(option and re.search(rf"\b{option[1]}\b", contract))


def faults(e):
    """Sentences; none: the exercise says everything."""
    contract, reference = contract_of(e), plain(content_of(e.reference))
    found = [f"{path}:{line} asks for \"{word}\", which neither {e.starter} nor its headers say"
             for path in e.tests for line, word in asked_for(path)
             if plain(word) in reference and not is_given(plain(word), contract)]
    if e.replaces and re.search(r"\bbuild/trivium \w", content_of(e.starter)):
        found.append(f"{e.starter} has a command of build/trivium, which is built from the reference: say make mine, "
                     "and build/mine/trivium")
    for path in e.own_tests():
        found += [f"{path}:{content_of(path)[:bare.start()].count(chr(10)) + 1}: {bare[0]} does not say what is wrong: "
                  "use fail_msg, or expect_number"
                  for bare in re.finditer(r"\bassert_(?:true|false)\(\w+\)", content_of(path))]
    return found


# ---- the size of what a learner has to know ----

TYPES = 3                    # of the project that a starter shows, at most
NAMED = r"\b(?:struct|enum|union)\s+(\w+)"


def types_shown(e):
    """The project's types in the starter's code: what neither it nor a header of its folder defines. enum status is
    every function's."""
    code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", content_of(e.starter), flags=re.S)
    of_folder = "".join(map(content_of, sorted(glob.glob(os.path.join(ROOT, e.folder, "*.h")))))
    return sorted(set(re.findall(NAMED + r"\b", code)) - set(re.findall(NAMED + r"\s*\{", code + of_folder))
                  - {"status"})


def types_at_fault(e):
    """Sentences on an exercise whose starter shows more of the project than its text explains."""
    types, lesson = types_shown(e), content_of(os.path.join("lessons", e.lesson, "README.md"))
    said = " ".join(re.findall(r"/\*.*?\*/|//[^\n]*", content_of(e.starter), re.S)) + lesson
    found = [f"{e.starter} shows {len(types)} types of the project, {' '.join(types)}; {TYPES} are enough"] \
            if len(types) > TYPES else []
    return found + [f"{e.starter} shows {name}, which neither its comments nor the lesson explain" for name in types
                    if not re.search(rf"\b{name}\b", said)]
