"""Compiling and linking: a submission takes the place of one file, and all other objects are those of the project's
build.

What does not change between submissions is linked once: rest.o holds the library without the replaced file, the runner
and the tests. A submission gives others the names of its starter, and no further one: it can neither replace another
function of the project nor one of the C library."""
import glob
import hashlib
import os
import re
import shlex
import stat
import subprocess
import sys

from . import ROOT, Trouble, elf
from .examine import Refused, calls, examine, machine_code
from .statuses import LOOKED_AT, statuses, values_of, with_statuses_looked_at

MAX_SOURCE = 1 << 20


# ---- the project's build ----

def build_folder():
    return os.environ.get("BUILD", "build")


def simt_folder():
    return os.environ.get("BUILD_NAME", build_folder()) + "-simt"


def make(*arguments):
    """make with the user's settings, and as many jobs as cores: this is no part of the make that may have called us."""
    flags = os.environ.get("MAKEFLAGS", "")
    settings = flags.partition(" -- ")[2] if " -- " in flags \
               else " ".join(w for w in flags.split() if re.match(r"\w+=", w))
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = [os.environ.get("MAKE", "make"), "-j", str(os.cpu_count() or 1), "--no-print-directory",
               *shlex.split(settings), *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        try:
            said, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            print("make builds the project first: minutes, once", file=sys.stderr, flush=True)
            said, _ = process.communicate()
    if process.returncode != 0:
        raise Trouble("the project does not build:\n" + "\n".join(said.splitlines()[-15:]))


MADE = set()                 # what this process has made, which need not be asked for again


def bring(options, paths):
    """Up to date, by make, unless this process has seen to it."""
    new = [p for p in paths if p not in MADE]
    if new:
        make(*options, *new)
    MADE.update(new)


class Settings:
    """The flags and objects of a build; the Makefile writes them to build/settings. watched: the emulator's, every
    access checked."""

    def __init__(self, built, watched=False):
        self.folder = simt_folder() if watched else build_folder()
        self.make = ["SIMT=check"] if watched else []
        self.remedy = f"build it again: {'make kernels-build' if watched else 'make'}"
        path = f"{self.folder}/settings{'-check' if watched else ''}"
        if not built:
            bring(self.make, [path])
        try:
            with open(os.path.join(ROOT, path)) as f:
                said = dict(line.rstrip("\n").split("=", 1) for line in f)
        except OSError:
            raise Trouble(f"{path} is not there; {self.remedy}") from None
        self.word = {key: shlex.split(value) for key, value in said.items()}

    def without_werror(self, key):
        return [w for w in self.word[key] if w != "-Werror"]


def elements(path, settings):
    """A file that is compiled once for each element type, or once; with what the Makefile compiles hot sources with."""
    cpu = path.endswith("_cpu.c")
    hot = settings.word["HOT_CFLAGS"] if cpu or path in settings.word["HOT_C"] else []
    if cpu or path.endswith("_cuda.cu"):
        return [("." + e, [f"-DELEM={e}", f"-DELEM_{e}", *hot]) for e in settings.word["ELEMS"]]
    return [("", hot)]


def words_of(dependencies):
    """A compiler's .d file: what an object is made of."""
    with open(os.path.join(ROOT, dependencies)) as d:
        return d.read().replace("\\\n", " ").split()


def words_in(header):
    """Without its comments."""
    with open(os.path.join(ROOT, header), encoding="utf-8") as f:
        return set(re.findall(r"\w+", re.sub(r"/\*.*?\*/|//[^\n]*", " ", f.read(), flags=re.S)))


def newest(paths):
    return max(os.path.getmtime(os.path.join(ROOT, p)) for p in paths)


# ---- what is the same for all submissions ----

class Base:
    """rest.o, the names that a submission gives to others, and the commands. built: the project's objects are there,
    make is not asked."""

    def __init__(self, exercise, built=False):
        self.exercise, self.built = exercise, built
        self.watched = exercise.kind == "cu"
        # a kernel file of the project needs the emulated device around it
        whole = self.watched and bool(exercise.replaces)
        self.simt = Settings(built, watched=True) if self.watched else None
        self.settings = self.simt if whole else Settings(built)
        # SAN=1: it brings constructors of its own
        self.sanitized = "fsanitize=address" in " ".join(self.settings.word["TEST_CFLAGS"])
        self.counts = exercise.kind == "c" and not self.sanitized and sys.platform != "darwin"
        self.device = "simt" if self.watched else "cpu"
        staff = "-staff" if exercise.for_staff and exercise.hidden else ""
        self.folder = os.path.join(build_folder(), "grade", f"{exercise.number}-{exercise.name}{staff}")
        os.makedirs(os.path.join(ROOT, self.folder), exist_ok=True)
        self.variants = elements(exercise.replaces, self.settings) if exercise.kind != "table" else []
        own = [self.compile_own(t) for t in exercise.own_tests()]
        tree = self.objects_of_tree(whole)
        self.rest = self.link_rest(tree + own)
        self.names = self.names_of_starter()
        self.callable = self.names_to_call()
        self.forbidden = set().union(*(elf.globals_of(os.path.join(ROOT, o)) for o in self.settings.word["HELPERS"]))

    def object_of(self, path):
        """The objects of a test: an emulated build has most of them from the CPU's folder."""
        found = [o for o in self.settings.word["TEST_O"] if o.endswith(f"/{os.path.splitext(path)[0]}.o")]
        if not found:
            raise Trouble(f"{self.settings.folder}: this build has no object of {path}; {self.settings.remedy}")
        return found[0]

    def objects_of_tree(self, whole):
        e, s = self.exercise, self.settings
        stem = os.path.splitext(e.replaces)[0]
        replaced = tuple(f"/{stem}{suffix}.o" for suffix, _ in self.variants)
        left = [o for o in s.word["LIB_O"] if not o.endswith(replaced)]
        if e.replaces and len(left) != len(s.word["LIB_O"]) - len(self.variants):
            raise Trouble(f"{e.folder}/exercise.ini: replaces = {e.replaces}, which is no part of this build's library")
        core = self.simt.word["SIMT_CORE"] if self.watched and not whole else []
        if not self.built and core:
            bring(self.simt.make, core)
        self.bring([*left, *s.word["HELPERS"]])
        own = set(e.own_tests())
        tests = self.with_helpers([self.object_of(t) for t in e.tests if t not in own])
        self.bring(core)
        return left + core + s.word["HELPERS"] + tests

    def bring(self, objects):
        """Up to date, or at least there."""
        if not self.built:
            bring(self.settings.make, objects)
        for o in objects:
            if not os.path.isfile(os.path.join(ROOT, o)):
                raise Trouble(f"{o} is not there; {self.settings.remedy}")

    def with_helpers(self, tests):
        """A suite may use functions of another one, declared in a test_NAME.h next to test_NAME.c and test_NAME_*.c;
        the runner leaves out that one's own tests."""
        of_own = self.helpers_of([self.folder + "/" + os.path.basename(t) + ".d" for t in self.exercise.own_tests()])
        found, new = [], tests + [o for o in of_own if o not in tests]
        while new:
            self.bring(new)
            found += new
            new = [o for o in self.helpers_of([o[:-2] + ".d" for o in new]) if o not in found]
        return found

    def helpers_of(self, dependencies):
        needs = {word.rstrip(":") for d in dependencies for word in words_of(d)}
        headers = [n[:-2] for n in needs if re.search(r"(^|/)test_\w+\.h$", n) and not n.startswith("lessons/")]
        return sorted({self.object_of(c) for h in headers for end in (".c", "_*.c")
                       for c in glob.glob(h + end, root_dir=ROOT)})

    def compiler(self, path):
        """The command for a file of this kind, up to -c."""
        if path.endswith(".cu"):
            return [*self.simt.without_werror("CU"), f"-I{self.exercise.folder}"]
        return [*self.settings.word["CC"], *self.settings.without_werror("TEST_CFLAGS"), f"-I{self.exercise.folder}"]

    def compile_own(self, path, more=(), suffix=""):
        """A file of the exercise's folder; its object, made again when something that it includes has changed."""
        name = f"{self.folder}/{os.path.basename(path)}{suffix}"
        command = [*self.compiler(path), *more, "-MMD", "-MP", "-MF", name + ".d", "-c", "-o", name + ".o", path]
        stamp = hashlib.sha256(shlex.join(command).encode()).hexdigest()
        if not self.is_current(name, stamp):
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  text=True, errors="replace")
            if done.returncode != 0:
                raise Trouble(f"{path} does not compile:\n" + "\n".join(done.stdout.splitlines()[:15]))
            with open(os.path.join(ROOT, name + ".stamp"), "w") as f:
                f.write(stamp)
        return name + ".o"

    @staticmethod
    def is_current(name, stamp):
        try:
            with open(os.path.join(ROOT, name + ".stamp")) as f:
                needs = [w for w in words_of(name + ".d") if not w.endswith(":")]
                return f.read() == stamp and newest(needs) <= os.path.getmtime(os.path.join(ROOT, name + ".o"))
        except OSError:
            return False

    def link_rest(self, objects):
        rest = os.path.join(self.folder, "rest.o")
        listed = os.path.join(ROOT, self.folder, "rest.list")
        text = "\n".join(objects)
        try:
            with open(listed) as f:
                if f.read() == text and newest(objects) <= newest([rest]):
                    return rest
        except OSError:
            pass
        strip = [] if self.watched else ["-S"]                # the checker's reports name lines
        done = subprocess.run(["ld", "-r", *strip, "-o", rest, *objects], cwd=ROOT, stderr=subprocess.PIPE, text=True,
                              errors="replace")
        if done.returncode != 0:
            raise Trouble(f"objects of {self.settings.folder} do not go together; "
                          f"{self.settings.remedy}\n{done.stderr.strip()}")
        with open(listed, "w") as f:
            f.write(text)
        return rest

    def names_to_call(self):
        """Names of the program that a submission may use (examine.py). The compiler has written which headers the
        starter includes."""
        e, of_program = self.exercise, elf.globals_of(os.path.join(ROOT, self.rest))
        strange = set(e.withheld) - of_program
        if strange:
            raise Trouble(f"{e.folder}/exercise.ini: withheld = {' '.join(sorted(strange))}: the program has no such "
                          "function")
        if e.replaces or e.kind == "table":
            return of_program - set(e.withheld)
        headers = [w for w in words_of(f"{self.folder}/{os.path.basename(e.starter)}.d")
                   if re.fullmatch(r"[^/].*\.h", w)]
        return of_program & set().union(*map(words_in, headers)) - set(e.withheld)

    def names_of_starter(self):
        if self.exercise.kind == "table":
            return {}
        return {suffix: elf.strong_of(os.path.join(ROOT, self.compile_own(self.exercise.starter, more, suffix)))
                for suffix, more in self.variants}


# ---- a submission ----

def content(path, links=True):
    """The bytes of a file that was handed in, if it is one that can be graded. links: a symbolic link is followed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb") as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise Refused("refused", f"{path} is not a regular file")
            data = f.read(MAX_SOURCE + 1)
    except FileNotFoundError:
        raise Refused("missing", f"there is no file {path}") from None
    except OSError as e:
        if not links and os.path.islink(path):
            raise Refused("refused", f"{path} is a symbolic link") from None
        raise Refused("refused", f"{path} cannot be read: {e.strerror}") from None
    if not data.strip():
        raise Refused("refused", f"{path} is empty")
    if len(data) > MAX_SOURCE:
        raise Refused("refused", f"{path} has more than {MAX_SOURCE >> 20} MiB; a source file is expected")
    if b"\0" in data:
        raise Refused("refused", f"{path} is not a text: it contains zero bytes")
    return data


def take(path, destination, links=True):
    """Copy the file, if it is one that can be graded; its number of lines."""
    data = content(path, links)
    with open(destination, "wb") as f:
        f.write(data)
    return len(data.splitlines())


HELP = [
    (r"No such file or directory",
     "includes are found from the project's root, as in the starter: #include \"dp/dp_bucket.h\""),
    (r"conflicting types|too (few|many) arguments|incompatible",
     "the contract is in the headers that the starter includes: names, types and order of arguments stay"),
    (r"undeclared|implicit declaration|has no member",
     "a name that is not declared: is its header included, and is it spelt as there?"),
    (r"expected .* before|expected .*;", "the line before the one that is named often is the one that is wrong"),
]


FRAME = re.compile(r"In file included|compilation terminated|\S+: some warnings being treated as errors"
                   r"|\s+from \S+:\d+[:,]|\S+: (In function|At top level)")


def without_paths(text, place):
    """The submission by its name only; ccache may have made the path a relative one."""
    return text.replace(place.work + "/", "").replace(os.path.relpath(place.work, ROOT) + "/",
                                                      "").replace(LOOKED_AT + "/", "")


def short(text, most=14):
    return "\n".join([line.rstrip()[:200] for line in text.splitlines() if not FRAME.match(line)][:most])


def name_of(quoted):
    return quoted.strip("‘’'\"")


def messages_of(text, name):
    """The compiler's messages, each a list of lines; those on the submission's own lines first. What goes wrong inside
    of a macro is said of the line that uses it."""
    messages, own = [], name + ":"
    for line in text.splitlines():
        if re.match(r"\S+:\d+:\d+: (fatal error|error|warning): ", line) or not messages:
            messages.append([])
        messages[-1].append(line)
    for i, message in enumerate(messages):
        used = [(n, line) for n, line in enumerate(message)
                if line.startswith(own) and "note: in expansion of macro" in line]
        if used and not message[0].startswith(own):
            (n, line), what = used[-1], message[0].split(": ", 1)[1]
            where, _, macro = line.partition(": note: in expansion of macro ")
            messages[i] = [f"{where}: {what} (in {name_of(macro)})", *message[n + 1:n + 3]]
    messages = [m for m in messages if not all(map(FRAME.match, m))]
    return sorted(messages, key=lambda m: not m[0].startswith(own))


CHECKED = ["-fsanitize=address", "-fno-omit-frame-pointer", "-O1", "-no-pie"]


def compile_submission(base, place, name, strict=False, checked=False):
    """name: the file's in place.work. checked: every access of the submission's is looked at. The objects, ready to be
    linked; and the compiler's warnings."""
    objects, warnings = [], ""
    # A variable that TRY(f(&x)) sets seems unset to gcc. C only: C++ never takes a name that is not declared.
    flags = [*with_statuses_looked_at(place), "-Wno-maybe-uninitialized",
             *([] if name.endswith(".cu") else ["-Werror=implicit-function-declaration"])]
    for suffix, more in base.variants:
        out = f"{name}{suffix}{'.checked' if checked else ''}.o"
        text = f"{place.work}/{name}{suffix}.s"  # the assembler's, which shows machine code that is not the compiler's
        view = f"{name}{suffix}.values"
        command = [*base.compiler(name), *(["-Werror"] if strict else []), *flags, *more,
                   *(CHECKED if checked else []), f"-ffile-prefix-map={place.work}/=", "-fmax-errors=3",
                   "-fdiagnostics-color=never"]
        made = ["-c", "-o", f"{place.work}/{out}"] if checked else ["-S", "-o", text, values_of(f"{place.work}/{view}")]
        ended, words = place.run([*command, *made, f"{place.work}/{name}"], 120, writable=True), ""
        if not checked and ended.code == 0 and not ended.why:
            words, ended = ended.text, place.run([*base.settings.word["CC"], "-c", "-o", f"{place.work}/{out}", text],
                                                 120, writable=True)
        messages = messages_of(without_paths(words + ended.text, place), name)
        said = short("\n".join(sum(messages, [])))
        if ended.why or ended.code != 0:
            helps = [h for pattern, h in HELP if messages and re.search(pattern, "\n".join(messages[0][:8]))]
            raise Refused("does not compile",
                          "\n".join(filter(None, [said or ended.why or f"the compiler ended with code {ended.code}",
                                                  "help: " + helps[0] if helps else ""])))
        warnings = warnings or said
        if not checked:  # that one repeats a crash, for its line; the plain one has been examined
            examine(base, place, name, out, base.names[suffix])
            machine_code(os.path.join(place.host_work, name), suffix)
            dropped = statuses(place, name, without_paths(words, place), view, lambda path,
                               command=command: without_paths(
place.run([*command, "-S", "-o", f"{place.work}/{LOOKED_AT}.s", f"{place.work}/{path}"], 120, writable=True).text,
place))
            if dropped:
                raise Refused("refused", dropped)
        objects.append(out)
    return objects, warnings


def unresolved(base, missing):
    """What to say of names without a definition: the starter's own are missing, others were never there."""
    starters = set().union(*base.names.values())
    plain = {m: re.sub(r"\(.*", "", m).split("::")[-1] for m in missing}  # of C++ the linker writes the arguments, too
    left_out = [m for m in missing if m in starters or base.watched
                and any(f"{len(plain[m])}{plain[m]}" in s for s in starters)]
    unknown = [m for m in missing if m not in left_out]
    lines = []
    if unknown:
        lines.append(f"it calls {', '.join(unknown[:8])}, which nothing defines: a misspelt name, or a header that is "
                     "missing?")
    if left_out:
        lines += [f"it does not define {', '.join(left_out[:8])}, which the tests or the rest of the project call",
                  f"help: every function of the starter has to be there, not static: {base.exercise.starter}"]
    return lines


# What a submission of kind c allocates is counted (tests/graded.h)
ALLOCATE = set("malloc calloc realloc reallocarray aligned_alloc posix_memalign strdup strndup asprintf vasprintf "
               "group_create".split())


def counted(base, place, objects):
    """Copies of the objects that use the runner's Malloc for malloc, and so on; and the linker's words for all files'
    free."""
    if not getattr(base, "counts", False):
        return objects, []
    for o in objects:
        elf.capitalize(os.path.join(place.host_work, o), os.path.join(place.host_work, o + ".counted"), ALLOCATE)
    return [o + ".counted" for o in objects], ["-Wl,--wrap=free,--wrap=realloc"]


def link(base, place, objects, program="program", more=()):
    """The test program, in place.work. rest.o comes first: of an inline function that both have its own is taken."""
    given, wrap = counted(base, place, objects) if not more else (objects, [])
    rest = place.give(os.path.join(ROOT, base.rest))
    # addresses of functions: constants (tests/lockdown.h)
    lax = [] if sys.platform == "darwin" else ["-Wl,--allow-shlib-undefined,-z,relro,-z,now"]
    command = [*base.settings.word["CC"], *lax, *wrap, "-o", f"{place.work}/{program}", rest,
               *(f"{place.work}/{o}" for o in given), *more,
               *base.settings.word["LIBS"], "-lcmocka", *(["-lstdc++"] if base.watched else [])]
    ended = place.run(command, 120, writable=True)
    if ended.code == 0 and not ended.why:
        calls(base, place, objects)
        return
    missing = sorted(set(re.findall(r"undefined reference to [`'‘]([^'’\n]{1,300})['’]", ended.text)))
    if missing:
        raise Refused("does not link", "\n".join(unresolved(base, missing)))
    raise Refused("does not link", short(without_paths(ended.text, place)))
