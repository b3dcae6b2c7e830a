"""The harness of benchmarks: options, times of calls, rows as they come, other processes, the machine's own rates."""

import argparse
import json
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
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def options(about, arguments=None, **known):
    """The options that the user gives; each has a default and a word of what it is: a number, a text, False, or all choices."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (usual, what) in known.items():
        kind = {"type": type(usual)}
        if isinstance(usual, bool):
            kind = {"action": "store_true"}
        elif isinstance(usual, list):
            kind = {"nargs": "+", "choices": usual, "metavar": "NAME"}
            what += f": {', '.join(usual)}; by default all"
        parser.add_argument(f"--{name}", default=usual, help=what, **kind)
    return parser.parse_args(arguments)


class Rows:
    """A table that is printed row by row, as a benchmark goes on.

    Examples
    --------
    >>> rows = Rows("agents", 8, {"ms": ".2f", "share": ".0%"})
    agents        ms   share
    >>> rows.add(10, 1.234, 0.25)
    10          1.23     25%
    """

    def __init__(self, what, width, columns):
        self.width, self.columns = width, columns
        print(f"{what:<{width}}" + "".join(f" {name:>{self.wide(name)}}" for name in columns), flush=True)

    def wide(self, name):
        return max(7, len(name))

    def add(self, label, *values):
        """Print a row, in which None is a dash; texts of more columns than there are stand at its end."""
        shown = zip(self.columns.items(), values, strict=False)
        cells = (f" {'-' if value is None else format(value, form):>{self.wide(name)}}" for (name, form), value in shown)
        print(f"{label!s:<{self.width}}" + "".join(cells), *values[len(self.columns) :], flush=True)


def timed(function, *arguments, **options):
    """Wall time of a call, in seconds, and what it returns."""
    begin = time.perf_counter()
    found = function(*arguments, **options)
    return time.perf_counter() - begin, found


def in_turn(runs, repeats):
    """What ``runs`` return, (repeats, runs), called in turn, so that what else the machine does meets them all."""
    return np.array([[run() for run in runs] for _ in range(repeats)])


def median_seconds(function, repeats=11):
    """Median wall time of ``function()`` over ``repeats`` calls, after one to warm up."""
    function()
    return float(np.median([timed(function)[0] for _ in range(repeats)]))


def side_by_side(functions, repeats=31):
    """Wall times (functions, repeats) of functions in turn, after a call of each to warm up."""

    def rested(function):
        time.sleep(0.005)  # threads of the one before may still look for work
        return timed(function)[0]

    for function in functions:
        function()
    return in_turn([lambda function=function: rested(function) for function in functions], repeats).T


def a_round(history):
    """Seconds of a round by the history's clock, which leaves observation out."""
    return float(np.ptp(history["seconds"]) / history["round"][-1])


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


def elsewhere(function, *arguments):
    """The command that calls a function of a module in a new process, which prints what it returns, unless None, as JSON."""
    module, name = sys.modules[function.__module__].__spec__.name, function.__name__  # also of a module that is run
    script = f"import json\nfrom {module} import {name}\nfound = {name}(*{arguments!r})"
    return [sys.executable, "-c", f"{script}\nif found is not None:\n    print(json.dumps(found))"]


def called(function, *arguments, before=(), **variables):
    """What a function returns in a new process, with these environment variables; ``before``: words before its command."""
    command, environment = [*before, *elsewhere(function, *arguments)], os.environ | variables
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, env=environment, timeout=900, check=True).stdout)


def on_ranks(ranks, function, *arguments, **variables):
    """What a function returns on the first of so many MPI ranks, with these environment variables; on the others None."""
    before = Path(sys.executable).parent / "mpiexec", "-n", str(ranks)
    return called(function, *arguments, before=before, **ANYWHERE, **variables)
