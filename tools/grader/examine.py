"""What a submission may contain: its assembler's text, its object file, and the functions that it calls.

A submission is C that computes. It has no machine code but the compiler's, nothing of it runs before the tests, it
replaces no other function, and it calls what needs no trust: C's functions on memory, text and numbers, and what the
headers of its starter declare. A submission that replaces a file of the program may call all of the program, which is
linked without that file. A submission that computes addresses gets past these names: tests/lockdown.h."""
import ctypes
import difflib
import os
import re

from . import ROOT, Trouble, elf, library

MAX_OBJECT = 8 << 20
NAME_SHOWN = 100             # letters of a submission's name that a message quotes
# What a compiler makes of C, and named sections. Not: tables of functions that run before or after main (.init_array,
# .ctors, .init, ...)
HARMLESS = re.compile(r"(\.(text|data|bss|rodata|tbss|tdata|lbss|ldata|lrodata|rel|rela|comment|note|debug|eh_frame"
                      r"|symtab|symtab_shndx|strtab|shstrtab|group|gcc_except_table)([._].*)?|[A-Za-z_]\w*|)")
# The C library's functions on memory, text and numbers; those that say something; and those that end a program, which
# is found when it runs. The mathematical library has harmless functions only.
OF_C = set("""
    memccpy memchr memcmp memcpy memmem memmove mempcpy memrchr memset stpcpy stpncpy strcasecmp strcat strchr strchrnul
    strcmp strcpy strcspn strdup
    strerror strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr strspn strstr strtok strtok_r
    strsep
    abs labs llabs div ldiv lldiv atof atoi atol atoll strtod strtof strtol strtold strtoll strtoul strtoull strtoimax
    strtoumax imaxabs
    malloc calloc realloc reallocarray free aligned_alloc posix_memalign malloc_usable_size qsort qsort_r bsearch
    rand srand rand_r random srandom drand48 erand48 lrand48 srand48 abort exit _Exit atexit
    printf fprintf vprintf vfprintf sprintf snprintf vsprintf vsnprintf asprintf vasprintf sscanf vsscanf puts fputs
    fputc putc putchar fwrite fflush perror
    stdout stderr clock time difftime clock_gettime gettimeofday nanosleep
    isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper
    _GLOBAL_OFFSET_TABLE_ _DYNAMIC __errno_location __assert_fail __assert __stack_chk_fail __ctype_b_loc
    __ctype_tolower_loc __ctype_toupper_loc
    __cxa_atexit __gmon_start__ __tls_get_addr signgam""".split())
# glibc's of the same: checked, of another edition of C, ...
FORMS = re.compile(r"__(isoc99_|isoc23_)?(\w+?)(_chk|_finite)?")
RUNS_EARLY = re.compile(r"\.(init|fini|preinit_array|init_array|fini_array|ctors|dtors)\b")

# The table in which -fsanitize=thread puts one function into every file of a .cu exercise; it does nothing
# (tests/simt/check.cpp)
CHECKERS_START = ".init_array.00099"


class Refused(Exception):
    """A submission that is not run: it does not compile, or contains what it must not."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


def examine(base, place, name, out, names):
    """Refuse what would run outside of the tests, and what could take the place of anything but the starter's
    functions."""
    path = os.path.join(place.host_work, out)
    if os.path.getsize(path) > MAX_OBJECT:
        raise Refused("refused", f"its object file has more than {MAX_OBJECT >> 20} MiB; no exercise needs that")
    try:
        if base.watched:
            elf.unlist(path, CHECKERS_START)
        sections, symbols = elf.read(path)
    except Trouble as e:
        raise Refused("refused", str(e)) from None
    for s, flags in sections if not base.sanitized else []:
        if s == ".note.GNU-stack" and flags & elf.CODE:
            raise Refused("refused", "a function within a function, whose address is used, needs a stack that is run "
                          "as code: make it a static function")
        if RUNS_EARLY.match(s):
            raise Refused("refused", f"it has a constructor or destructor (section {s[:NAME_SHOWN]}): nothing of a "
                          "submission may run before or after the tests")
        if not HARMLESS.fullmatch(s):
            raise Refused("refused", f"it has a section {s[:NAME_SHOWN]}, which no C code needs")
        if bool(flags & elf.CODE) != s.startswith(".text"):
            raise Refused("refused",
                          f"its section {s[:NAME_SHOWN]} mixes functions and data: leave out the attribute `section`")
    for s in symbols:
        if s.type == elf.OBJECT and s.defined < len(sections) and sections[s.defined].flags & elf.CODE:
            raise Refused("refused", f"its variable {s.name[:NAME_SHOWN]} mixes functions and data: leave out the "
                          "attribute `section`")
        if s.name == "main" and s.defined:
            raise Refused("refused", "it defines main; the program is the grader's, and a submission only has the "
                          "functions of the starter")
        if s.type == elf.IFUNC:
            raise Refused("refused", f"{s.name[:NAME_SHOWN]} is chosen when the program is loaded (ifunc): nothing of "
                          "a submission may run before the tests")
        if not s.defined and (s.name in base.forbidden
                              or re.match(r"_?cmocka|_(fail|assert|mock|will_return|expect|skip)", s.name)):
            raise Refused("refused", f"it uses {s.name}, which belongs to the test runner")
        if s.defined and s.bind != elf.LOCAL and s.name not in names and not (base.watched and is_instance(s)):
            raise Refused("refused", seen_by_others(s, names - {d.name for d in symbols if d.defined},
                                                    os.path.join(place.host_work, name)))


def machine_code(source, suffix):
    """Refuse assembler's text: in what the compiler has made of the source, #APP begins it."""
    with open(f"{source}{suffix}.s", "rb") as f:
        if any(line.strip() == b"#APP" for line in f):
            raise Refused("refused", "it has machine code of its own (asm): write it in C")


def calls(base, place, objects):
    """Refuse what uses a name that needs trust. Every name is defined somewhere: it has been linked."""
    for out in objects if not base.sanitized else []:
        for s in elf.read(os.path.join(place.host_work, out))[1]:
            if not s.defined and s.name and s.name not in base.callable and not is_harmless(s.name, base.watched):
                raise Refused("refused", not_to_be_called(base.exercise, s.name))


def is_harmless(name, watched):
    """A name that is not the program's."""
    form = FORMS.fullmatch(name)
    if name in OF_C or form and form[2] in OF_C or re.match(r"(omp|GOMP)_", name) or is_mathematical(name):
        return True
    # what the compiler calls where a CPU has no instruction
    if name.startswith("__") and not hasattr(library("c", "libc.so.6"), name):
        return True
    return watched and not hasattr(library("c", "libc.so.6"), name)


class Found(ctypes.Structure):
    """What dladdr says of an address."""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("at", ctypes.c_void_p)]


def is_mathematical(name):
    """Where is it? A library also finds the names of those that it needs."""
    found, function = Found(), getattr(library("m", "libm.so.6"), name, None)
    return function is not None \
           and bool(library("c", "libc.so.6").dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(found))) \
        and os.path.basename(found.file).startswith((b"libm.", b"libm-"))


def not_to_be_called(e, name):
    name = name[:NAME_SHOWN]
    if name in e.withheld:
        return f"it uses {name}, which does what this exercise asks for: write that yourself"
    return f"it uses {name}, which {e.file} does not need: it may call C's functions on memory, text and numbers, " \
           "and what " + \
        ("the program has" if e.replaces else "the starter's headers declare")


def is_instance(symbol):
    """An inline function, or a template's instance, of C++: each object may have it, and the linker takes the first,
    which is rest.o's if it has one. What the C++ library has is none: a shared library would take it from here,
    operator new for instance."""
    return symbol.bind in (elf.WEAK, elf.UNIQUE) and symbol.name.startswith(("_Z", "DW.ref.")) \
        and not hasattr(library("stdc++", "libstdc++.so.6"), symbol.name)


def seen_by_others(symbol, missing, source):
    """The sentence, with the first line that begins with a word and has the name. missing: of the starter's names."""
    mangled = re.match(r"_Z(\d{1,5})(.*)", symbol.name)       # _Z3addff: add
    name = mangled[2][:int(mangled[1])] if mangled else symbol.name
    call, what = ("()", "function") if symbol.type == elf.FUNC else ("", "variable")
    with open(source, encoding="utf-8", errors="replace") as f:
        lines = [n for n, line in enumerate(f, 1) if re.fullmatch(r"[A-Za-z_]\w*", name) and
                 re.match(rf"[A-Za-z_].*(?<!\w){name}\s*{re.escape(call[:1])}", line)]
    name = name[:NAME_SHOWN]
    where = f"{os.path.basename(source)}:{lines[0]}: " if lines else ""
    meant = difflib.get_close_matches(name, missing, 1)
    remedy = f"is it to be {meant[0]}, which is missing?" if meant else "write static before it"
    return f"{where}{name}{call} is seen by other files, and the starter has no such {what}: {remedy}"
