"""Starting scripts, comparing results, and looking for what a run has left behind."""

import contextlib
import json
import multiprocessing
import multiprocessing.synchronize
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

HERE = Path(__file__).parent
MPICH = os.environ.get("CONSENSUS_TEST_MPICH")  # the folder of an environment with MPICH, which tests use instead of Open MPI
MPIEXEC = (Path(MPICH).resolve() / "bin" if MPICH else Path(sys.executable).parent) / "mpiexec"
MARK = "CONSENSUS_TEST_RUN"  # an environment variable that a run's processes inherit
KIND = "CONSENSUS_TEST_ENGINE"  # another one: the engine of a script's ranks


def environment(**more):
    """For a script: the packages and these helpers can be imported, and MPI starts anywhere."""
    return {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]),
        "OMPI_MCA_mpi_yield_when_idle": "1",  # there may be more ranks than cores
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
        **({"MPI4PY_LIBMPI": str(MPIEXEC.parents[1] / "lib" / "libmpi.so.12")} if MPICH else {}),
        **more,
    }


@contextlib.contextmanager
def free_port(number=0):
    """A port, or that of this number, which nobody else on this machine is given until the end; ranks may listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those do: two may have it who do not both listen
        held.bind(("localhost", number))
        yield held.getsockname()[1]


@contextlib.contextmanager
def own_job():
    """The number of a job of the stubs of SLURM, whose ports, and those of the next job, are given to nobody else."""
    for job in random.Random(os.urandom(8)).sample(range(1000, 9000), 100):
        with contextlib.ExitStack() as ports:
            try:
                for number in (31 * job, 31 * job + 31, job, job + 1):  # that of ranks of srun, and that of torchrun
                    ports.enter_context(free_port(20_000 + number % 10_000))
            except OSError:
                continue
            yield job
            return


def command(kind, ranks, script, *arguments):
    """What starts a script on ranks of the engine ``kind``."""
    begin = [MPIEXEC, "-n", str(ranks), sys.executable]
    if kind == "torch":  # a port that is free
        pytest.importorskip("torch")
        begin = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*begin, script, *map(str, arguments)]


def started(kind, ranks, script, *arguments, timeout=180):
    """Run a script on ranks; the completed process."""
    options = {"capture_output": True, "text": True, "check": False, "env": environment(**{KIND: kind})}
    return subprocess.run(command(kind, ranks, script, *arguments), timeout=timeout, **options)


def mpiexec(ranks, script, *arguments, timeout=180):
    """Run a script on MPI ranks; the completed process."""
    return started("mpi", ranks, script, *arguments, timeout=timeout)


def on_ranks(ranks, task, folder, kind="mpi"):
    """What the ranks :func:`say` in a task of ``engine_ranks.py``, which ends well."""
    done = started(kind, ranks, HERE / "engine_ranks.py", task, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ended(ranks, task, folder, kind="mpi"):
    """What ranks write on standard error in a task that ends with an error."""
    done = started(kind, ranks, HERE / "engine_ranks.py", task, folder)
    assert done.returncode != 0
    assert "never printed" not in done.stdout
    return done.stderr


def engine_here(**settings):
    """The engine of the ranks on which this script was started."""
    from consensus import engines
    from consensus.solve import ENGINES

    return getattr(engines, ENGINES[os.environ.get(KIND, "mpi")])(**settings)


def say(value):
    """Print a value on the first rank, for the test to read."""
    if engine_here().root:
        print(json.dumps(value))


def start(script, *arguments, mark, **options):
    """Start a script as the leader of a process group of its own."""
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)], env=environment(**{MARK: mark}), start_new_session=True, **options
    )


def columns(history):
    """What must not depend on the engine: all that was recorded but the time."""
    return {name: history[name] for name in history if name != "seconds"}


def write(path, result):
    """Keep a result for another process to :func:`read`."""
    about = {"rounds": result.rounds, "reason": result.reason}
    np.savez(path, w=result.w, about=np.array(json.dumps(about)), **columns(result.history))


def read(path):
    with np.load(path) as file:
        arrays = dict(file)
    about, w = json.loads(str(arrays.pop("about"))), arrays.pop("w")
    return SimpleNamespace(w=w, history=arrays, rounds=about["rounds"], reason=about["reason"])


def assert_same(result, reference, what=""):
    """Equal to the bit: iterates, dtypes, all recorded columns, rounds, and why the run stopped."""
    __tracebackhide__ = True
    assert result.w.dtype == reference.w.dtype, what
    np.testing.assert_array_equal(result.w, reference.w, err_msg=what)
    mine, theirs = columns(result.history), columns(reference.history)
    assert list(mine) == list(theirs), what
    for name, column in theirs.items():
        assert mine[name].dtype == column.dtype, f"{what} {name}"
        np.testing.assert_array_equal(mine[name], column, err_msg=f"{what} {name}")
    assert (result.rounds, result.reason) == (reference.rounds, reference.reason), what


def wait_for(condition, seconds=60.0):
    """What ``condition()`` gives as soon as it is true; far longer than it takes, for machines that are busy."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"waited in vain for {seconds:g} s")


def living(mark, helpers=True):
    """Ids of the processes started with ``mark`` in their environment; ``helpers``: also multiprocessing's own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if marked and (helpers or b"resource_tracker" not in (folder / "cmdline").read_bytes()):
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    return found


def semaphores(mark):
    """How this process, and those that it starts, begin the names of semaphores of multiprocessing from now on."""
    return multiprocessing.current_process()._config, "semprefix", f"/mp-{mark}"


def names_by_prefix():
    """That multiprocessing names semaphores by that prefix: joblib's loky, once imported, gives them names of its own."""
    kind = multiprocessing.synchronize.SemLock
    make = staticmethod(lambda: f"{multiprocessing.current_process()._config['semprefix']}-{next(kind._rand)}")
    return kind, "_make_name", make


if MARK in os.environ:  # in a script, for the test that has started it
    _config, _name, _prefix = semaphores(os.environ[MARK])
    _config[_name] = _prefix


class Traces:
    """What a run leaves in the shared-memory folder: names with its ``mark``; others may be of any process of the machine.

    The package's own shared memory has no name. What has one is multiprocessing's: see :func:`semaphores`.
    """

    folder = Path("/dev/shm")

    def __init__(self, mark):
        self.mark = mark

    def left(self):
        """Names that no living process uses: nobody will remove them any more."""
        entries = os.scandir(self.folder) if self.folder.is_dir() else ()
        found = {entry.name: entry.inode() for entry in entries if self.mark in entry.name}
        used = set()
        for maps in Path("/proc").glob("[0-9]*/maps") if found else ():
            try:
                lines = maps.read_text().splitlines()
            except OSError:
                continue
            # By number: who made a semaphore sees it under the name that it had at first.
            used |= {int(line.split()[4]) for line in lines if f"{self.folder}/" in line}
        return {name for name, inode in found.items() if inode not in used and (self.folder / name).exists()}
