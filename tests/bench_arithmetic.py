"""Test tools/bench: medians, quotients, floors, which PyTorch counts, the stand-in for CUDA's libraries, the end of a
job."""

import contextlib
import ctypes
import io
import math
import os
import subprocess
import tempfile
import time

import cpu
import cpu_cases
import cpu_tables
import elastic
import torch_venv


def runs(*ms, **also):
    return [dict(step_ms=m, rss_mib=100, first_loss=5.0, **also) for m in ms]


def rows_of(**by_name):
    return {name.replace("_", " "): cpu_tables.summarise(r) for name, r in by_name.items()}


ROWS = rows_of(
    trivium_fp32=runs(300, 90, 100, flops=1e9, peak_flops=2e10),
    torch_fp32_eager=runs(150, 150, 1, import_mib=60),
    torch_fp32_compiled=runs(120, 119, 500),
    llm_c_fp32=runs(900),
)


def test_a_ratio_is_the_quotient_of_two_medians():
    assert ROWS["trivium fp32"]["step_ms"] == 100
    assert (ROWS["trivium fp32"]["low_ms"], ROWS["trivium fp32"]["high_ms"]) == (90, 300)
    assert cpu_tables.times(ROWS, "trivium fp32", "torch fp32 eager") == 1.5


def test_the_faster_pytorch_counts():
    line = cpu_tables.beside_others(ROWS)
    assert line["torch"] == "torch fp32 compiled" and line["times_torch"] == 1.2


def test_the_floor_is_flops_over_the_measured_peak():
    line = cpu_tables.beside_others(ROWS)
    assert math.isclose(ROWS["trivium fp32"]["floor_ms"], 50)
    assert math.isclose(line["over_floor"], 2) and math.isclose(line["floor_allows"], 2.4)
    assert cpu_tables.summarise(runs(100, flops=1e9, peak_flops=None))["over_floor"] is None


def test_memory_is_that_of_eager():
    line = cpu_tables.beside_others(ROWS)
    assert line["memory_of_eager"] == 1 and line["memory_of_eager_less_import"] == 2.5


def test_only_a_pytorch_that_lost_clearly_is_dropped():
    first = {"trivium": runs(500), "torch a": runs(100), "torch b": runs(114), "torch c": runs(116), "llm.c": runs(900)}
    assert cpu_tables.worth_another_round(list(first), first) == ["trivium", "torch a", "torch b", "llm.c"]


def test_products_above_the_peak_break_the_claim():
    shape = dict(layers=1, hidden=1000, batch=1, seq=1000)  # 7.2e10 flops in half of 144 ms: 1e12 a second

    def rate(peak):
        return cpu_tables.product_rate(dict(step_ms=144, by_op={"linear": 50.0}, peak_flops=peak), shape)

    assert math.isclose(rate(1e12), 1)
    trivium = cpu_cases.Trivium("build", shape, "fp32", 1)
    for peak, n_broken in ((1e12, 0), (0.99e12, 0), (0.97e12, 1)):
        rows = {trivium.name: cpu_tables.summarise(runs(144, by_op={"linear": 50.0}, peak_flops=peak, flops=1))}
        with contextlib.redirect_stdout(io.StringIO()):
            broken = cpu.broken_claims(cpu.Table("t", shape, [trivium]), rows)
        assert len(broken) == n_broken, peak


def test_a_loss_of_other_work_is_seen():
    for loss, n in ((5.09, 0), (5.11, 1), (4.89, 1), (math.nan, 1)):
        other = runs(1)
        other[0]["first_loss"] = loss
        assert len(cpu_tables.different_losses(rows_of(trivium=runs(1), torch=other))) == n, loss


def test_settings_of_the_shell_reach_no_case():
    names = [
        "OPENBLAS_CORETYPE",
        "OPENBLAS_L2_SIZE",
        "OMP_NUM_THREADS",
        "GOMP_SPINCOUNT",
        "ATEN_CPU_CAPABILITY",
        "LD_PRELOAD",
    ]
    kept = dict(os.environ)
    os.environ.update({n: "" for n in names})
    clean = cpu_cases.clean_environment(OMP_NUM_THREADS="3")
    os.environ.clear()
    os.environ.update(kept)
    assert clean["OMP_NUM_THREADS"] == "3" and not set(names[:2] + names[3:]) & set(clean)


def gcc(text, *words):
    subprocess.run(["gcc", "-x", "c", "-", "-x", "none", "-shared", "-fPIC", *words], input=text, text=True, check=True)


def test_a_library_loads_without_cudas():
    with tempfile.TemporaryDirectory() as folder:
        cudart, script, user = (os.path.join(folder, n) for n in ("libcudart.so.13", "map", "libtorch_x.so"))
        with open(script, "w") as f:
            f.write("libcudart.so.13 { global: cudaInit; };")
        gcc(
            "int cudaInit(void) { return 0; }",
            "-o",
            cudart,
            "-Wl,-soname,libcudart.so.13",
            f"-Wl,--version-script={script}",
        )
        gcc("int cudaInit(void); int start(void) { return cudaInit(); }", "-o", user, "-Wl,-rpath,$ORIGIN", cudart)
        os.remove(cudart)
        try:
            ctypes.CDLL(user)
            assert False, "it loads without"
        except OSError:
            pass
        torch_venv.stand_in_for_cuda(folder)
        assert ctypes.CDLL(user).start() == 100


def survivors_of(script):
    """What survivors says of a stand-in for mpirun, and how long it took."""
    start = time.monotonic()
    try:
        return elastic.survivors(["bash", "-c", script], {}, limit_s=1), time.monotonic() - start
    except SystemExit as end:
        return str(end), time.monotonic() - start


SURVIVORS = "echo killed 1.5; for r in 0 1 3; do echo survivor $r of 3: 1.501 1.502 1.504; done; "


def test_a_job_ends_with_its_ranks():
    for end in ("", "wait"):                            # mpirun is gone, and leaves a rank; it hangs with it
        (times, ended), took_s = survivors_of(SURVIVORS + "setsid sleep 30 & " + end)
        assert [round(ms, 6) for ms in times] == [1, 2, 4] and ended == (end == "") and took_s < 10, (times, took_s)


def test_a_job_without_a_death_says_so():
    unsaid = SURVIVORS.replace("killed", "no")
    for script, said in ((unsaid, "no 1.5"), ("exit 1", "no word"), ("echo killed", "killed")):
        text, _ = survivors_of(script)
        assert text.startswith("elastic: not one rank killed and three survivors within 1 s, but: " + said), text


for name, test in list(globals().items()):
    if name.startswith("test_"):
        try:
            test()
            print(f"ok {name[5:]}")
        except Exception as e:
            print(f"not ok {name[5:]} {type(e).__name__} {e}".replace("\n", " "))
