"""formats.py FORMAT FILE: has a grade of lesson 02, cost, the claims of its exercise.ini, the wrong bus bandwidth
failing alone?"""
import base64
import json
import sys
import xml.etree.ElementTree as xml

sys.path.insert(0, "tools")
from grader import exercise  # noqa: E402

FAILS = "the bus bandwidth is S / t times 2 (n-1)/n"
texts = [c.text for e in exercise.exercises("02") if e.name == "cost" for c in e.claims]
with open(sys.argv[2], encoding="utf-8") as f:
    text = f.read()
kind = sys.argv[1]
if kind == "junit":
    suite, = xml.fromstring(text)
    cases, weights = suite.findall("testcase"), [c.weight for e in exercise.exercises("02") if e.name == "cost"
                                                 for c in e.claims]
    found = [(case.get("name"), case.find("failure") is None, "".join(case.itertext())) for case in cases]
    assert int(suite.get("tests")) == len(cases) and suite.get("failures") == "1", suite.attrib
    assert [case.find("properties/property[@name='weight']").get("value")
            for case in cases] == list(map(str, weights)), text
    assert suite.find("properties/property[@name='score']").get("value") == "85", text
elif kind == "json":
    one, = json.loads(text)["exercises"]
    found = [(c["text"], c["holds"], " ".join([*c["why"], c["hint"]])) for c in one["claims"]]
    assert one["score"] == 85 and (one["held"], one["total"]) == (6, 7) and "a & b <c>" in one["warnings"], one
else:
    said = json.loads(text if kind == "gradescope" else base64.b64decode(text))
    tests = said["tests"]
    good = "passed" if kind == "gradescope" else "pass"
    found = [(t["name"].removeprefix("02 cost: "), t["status"] == good, t.get("output", t.get("message")))
             for t in tests]
    assert sorted({t["score"] for t in tests}) == [0, 14.29] and len(tests) == 7, tests
    assert said["score"] == 85 if kind == "gradescope" else (said["max_score"], said["status"]) == (100, "fail"), said
named = [name for name, _, _ in found if name != "everything else still holds"]
assert named == texts, (named, texts)
assert [name for name, held, _ in found if not held] == [FAILS], found
assert all('lesson 02, "Bus bandwidth"' in why and "test_cost.c:" in why for _, held, why in found if not held), found
