"""Check of the laws of schedules that solvers and engines rely on."""

from __future__ import annotations

from typing import Any, Literal, get_args

import networkx as nx
import numpy as np
from scipy import sparse

from consensus import _checks
from consensus.engines import StackedNetwork
from consensus.solvers.needs import Matrices
from consensus.testing.laws import Laws, Report
from consensus.testing.threads import ThreadNetwork, on_threads
from topologies.schedules import ScheduleLike, is_static

_ROUNDING = 1e-14


def check_schedule(schedule: ScheduleLike, rounds: int = 12, *, mixing: Matrices | Literal["any"] = "any") -> Report:
    """Check a schedule: its matrices are stochastic, the same whenever and wherever they are asked for, and lie on its graphs.

    Parameters
    ----------
    schedule : schedule
        Anything with ``agents``, ``key(round)`` and ``weights(key)``.
    rounds : int
        How many rounds are looked at.
    mixing : {"any", "doubly stochastic", "column stochastic", "row stochastic", "symmetric"}
        What every matrix must be; "any": rows or columns sum to one, the same ones in all rounds.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the schedule, the law and the numbers.

    Examples
    --------
    >>> import topologies
    >>> from consensus.testing import check_schedule
    >>> report = check_schedule(topologies.Matchings(6, seed=0), mixing="symmetric")
    >>> report.errors["edges of graph are the entries of weights"]
    0.0
    """
    _checks.schedule(schedule)
    rounds = _checks.count("rounds", rounds)
    _checks.choice("mixing", mixing, ("any", *get_args(Matrices)))
    laws = Laws(schedule)
    laws.true(
        "agents is a whole number >= 1", isinstance(schedule.agents, int) and schedule.agents >= 1, f"{schedule.agents!r}"
    )
    keys = [schedule.key(n) for n in range(rounds)]
    laws.true("keys can be hashed", all(hasattr(type(key), "__hash__") and type(key).__hash__ for key in keys), f"{keys}")
    matrices = [_matrix(laws, schedule, key) for key in keys]
    _same(laws, "a round has the same matrix when it is asked again", schedule, keys, matrices)
    _same(laws, "a copy by cloudpickle has the same matrices", laws.copied(schedule, equal=False), keys, matrices)
    first = dict(zip(reversed(keys), reversed(matrices), strict=True))
    for key, matrix in zip(keys, matrices, strict=True):
        laws.same("equal keys mean equal matrices", matrix.toarray(), first[key].toarray())
    if is_static(schedule):
        for matrix in matrices:
            laws.same("a static schedule has one matrix", matrix.toarray(), matrices[0].toarray())
    _sums(laws, matrices, mixing)
    if hasattr(schedule, "graph"):
        for n, matrix in enumerate(matrices):
            _graph(laws, schedule, n, matrix)
    _blocks(laws, schedule, rounds)
    return laws.report


def _matrix(laws: Laws, schedule: ScheduleLike, key: Any) -> sparse.csr_array:  # keys are any
    """Return one matrix, checked to have the form that engines need."""
    A, matrix = schedule.agents, schedule.weights(key)
    laws.true(
        "weights(key) is a scipy.sparse.csr_array", isinstance(matrix, sparse.csr_array), f"found {type(matrix).__name__}"
    )
    laws.true("weights have shape (agents, agents)", matrix.shape == (A, A), f"found {matrix.shape}, agents = {A}")
    laws.true("weights are real numbers", matrix.dtype.kind == "f", f"found dtype {matrix.dtype}")
    laws.true("weights are finite", np.isfinite(matrix.data).all(), f"found {matrix.data[~np.isfinite(matrix.data)][:3]}")
    rows, columns = matrix.tocoo().coords
    zeros = (matrix.data == 0) & (rows != columns)
    laws.true("no zeros are stored off the diagonal", not zeros.any(), f"found {zeros.sum()}: each would be a message")
    places = len(np.unique(rows * A + columns))
    laws.true("every entry is stored once", places == matrix.nnz, f"found {matrix.nnz} entries in {places} places")
    return matrix


def _same(laws: Laws, law: str, schedule: ScheduleLike, keys: list[Any], matrices: list[sparse.csr_array]) -> None:
    """Compare keys and matrices with those asked for in another order of rounds."""
    for n in reversed(range(len(keys))):
        key = schedule.key(n)
        laws.true(law, key == keys[n], f"key({n}) is {key!r} and was {keys[n]!r}")
        laws.same(law, schedule.weights(key).toarray(), matrices[n].toarray())


def _sums(laws: Laws, matrices: list[sparse.csr_array], mixing: str) -> None:
    """Check sums of rows and columns, and symmetry."""
    errors = [max(float(np.abs(m.sum(axis=axis) - 1).max()) for m in matrices) for axis in (1, 0)]
    if mixing == "any":
        law = "rows, or columns, sum to one in all rounds"
        laws.true(law, min(errors) <= _ROUNDING, f"rows are off by {errors[0]:.2g}, columns by {errors[1]:.2g}")
    for name, error, other in (("rows", errors[0], "column stochastic"), ("columns", errors[1], "row stochastic")):
        if mixing not in ("any", other):
            laws.at_most(f"{name} sum to one, up to rounding", error, _ROUNDING, 0.0)
    if mixing == "symmetric":
        for matrix in matrices:
            laws.same("matrices are symmetric", matrix.toarray(), matrix.toarray().T)


def _graph(laws: Laws, schedule: Any, n: int, matrix: sparse.csr_array) -> None:  # its graph is optional
    """Compare the graph of a round with its matrix: an entry (i, j) is an edge from j to i."""
    graph = schedule.graph(n)
    laws.true("graph(round) is a networkx graph", isinstance(graph, nx.Graph), f"found {type(graph).__name__}")
    laws.true("nodes are 0, ..., agents - 1", list(graph) == list(range(schedule.agents)), f"found {list(graph)[:10]}")
    edges = nx.to_numpy_array(graph, nodelist=range(schedule.agents), weight=None).T > 0
    used = matrix.toarray() != 0
    np.fill_diagonal(used, False)
    differ = np.argwhere(edges != used)
    where = f"round {n}: {differ[:3].tolist()} (receiver, sender) are in one and not in the other"
    laws.true("edges of graph are the entries of weights", not len(differ), where)
    graph.remove_nodes_from(list(graph))
    laws.true("graph(round) is a new one in every call", len(schedule.graph(n)) == schedule.agents, "it changed with the last")


def _blocks(laws: Laws, schedule: ScheduleLike, rounds: int) -> None:
    """Check that mixing multiplies by the matrix, and that blocks of agents get the same bits."""
    rows = np.random.default_rng(0).standard_normal((schedule.agents, 3))
    whole = StackedNetwork(schedule, rows.dtype)
    mixed = [whole.mix(n, rows)[0] for n in range(rounds)]
    for n, found in enumerate(mixed):
        laws.close("mixing multiplies by the matrix", found, schedule.weights(schedule.key(n)).toarray() @ rows, 1e-14)

    def one(network: ThreadNetwork, own: slice) -> list[np.ndarray]:
        return [network.mix(n, rows[own])[0] for n in range(rounds)]

    parts = on_threads(min(3, schedule.agents), schedule, rows.dtype, one)
    laws.same("blocks of agents mix to the same bits", np.concatenate(parts, axis=1), mixed)
