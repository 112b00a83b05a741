"""What tools/grade, grade-all, check-exercises and handout share. docs/how-to/add-a-lesson.md says what an exercise is.

    exercise.py   lessons and their exercises: reading exercise.ini
    plant.py      published bugs: starters of bug hunts, programs with one of them
    build.py      compiling and linking a submission with the objects of the project
    examine.py    what a submission may contain, and what it may call
    statuses.py   calls whose status it drops
    launch.py     one run of a test program: limits, the runner's report, what it said
    judge.py      submissions in Python: the tests' side; rank.py is the side of a rank
    causes.py     why claims fail: what the tests have said, and a hint for each cause
    grade.py      a submission's claims over all world sizes, and how they are shown
    sandbox.py    the same without trust: bubblewrap, limits, a supervisor
    children.py   the grader's own work on each, in a process of its own
    formats.py    a grade for other programs: JSON, JUnit, Gradescope, GitHub Classroom
    contract.py   does an exercise say what its tests ask for?
    mutant.py     planted mistakes of the exercises
    which.py      "which claim fails?": mistakes drawn for a student, and their answers
    worksheet.py  questions with numbers drawn for a student
    sheet.py      filled-in sheets of both, graded as exercises
    exam.py       an examination by a seed, and the bank of its questions
    similar.py    which submissions are nearly equal
    handed_in.py  where somebody's file for an exercise is
    program.py    the program with a learner's files, or patched ones
    capstone.py   all of a learner's files in it, graded and trained
    handout.py    the tree without the answers
"""
import ctypes
import ctypes.util
import functools
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Trouble(Exception):
    """Something is wrong that the user has to know about: one or more lines, the remedy in them."""


@functools.cache
def library(name, file):
    """A shared library, where the system has it; else by the name of its file on Linux."""
    return ctypes.CDLL(ctypes.util.find_library(name) or file)
