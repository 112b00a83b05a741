"""A Python for the adapters here. Prints its path.

    python3 tools/oracle/venv.py                 PyTorch (the newest of PyPI, as `make bench` has it) and transformers
    python3 tools/oracle/venv.py --frameworks    the releases that deepspeed_zero.py and megatron_core.py were tried
                                                 with

The second is a folder of its own, build-oracle-venv: 1.9 GB. It needs what compiles extensions of Python: g++ and
Python's headers (Debian: apt-get install g++ python3-dev python3-venv binutils). DeepSpeed is built here, without its
kernels; its first run compiles one, which takes some minutes."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from torch_venv import ROOT, torch_python, why_not  # noqa: E402

NEEDS = ["transformers", "safetensors", "numpy", "accelerate"]
# Neither asks for a certain release of PyTorch, and both reach into it: these go together.
TORCH = "torch==2.15.0"
# Megatron-Core imports triton, whatever the device; torchtitan's configurations import tensorboard, datasets, torchdata
FRAMEWORKS = ["transformers==5.24.0", "triton==3.9.0", "accelerate==1.15.0", "safetensors==0.8.0", "numpy==2.4.6",
              "einops==0.8.2", "hjson==3.1.0", "msgpack==1.2.4", "ninja==1.13.2", "packaging==26.4", "psutil==7.2.2",
              "py-cpuinfo==9.0.0", "pydantic==2.14.4", "tqdm==4.70.1", "tyro==1.0.17", "tensorboard==2.21.0",
              "datasets==5.2.0", "wheel"]
MEGATRON = ["megatron-core==0.19.2", "megatron-bridge==0.6.2"] if sys.version_info >= (3, 12) else [
    "megatron-core==0.16.1"]
# else they bring torch's gigabytes of CUDA
WITHOUT_TORCH = ["deepspeed==0.19.8", "torchtitan==0.3.0", "torchdata==0.11.0", "spmd_types==0.2.3", *MEGATRON]
HAS_FRAMEWORKS = """import importlib.metadata as m, sys
for name, version in (x.split("==") for x in sys.argv[1:]):
    assert m.version(name) == version, f"{name} is not {version}"
import deepspeed, megatron.core, transformers"""


def pip(python, *words):
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words], check=True,
                   capture_output=True)


def has(python, code, *words, check=False):
    return subprocess.run([python, "-c", code, *words], capture_output=True, check=check).returncode == 0


def with_transformers():
    python = torch_python()
    if python and not has(python, "import accelerate, transformers, safetensors.torch"):
        print("transformers goes there, too", file=sys.stderr, flush=True)
        pip(python, *NEEDS)
    return python


def with_frameworks():
    os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0")
    wanted = [HAS_FRAMEWORKS, TORCH, *WITHOUT_TORCH, *FRAMEWORKS[:3]]
    python = torch_python(venv=os.path.join(ROOT, "build-oracle-venv"), torch=TORCH)
    if python and not has(python, *wanted):
        print("DeepSpeed, Megatron-Core and torchtitan go there, too", file=sys.stderr, flush=True)
        pip(python, *FRAMEWORKS)
        pip(python, "--no-deps", "--no-build-isolation", *WITHOUT_TORCH)
        has(python, *wanted, check=True)
    return python


def main():
    if sys.argv[1:] not in ([], ["--frameworks"]):
        sys.exit(__doc__)
    try:
        python = with_frameworks() if sys.argv[1:] else with_transformers()
    except subprocess.CalledProcessError as e:
        sys.exit(f"pip could not install them: {why_not(e)}")
    if not python:
        sys.exit(1)
    print(python)


if __name__ == "__main__":
    main()
