"""Every solver has the same bits on workers and on ranks as in one process, whether it is recorded, tested, kept or resumed."""

import pytest

from consensus.engines import Processes
from tests.helpers import golden
from tests.helpers.engine_harness import started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stacked():
    return list(golden.lines(golden.runs()))


def test_every_solver_runs_in_every_mode(stacked):
    assert len({line.partition("\t")[0] for line in stacked}) == len(golden.SOLVERS) * len(golden.MODES)
    assert [line for line in stacked if "Error" in line] == []
    by_mode = [line.rpartition(" ")[0].rpartition("\t")[2] for line in stacked]  # digests of w
    assert by_mode[0::4] == by_mode[1::4] == by_mode[2::4] == by_mode[3::4]


def test_workers(stacked, forked):
    found = list(golden.lines(golden.runs(Processes(2), few=True)))  # a new pair of processes for each run
    assert len(found) == len(golden.SOLVERS)
    assert set(found) <= set(stacked)


@pytest.mark.parametrize(("kind", "modes"), [("mpi", "all"), ("torch", "few")])
def test_ranks(kind, modes, stacked):
    done = started(kind, 2, golden.__file__, modes, timeout=500)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert len(found) == len(golden.SOLVERS) * (len(golden.MODES) if modes == "all" else 1)
    assert set(found) <= set(stacked)
