"""Owners' files of svmlight on ranks: the bits of one process, and features that no rank makes dense."""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import consensus
import topologies
from consensus._arrays.sparse import SparseRows
from consensus.engines import MPI, Stacked
from consensus.solvers import DGD
from tests.helpers.engine_harness import mpiexec

COLUMNS = ("objective", "test_error", "agent_test_error")


def run(data, engine, ranks=None):
    owned = consensus.data.own(data, classification=True, test_size=0.25, features=30, engine=ranks)
    assert isinstance(owned.shards.features, SparseRows)
    problem = consensus.Problem(consensus.Linear(30), consensus.LogisticLoss(), owned.shards, consensus.L2(0.1))
    network = topologies.complete(2)
    return consensus.solve(problem, network, DGD(0.1, batch=4), rounds=5, record_every=1, test=owned.test, engine=engine)


@pytest.mark.slow
def test_two_ranks_have_the_bits_of_one_process(tmp_path):
    rng = np.random.default_rng(5)
    for rank, size in enumerate((17, 40)):
        text = io.BytesIO()
        X = sp.random_array((size, 25), density=0.2, random_state=rng, format="csr")
        dump_svmlight_file(X, rng.integers(0, 2, size), text, zero_based=False)
        (tmp_path / f"{rank}.svm.gz").write_bytes(gzip.compress(text.getvalue()))
    done = mpiexec(2, Path(__file__), tmp_path)
    assert done.returncode == 0, done.stderr
    right = run([str(tmp_path / f"{rank}.svm.gz") for rank in (0, 1)], Stacked())
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["w"], right.w)
        for column in COLUMNS:
            np.testing.assert_array_equal(found[column], right.history[column])


if __name__ == "__main__":
    here = MPI()
    (mine,) = range(2)[here.rows(2)]
    result = run(f"{sys.argv[1]}/{mine}.svm.gz", here, ranks=here)
    if here.root:
        np.savez(f"{sys.argv[1]}/found.npz", w=result.w, **{column: result.history[column] for column in COLUMNS})
