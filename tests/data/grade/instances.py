"""What a submission in C++ (a .cu file) gives to others: python3 tests/data/grade/instances.py FOLDER. Exit code 0: all
is as it says here.

The program stands for the emulator with its checker: it has an inline function of its own, uses operator new, and its
checker's start, __tsan_init, says so when it runs (the project's does nothing)."""
import os
import subprocess
import sys
from types import SimpleNamespace

sys.path.insert(0, "tools")
from grader import build, launch  # noqa: E402

REST = r"""
#include <stdio.h>
extern "C" int exercise(int);
inline __attribute__((noinline)) int twice(int x) { return 2 * x; }
extern "C" {
void __tsan_init(void) { puts("early"); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_read4(void *) {}
void __tsan_write4(void *) {}
int main(void) { int *x = new int(twice(21)); printf("%d %d\n", *x, exercise(1)); delete x; return 0; }
}
"""
# A submission, and what is said of it; "": taken. Each has `exercise`, which the starter has.
EXERCISE = 'extern "C" int exercise(int x) { return x; }\n'
SEEN = "is seen by other files, and the starter has no such function: write static before it"
CASES = [
    ("template <class T> __attribute__((noinline)) T add(T a, T b) { return a + b; }\n"
     'extern "C" int exercise(int x) { return add(x, 0); }', ""),
    ("inline int once(int x) { static int n; return n += x; }\n"
     'extern "C" int exercise(int x) { return once(x); }', ""),
    ("__attribute__((noinline)) inline int twice(int x) { return x + 23; }\n"
     'extern "C" int exercise(int x) { return twice(x) - 1 ? 1 : 0; }', ""),
    ("int add(int a) { return a; }\n" + EXERCISE, "submission.cu:1: add() " + SEEN),
    ("int twice(int x) { return 3 * x; }\n" + EXERCISE, "submission.cu:1: twice() " + SEEN),
    ('extern "C" __attribute__((weak)) int other(int x) { return x; }\n' + EXERCISE,
     "submission.cu:1: other() " + SEEN),
    ("__attribute__((weak)) void *operator new(decltype(sizeof 0)) { return 0; }\n" + EXERCISE, "_Znwm() " + SEEN),
    ("__attribute__((weak)) void operator delete[](void *) noexcept {}\n" + EXERCISE, "_ZdaPv() " + SEEN),
    ("static int f() { __builtin_abort(); } static int at_start = f();\n" + EXERCISE, "it has a constructor"),
    ("__attribute__((constructor(99))) static void early(void) { __builtin_abort(); }\n" + EXERCISE,
     "it has a constructor"),
    ("static int (*which())(int) { return 0; } int chosen(int) __attribute__((ifunc(\"_ZL5whichv\")));\n" + EXERCISE,
     "(ifunc)"),
]


def compiled(folder, name, text, *flags):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    subprocess.run(["g++", "-x", "c++", "-O2", "-w", *flags, "-c", "-o", path + ".o", path], check=True)
    return path + ".o"


def main(folder):
    rest = compiled(folder, "rest.cpp", REST)
    base = SimpleNamespace(watched=True, sanitized=False, forbidden=set(), rest=rest, names={"": {"exercise"}},
                           callable=set(),
                           settings=SimpleNamespace(word={"CC": ["g++"], "LIBS": []}))
    place = launch.Plain(folder)
    wrong = 0
    for text, expected in CASES:
        compiled(folder, "submission.cu", text, "-fsanitize=thread")
        said, answer = "", "42 1\n"
        try:
            build.examine(base, place, "submission.cu", "submission.cu.o", {"exercise"})
            build.link(base, place, ["submission.cu.o"])
            answer = place.run([os.path.join(folder, "program")], 10).text
        except build.Refused as refused:
            said = str(refused)
        if bool(said) != bool(expected) or expected not in said or answer != "42 1\n":
            wrong += 1
            print(f"{text}\n    said {said!r}, not {expected!r}; the program: {answer!r}")
    return min(wrong, 1)


sys.exit(main(sys.argv[1]))
