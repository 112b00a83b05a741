"""Trains by adapters of tools/oracle and asks `trivium oracle check`; a row a line of stdin:

    oracle_rows.py ADAPTERS TRIVIUM WORK MODULE...        WANTED|NAME|REFERENCE|RANKS|ADAPTER|ARGUMENTS

WANTED: "right", or what check must call the first wrong one; behind it, if a suspect must be named first, " ~ SUSPECT".
Importing PyTorch takes longer than to train the small model. So it is imported once, here, with the MODULEs, and each
rank of each row is a fresh process forked from this one: it runs the adapter's file, with the environment that torchrun
gives, and shares no state with other rows. WORK: where references are."""
import atexit
import gc
import importlib
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import time

LIMIT_S = 600


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def be_rank(rank, ranks, port, log, train, *more):
    """Does not return."""
    code = 1
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if ranks > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                              MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        train(*more)
        code = 0
    except SystemExit as e:
        code = e.code or 0
    except BaseException as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_adapter(adapters, name, *words):
    sys.argv = [f"{adapters}/{name}.py", *words]
    sys.path.insert(0, adapters)
    runpy.run_path(sys.argv[0], run_name="__main__")


def run_ranks(ranks, *more):
    """Did all end well? If one does not, the others would wait for it. more: a log, and a function with its words."""
    port, pids = free_port(), set()
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            be_rank(rank, ranks, port, *more)
        pids.add(pid)
    end, ok = time.monotonic() + LIMIT_S, True
    while pids:
        pid, code = os.waitpid(-1, os.WNOHANG)
        pids.discard(pid)
        ok = ok and (pid == 0 or code == 0) and time.monotonic() < end
        for other in pids if not ok else ():
            os.kill(other, 9)
        if pid == 0:
            time.sleep(0.02)
    return ok


def verdict(trivium, reference, ok, log):
    said = subprocess.run([trivium, "oracle", "check", "run", reference], capture_output=True, text=True)
    first = (said.stdout + said.stderr).split("\n")[0]
    if ok and first.startswith("all right: "):
        return "right"
    if ok and first.startswith("first wrong: "):
        suspect = re.search("^  suspect: ([^:]*): ", said.stdout, re.M)
        return f"{first[len('first wrong: '):]} ~ {suspect[1] if suspect else 'none'}"
    with open(log) as f:
        return f"{first}; {next((x.strip() for x in f if 'Error' in x), 'no error in its log')}"


def main():
    adapters, trivium, work, *modules = sys.argv[1:]
    rows = [line.rstrip("\n").split("|") for line in sys.stdin]
    os.chdir(work)
    for module in modules:
        importlib.import_module(module)
    gc.freeze()                                         # or collecting copies what all share
    for wanted, name, reference, ranks, adapter, arguments in rows:
        shutil.rmtree("run", ignore_errors=True)
        if os.path.exists("log"):
            os.remove("log")
        ok = run_ranks(int(ranks), "log", run_adapter, adapters, adapter, reference, "run", *arguments.split())
        said = verdict(trivium, reference, ok, "log")
        good = said == wanted or " ~ " not in wanted and said.split(" ~ ")[0] == wanted
        print(f"ok {name}" if good else f"not ok {name}: check says {said}, not {wanted}", flush=True)


if __name__ == "__main__":
    main()
