"""On ranks the names of owners decide which of them is which agent of the network."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import consensus
from consensus.data import own
from consensus.solvers import Personalized
from tests.helpers import engine_harness

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
