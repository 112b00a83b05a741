"""junit_class.py FOLDER TABLE: does each student's report of lesson 02, cost, have the table's score, and weights that
give it?"""
import csv
import sys
import xml.etree.ElementTree as xml


def said(element, name):
    return element.find(f"properties/property[@name='{name}']").get("value")


with open(sys.argv[2], newline="", encoding="utf-8") as f:
    rows = list(csv.DictReader(f))
assert {r["student"] for r in rows} == {"ann", "bob", "tom"} and len({r["claims"] for r in rows}) == 1, rows
for row in rows:
    suite, = xml.parse(f"{sys.argv[1]}/{row['student']}.xml").getroot()
    cases = suite.findall("testcase")
    held = sum(int(said(case, "weight")) for case in cases if case.find("failure") is None)
    assert (held, sum(int(said(case, "weight")) for case in cases)) == (int(row["claims passed"]),
                                                                        int(row["claims"])), row
    assert (said(suite, "score"), said(suite, "status")) == (row["score"], row["status"]), row
    assert row["student"] == "tom" or said(suite, "remark").split("late: ")[1].split()[0].isdigit(), row
