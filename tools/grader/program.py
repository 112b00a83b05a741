"""The program with other files in it, a learner's or patched ones. All other objects are those of the project's
build."""
import glob
import os
import subprocess

from . import Trouble, build

FOLDER = os.path.join(build.build_folder(), "mine")
TREE = os.path.join(FOLDER, "tree")                          # of the other files, by their paths from the root
TRIVIUM = os.path.join(FOLDER, "trivium")


def sources_of(path, settings):
    """What has to be compiled when `path` has changed: itself, or what includes it."""
    if path.endswith(".c"):
        return [path]
    if not path.endswith(".h"):
        raise Trouble(f"{path} is no file of C; a program is made of .c and .h")
    found = {os.path.relpath(d, f"{settings.folder}/obj").split(".")[0] + ".c"
             for d in glob.glob(f"{settings.folder}/obj/**/*.d", recursive=True)
             if path in build.words_of(d)}
    return sorted(s for s in found if os.path.isfile(s) and not os.path.basename(s).startswith("test_"))


def compile_all(paths, settings):
    """The objects of `paths`, which are below TREE, and which of the build they stand in for."""
    mine, replaced = [], set()
    for source in sorted({s for path in paths for s in sources_of(path, settings)}):
        text = os.path.join(TREE, source) if source in paths else source
        for suffix, more in build.elements(source, settings):
            out = os.path.join(FOLDER, "obj", os.path.splitext(source)[0] + suffix + ".o")
            os.makedirs(os.path.dirname(out), exist_ok=True)
            command = [*settings.word["CC"], f"-I{TREE}", *settings.without_werror("TEST_CFLAGS"), *more, "-c",
                       "-o", out, text]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise Trouble(f"{text} does not compile:\n" + "\n".join(done.stdout.splitlines()[:15]))
            mine.append(out)
            replaced.add(f"{settings.folder}/obj/{os.path.splitext(source)[0]}{suffix}.o")
    return mine, replaced


def take(e, path):
    """A learner's file for this exercise, copied to where it stands in the tree; its path from the root."""
    copy = os.path.join(TREE, e.replaces)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    try:
        build.take(path, copy)
    except build.Refused as refused:
        raise Trouble(refused.text) from None
    return e.replaces


def link(paths):
    """TRIVIUM: with `paths` as they are below TREE."""
    settings = build.Settings(False)
    main_object = f"{settings.folder}/obj/trivium.o"
    build.make(*settings.word["LIB_O"], main_object)
    mine, replaced = compile_all(paths, settings)
    left = [o for o in settings.word["LIB_O"] if o not in replaced]
    if len(left) == len(settings.word["LIB_O"]):
        raise Trouble(f"{' '.join(paths)}: no part of this build's library")
    subprocess.run([*settings.word["CC"], "-o", TRIVIUM, main_object, *mine, *left, *settings.word["LIBS"]], check=True)
