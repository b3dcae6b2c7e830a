"""Common parts of benchmarks: options, times of calls, the machine's own rates, a check of memory, the other processor."""

import argparse
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"  # as NumPy names it
ANYWHERE = {  # with these environment variables Open MPI starts as root, too, and more ranks than there are cores
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
}


def options(about, **numbers):
    """The ``numbers`` that the user gives; each has a default and a word of what it is."""
    parser = argparse.ArgumentParser(description=about)
    for name, (usual, what) in numbers.items():
        parser.add_argument(f"--{name}", type=type(usual), default=usual, help=what)
    return parser.parse_args()


def timed(function, *arguments, **options):
    """Wall time of a call, in seconds, and what it returns."""
    begin = time.perf_counter()
    found = function(*arguments, **options)
    return time.perf_counter() - begin, found


def median_seconds(function, repeats=11):
    """Median wall time of ``function()`` over ``repeats`` calls, after one to warm up."""
    function()
    return float(np.median([timed(function)[0] for _ in range(repeats)]))


def side_by_side(functions, repeats=31):
    """Wall times (functions, repeats) of functions that take turns, so that what else the machine does meets them all."""
    for function in functions:
        function()
    times = np.empty((len(functions), repeats))
    for turn in range(repeats):
        for row, function in zip(times, functions, strict=True):
            time.sleep(0.005)  # threads of the one before may still look for work
            row[turn] = timed(function)[0]
    return times


def dgemm_rate(size=1500, dtype=np.float64):
    """This machine's matrix product, all cores, in floating-point operations a second."""
    a = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return 2 * size**3 / median_seconds(lambda: a @ a)


def peak_bytes(function):
    """The most memory that NumPy and Python held at once during ``function()``, above what they held before."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def again_without_avx512(module):
    """Run a benchmark once more as on a processor without AVX-512, where this one has it: NumPy, kernels, OpenBLAS and XLA."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    if "NPY_DISABLE_CPU_FEATURES" in os.environ:
        return
    if not set(AVX512.split()) & set(found):
        print("\n(this processor has no AVX-512)")
        return
    xla = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_max_isa=AVX2"
    narrow = {"NPY_DISABLE_CPU_FEATURES": AVX512, "OPENBLAS_CORETYPE": "Haswell"}  # the first is for our kernels, too
    narrow |= {"ATEN_CPU_CAPABILITY": "avx2", "XLA_FLAGS": xla}
    print("\nWithout AVX-512", flush=True)
    subprocess.run([sys.executable, "-m", module], env=os.environ | narrow, check=True)


def on_ranks(ranks, module, *arguments, **variables):
    """Return the output of ``python -m module arguments...`` on MPI ranks, with these environment variables."""
    command = [Path(sys.executable).parent / "mpiexec", "-n", str(ranks), sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | ANYWHERE | variables, timeout=900, check=True
    )
    return done.stdout
