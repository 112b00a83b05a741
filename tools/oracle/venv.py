"""A Python for the adapters here: the one of `make bench` (the newest PyTorch of PyPI), and transformers.
Prints its path.

    python3 tools/oracle/venv.py"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from torch_venv import torch_python  # noqa: E402

NEEDS = ["transformers", "safetensors", "numpy"]


def main():
    python = torch_python()
    if subprocess.run([python, "-c", "import transformers, safetensors.torch"], capture_output=True).returncode != 0:
        print("transformers goes there, too", file=sys.stderr, flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDS], check=True)
    print(python)


if __name__ == "__main__":
    main()
