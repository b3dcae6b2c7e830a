"""Owners on ranks: names decide who is which agent, and each opens its own file, sparse ones, too: the bits of one process."""

import gzip
import io
import json
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import consensus
import topologies
from consensus._arrays.sparse import SparseRows
from consensus.data import own
from consensus.engines import MPI, Stacked
from consensus.observe import EarlyStopping
from consensus.solvers import DGD, Personalized
from tests.helpers import engine_harness, owners
from tests.helpers.engine_harness import HERE, mpiexec, started


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_four_files_on_four_ranks_are_as_in_one_process(kind, tmp_path):
    paths = owners.write(tmp_path)
    pd.read_csv(paths[1]).drop(columns="age").to_csv(paths[1].with_name("other.csv"), index=False)
    done = started(kind, 4, HERE / "owners.py", tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for run in owners.RUNS:
        alone = owners.agreed(paths, run)
        shapes, revealed = said[run]
        assert shapes == [[1, max(owners.SIZES), 7]] * 4
        assert revealed == alone.revealed.to_dict("list")
        with np.load(tmp_path / f"{run}.npz") as found:
            np.testing.assert_array_equal(found["mean"], alone.pipeline.mean)
            np.testing.assert_array_equal(found["scale"], alone.pipeline.scale)
            np.testing.assert_array_equal(found["w"], owners.solved(alone, run).w)
    alone = owners.agreed(paths, "mlp", test_size=0.3)
    result = owners.solved(alone, "mlp", test=alone.test, callbacks=[EarlyStopping(patience=4)], record_every=2)
    assert said["tested"] == [result.rounds, result.history["agent_test_error"].tolist(), alone.revealed.to_dict("list")]
    lacking = "ValueError: all 4 owners must have the same columns: 'age' is missing at owner 1"
    elsewhere = "ValueError: the table of owner 1 is rejected there: its own process says why"
    absent = f"FileNotFoundError: data must be a file that exists; got '{paths[1].with_name('absent.csv')}'"
    assert said["refused"] == [[lacking, absent if rank == 1 else elsewhere] for rank in range(4)]
    assert (tmp_path / "announced").read_text().count("consensus.data.own sends to all other owners") == 4 * 6


# On ranks the names of owners decide which of them is which agent of the network.


TOWNS = ("Oslo", "Rome", "Wien")
SCRIPT = """
import contextlib, io, json, sys
import networkx as nx, numpy as np, pandas as pd, consensus
from consensus.data import own
from consensus.engines import MPI
from consensus.solvers import Personalized

TOWNS = {towns}
engine = MPI()
mine = {{}}
for name in TOWNS[engine.rows(3)]:
    k = ("Oslo", "Rome", "Wien").index(name)
    mine[name] = pd.DataFrame({{"a": np.arange(4.0) * (k + 1), "y": np.arange(4.0) ** 2 - 3 * k}})
with contextlib.redirect_stdout(io.StringIO()):
    owned = own(mine, "y", engine=engine)
p = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), owned.shards)
graph = nx.Graph([("Wien", "Oslo"), ("Oslo", "Rome")])
settings = dict(rounds=40, engine=engine, agent_objectives=True)
result = consensus.solve(p, graph, Personalized(nx.to_numpy_array(graph), l=0.5), **settings)
part = consensus.solve(p, graph, Personalized(nx.to_numpy_array(graph), l=0.5), gather=False, **settings)
assert part.labels == result.labels[engine.rows(3)] and np.array_equal(part.w, result.w[engine.rows(3)])
try:
    consensus.solve(p, nx.path_graph(["Wien", "Oslo", "Bonn"]), rounds=1, engine=engine)
except ValueError as error:
    refused = str(error)
refused = engine.ranks.allgather(refused)
if engine.root:
    print(json.dumps([result.labels, result.w.tolist(), list(result.history.to_frame()), refused]))
"""


def alone(towns):
    """The same run in one process, on the graph with its nodes in the order of the data."""
    tables = {
        name: pd.DataFrame({"a": np.arange(4.0) * (k + 1), "y": np.arange(4.0) ** 2 - 3 * k}) for k, name in enumerate(TOWNS)
    }
    owned = own([tables[name] for name in towns], "y")
    p = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), owned.shards)
    graph = nx.relabel_nodes(nx.Graph([("Wien", "Oslo"), ("Oslo", "Rome")]), {name: k for k, name in enumerate(towns)})
    similar = nx.to_numpy_array(graph, nodelist=range(3))
    return consensus.solve(p, graph, Personalized(similar, l=0.5), rounds=40, agent_objectives=True).w


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "towns"), [(2, ("Wien", "Rome", "Oslo")), (3, TOWNS), (3, ("Rome", "Wien", "Oslo"))])
def test_each_rank_has_the_agent_of_its_owners_name(ranks, towns, tmp_path):
    script = tmp_path / "names.py"
    script.write_text(SCRIPT.format(towns=towns))
    printed = engine_harness.mpiexec(ranks, script).stdout
    labels, w, columns, refused = json.loads(printed.strip().splitlines()[-1])
    assert tuple(labels) == towns
    np.testing.assert_array_equal(w, alone(towns))
    assert [f"agent_objective_{name}" for name in towns] == [name for name in columns if name.startswith("agent_")]
    assert all("'Rome' in the data alone, 'Bonn' in the network alone" in message for message in refused)
    assert len(refused) == ranks


@pytest.mark.slow
def test_owners_who_give_no_name_where_others_do_are_refused_on_all_ranks(tmp_path):
    script = tmp_path / "names.py"
    script.write_text(
        "import pandas as pd\nfrom consensus.data import own\nfrom consensus.engines import MPI\nengine = MPI()\n"
        "table = pd.DataFrame({'a': [1.0, 2.0], 'y': [1.0, 3.0]})\n"
        "try:\n    own({'Oslo': table} if engine.root else table, 'y', engine=engine)\n"
        "except ValueError as error:\n    print('refused:', error)\n"
        "try:\n    own({'Oslo': table}, 'y', engine=engine)\n"
        "except ValueError as error:\n    print('twice:', error)\n"
    )
    found = engine_harness.mpiexec(2, script).stdout
    assert found.count("refused: data must be mappings of names to tables") == 2
    assert found.count("twice: names of owners must differ from each other") == 2


# Owners' files of svmlight on ranks: the bits of one process, and features that no rank makes dense.


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
