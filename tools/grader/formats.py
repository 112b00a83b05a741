"""Grades for other programs: JSON, JUnit's XML, Gradescope's results.json, GitHub Classroom's reporter. The claims are
those of the report.

    json         everything there is: {"format": 1, "exercises": [{"lesson", "exercise", "score", "claims": [...],
                 ...}]}
    junit        a suite per exercise, a case per claim (https://github.com/testmoapp/junitxml). JUnit has no points:
                 properties of a case say its weight, of a suite its score
    gradescope   a test per claim; 100 points per exercise
                 (https://gradescope-autograders.readthedocs.io/en/latest/specs)
    classroom    one line of base64: what classroom-resources/autograding-grading-reporter reads from an environment
                 variable
"""
import base64
import json
import re
import xml.etree.ElementTree as xml

from . import grade

REST = "everything else still holds"


def clean(text):
    """Without what XML cannot hold and JSON's readers stumble over: control characters, lone surrogates."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def claim_of(result, claim, outcome):
    outcome = grade.told(claim, outcome)
    return {"test": claim.test, "text": claim.text, "holds": result.holds(outcome), "weight": claim.weight,
            "held_on": outcome.held,
            "failed_on": outcome.failed_on, "why": [clean(line) for line in outcome.why], "hint": claim.hint}


def rest_of(result):
    """The claim on all other tests, where there are any."""
    if not result.exercise.further:
        return []
    why = [f"{name}: {line}" for name, o in result.rest.items() if o.failed_on is not None for line in o.why]
    why += ["it counts once a claim holds"] * (result.rest_holds() and not result.rest_counts())
    why += [result.after] * bool(result.after) if result.status == "graded" else not_run(result)
    return [{"test": "", "text": REST, "holds": result.status == "graded" and result.rest_counts(), "weight": 1,
             "held_on": [], "failed_on": None,
             "why": [clean(line) for line in why], "hint": ""}]


def not_run(result):
    return [f"{result.status}:", *result.message.splitlines()]


def claims_of(result):
    """As dictionaries. Of what was not run, every claim fails for the same reason."""
    if result.status == "graded":
        return [claim_of(result, c, o) for c, o in result.claims] + rest_of(result)
    outcome = grade.Outcome()
    outcome.why = not_run(result)
    return [claim_of(result, c, outcome) for c in result.exercise.claims] + rest_of(result)


def exercise_of(result):
    e, (held, total) = result.exercise, result.counts()
    return {"lesson": e.number, "exercise": e.name, "title": e.title, "file": e.file, "status": result.status,
            "message": clean(result.message),
            "remark": clean(result.remark), "score": result.score(), "held": held, "total": total,
            "figure": result.figure,
            "warnings": clean(result.warnings), "claims": claims_of(result),
            "causes": [{"name": c.name, "claims": [clean(text) for text in c.claims],
                        "why": [clean(line) for line in c.lines], "hint": c.hint}
for c in (grade.causes_of(result) if result.status == "graded" else [])]}


def output_of(claim):
    """What one reads below a claim."""
    sizes = [] if claim["failed_on"] is None else [grade.on_ranks([claim["failed_on"]]) + ":"]
    return "\n".join([*sizes, *claim["why"],
                      *(["look: " + claim["hint"]] if claim["hint"] and not claim["holds"] else [])])


def as_json(results):
    return json.dumps({"format": 1, "exercises": [exercise_of(r) for r in results]}, indent=1) + "\n"


def properties(element, **said):
    inside = xml.SubElement(element, "properties")
    for name, value in said.items():
        xml.SubElement(inside, "property", name=name, value=str(value))


def as_junit(results):
    suites = xml.Element("testsuites")
    for result in results:
        claims = claims_of(result)
        suite = xml.SubElement(suites, "testsuite", name=result.exercise.label, tests=str(len(claims)),
                               failures=str(sum(not c["holds"] for c in claims)))
        properties(suite, score=result.score(), status=result.status,
                   **({"remark": clean(result.remark)} if result.remark else {}))
        for claim in claims:
            case = xml.SubElement(suite, "testcase", classname=f"{result.exercise.number}.{result.exercise.name}",
                                  name=clean(claim["text"]))
            properties(case, weight=claim["weight"])
            if not claim["holds"]:
                failure = xml.SubElement(case, "failure", message=(claim["why"] or [""])[0])
                failure.text = output_of(claim)
    xml.indent(suites)
    return xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def shares(result):
    """(claim, points, of how many): of 100 for the exercise, by weight."""
    claims = claims_of(result)
    total = sum(c["weight"] for c in claims)
    return [(c, round(100 * c["weight"] / total, 2) if c["holds"] else 0, round(100 * c["weight"] / total, 2))
            for c in claims]


def as_gradescope(results):
    tests = [{"name": f"{r.exercise.label}: {c['text']}", "score": got, "max_score": most,
              "status": "passed" if c["holds"] else "failed",
              "output": output_of(c), "output_format": "text", "visibility": "visible"} for r in results
             for c, got, most in shares(r)]
    remarks = [f"{r.exercise.label}: {clean(r.remark)}" for r in results if r.remark]
    boards = [{"name": f"{r.exercise.label}: {r.exercise.figure}", "value": r.figure, "order": "asc"} for r in results
              if r.figure is not None]
    return json.dumps({"score": sum(r.score() for r in results), "output": "\n".join(remarks), "tests": tests,
                       **({"leaderboard": boards} if boards else {})}, indent=1) + "\n"


def as_classroom(results):
    tests = [{"name": f"{r.exercise.label}: {c['text']}", "status": "pass" if c["holds"] else "fail", "score": got,
              "message": output_of(c),
              "test_code": "", "filename": r.exercise.file, "line_no": 0, "duration": 0} for r in results
             for c, got, _ in shares(r)]
    status = "pass" if all(r.full() for r in results) else "fail"
    said = {"version": 1, "status": status, "max_score": 100 * len(results), "tests": tests}
    return base64.b64encode(json.dumps(said).encode()).decode() + "\n"


def summary(results):
    """Lines below the reports for people, when there are several."""
    return ["\n".join(["all of them:", *(f"    {r.exercise.label:<24} {r.score():>3}" for r in results)])] \
           if len(results) > 1 else []


def as_text(results):
    """For people; without how to run a test alone, which only the learner can."""
    return "\n\n".join([*(grade.show(r, r.exercise.file) for r in results), *summary(results)]) + "\n"


FORMATS = {"json": as_json, "junit": as_junit, "gradescope": as_gradescope, "classroom": as_classroom}
# The formats of a class: a student's report, and how its file's name ends
REPORTS = {"text": (as_text, ".txt"), "json": (as_json, ".json"), "junit": (as_junit, ".xml"),
           "gradescope": (as_gradescope, ".json"),
           "classroom": (as_classroom, ".txt")}
