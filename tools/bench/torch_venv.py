"""A Python with the newest PyTorch of PyPI, in build-bench-venv, for `make bench`. Prints its path.

    python3 tools/bench/torch_venv.py [--update]        --update: look for a newer release than the one that is there

PyPI's PyTorch for Linux is built for CUDA. The libraries of CUDA that it links to are gigabytes, and compute nothing
where there is no GPU. So PyTorch is installed without them, and one small library takes their names: it has every
function that PyTorch links to, each of which returns 100, CUDA's "no device", and whose text the two that tell
errors have: PyTorch raises exceptions of it, which models of transformers cause and catch. Where TORCH_PYTHON is set,
to a Python that has PyTorch, that is used instead.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, "build-bench-venv")
NEEDS = [
    "filelock",
    "typing-extensions",
    "setuptools",
    "sympy",
    "networkx",
    "jinja2",
    "fsspec",
    "numpy",
]  # of import and compile
CUDA_LIBRARY = r"lib(?:cu|nv|nccl)\w*\.so\.\d+"
CUDA_FUNCTION = r"(?:__cuda|cu|nccl|nv)\w+"
TEXTS = ("cudaGetErrorString", "cudaGetErrorName")
WORKS = """import torch
try:
    torch.cuda.is_current_stream_capturing()
except RuntimeError:
    pass"""


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def works(python):
    return (
        os.path.exists(python) and subprocess.run([python, "-c", WORKS], capture_output=True).returncode == 0
    )


def missing_functions(libraries):
    """version -> functions that these libraries link to and none of them has; "" where functions have no version"""
    defined = set(re.findall(r" (\w+)(?:@+[\w.]+)?$", said_by("nm", "-D", "--defined-only", *libraries), re.M))
    missing = {}
    for name, version in re.findall(
        rf" U ({CUDA_FUNCTION})(?:@+([\w.]+))?$", said_by("nm", "-D", "-u", *libraries), re.M
    ):
        if name not in defined:
            missing.setdefault(version, set()).add(name)
    return missing


def stand_in_for_cuda(folder):
    """In torch's lib: one library with all functions, and the names under which it is asked for."""
    libraries = [
        os.path.join(folder, f)
        for f in os.listdir(folder)
        if ".so" in f and f != "no_cuda.so" and not os.path.islink(os.path.join(folder, f))
    ]
    names = set(re.findall(rf"NEEDED.*\[({CUDA_LIBRARY})\]", said_by("readelf", "-d", *libraries)))
    missing = missing_functions(libraries)
    functions = sorted(set().union(*missing.values()))
    versions = "".join(f"{v} {{ global: {'; '.join(sorted(of))}; }};\n" for v, of in missing.items() if v)
    c, script = os.path.join(folder, "no_cuda.c"), os.path.join(folder, "no_cuda.map")
    with open(c, "w") as f:
        f.writelines(
            f'const char *{name}(void) {{ return "no device"; }}\n' if name in TEXTS
            else f"int {name}(void) {{ return 100; }}\n"
            for name in functions
        )
    with open(script, "w") as f:
        f.write(versions)
    said_by(
        "gcc",
        "-w",
        "-fno-builtin",
        "-shared",
        "-fPIC",
        c,
        f"-Wl,--version-script={script}",
        "-o",
        os.path.join(folder, "no_cuda.so"),
    )
    for name in names - set(os.listdir(folder)):
        os.symlink("no_cuda.so", os.path.join(folder, name))


def python_of(venv):
    return os.path.join(venv, "bin", "python")


def install(venv, torch):
    """A half-made environment has no `works`, and is completed by the next call."""
    print(f"PyTorch goes to {venv}: half a gigabyte to load, 1.5 GB there", file=sys.stderr, flush=True)
    python = python_of(venv)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    said_by(sys.executable, "-m", "venv", venv)
    said_by(*pip, *NEEDS)
    subprocess.run([*pip, "intel-openmp"], capture_output=True)  # for one way to use it, where there is such a package
    said_by(*pip, "--no-deps", torch)
    if not works(python):
        packages = said_by(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
        stand_in_for_cuda(os.path.join(packages, "torch", "lib"))
    said_by(python, "-c", WORKS)


def why_not(e):
    """The last line of what a command has said that failed."""
    said = getattr(e, "stderr", None) or getattr(e, "stdout", None) or str(e)
    return (said.decode() if isinstance(said, bytes) else said).strip().splitlines()[-1]


def torch_python(update=False, venv=VENV, torch="torch"):
    """Path of a Python with PyTorch, in this folder, of this release; None, and a line that says why, where none can be
    had."""
    given = os.environ.get("TORCH_PYTHON")
    if given and venv == VENV:
        return given if works(given) else print(f"no PyTorch: `import torch` fails in TORCH_PYTHON={given}")
    try:
        if update or not works(python_of(venv)):
            install(venv, torch)
        return python_of(venv)
    except (OSError, subprocess.CalledProcessError) as e:
        print(
            f"no PyTorch: {why_not(e)} (Debian: apt-get install python3-venv binutils; or TORCH_PYTHON=a Python that "
            "has it)"
        )
        return None


if __name__ == "__main__":
    print(torch_python("--update" in sys.argv[1:]))
