"""Odd values, as Python expressions: what is written in a finding is what reproduces it."""

import ast
import builtins
import functools
from pathlib import Path

from hypothesis import strategies as st

ATOMS = (  # the simplest first: hypothesis prefers these
    "None", "True", "0", "-1", "3", "10**30", "1.5", "-0.0", "float('nan')", "float('inf')", "2j", "''", "'text'", "b'bytes'",
    "pathlib.Path('absent')", "fractions.Fraction(1, 3)", "decimal.Decimal('0.5')", "np.float32(0.1)", "np.int64(-2)",
    "np.bool_(True)",
)  # fmt: skip
OBJECTS = (
    "object()", "int", "lambda: 1", "lambda *a, **k: None", "np", "Ellipsis", "ValueError('x')", "set()", "range(3)",
    "slice(None)", "iter([1, 2])",
)  # fmt: skip
ARRAYS = (
    "np.broadcast_to(1.0, (4, 4))", "np.arange(2.0**16)[:: 2**14]", "np.ma.masked_array([1.0, 2.0], [True, False])",
    "np.ones((4, 4), np.float32)[:, ::-2]", "np.zeros(3, [('a', int)])", "np.array([np.inf, -np.inf])",
)  # fmt: skip
STRUCTURES = (
    "sp.csr_array((4, 4))", "sp.eye_array(4).tocoo()", "nx.Graph()", "nx.DiGraph([(0, 1)])",
    "nx.MultiGraph([(0, 1), (0, 1)])", "nx.Graph([('a', 'b')])", "nx.Graph([(0, 0), (0, 1)])", "nx.Graph([(0, 7)])",
    "nx.empty_graph(4)", "pd.DataFrame({'a': [1.0, None], 'b': ['x', 'y']})", "pd.Series([1, 2])",
)  # fmt: skip
OURS = (
    "good.schedule()", "good.solver()", "good.problem()", "good.shards()", "good.history()", "good.graph()", "good.model()",
    "consensus.L1(0.1)", "consensus.L1", "consensus.SquaredLoss()", "consensus.solvers.DGD", "consensus.engines.Stacked()",
    "consensus.History()", "consensus.surrogates.FullLinearization(1.0)", "consensus.step_sizes.Constant(0.1)",
    "topologies.metropolis",
)  # fmt: skip
DTYPES = ("float", "np.float32", "int", "bool", "complex", "object", "'U2'", "'datetime64[D]'")
FILLS = ("0", "1", "-1", "0.5", "np.nan")

_atoms = st.sampled_from(ATOMS)
_shape = st.lists(st.sampled_from((0, 1, 3, 4, 6)), max_size=3).map(tuple)
_arrays = st.builds(
    "np.full({}, {}).astype({})".format, _shape, st.sampled_from(FILLS), st.sampled_from(DTYPES)
) | st.sampled_from(ARRAYS)


def _listed(items):
    text = st.lists(items, max_size=3).map(", ".join)
    pairs = st.dictionaries(st.sampled_from(("'a'", "0", "None")), items, max_size=2)
    return (
        text.map("[{}]".format)
        | text.map(lambda inside: f"({inside},)" if inside else "()")
        | pairs.map(lambda found: "{" + ", ".join(f"{key}: {value}" for key, value in found.items()) + "}")
    )


#: Numbers, text and other atoms, containers of them, arrays, and objects of libraries and of the package.
VALUES = _atoms | st.recursive(_atoms, _listed, max_leaves=4) | _arrays | st.sampled_from(OBJECTS + STRUCTURES + OURS)


@functools.cache
def tabled():
    """``{parameter: values}`` that calls in the tests' tables of refusals have, as far as they need no name of their test."""
    known, found = {*dir(builtins), "consensus", "math", "np", "nx", "pd", "topologies"}, {}
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        for table in ast.walk(ast.parse(path.read_text())):
            if isinstance(table, ast.Call) and isinstance(table.func, ast.Name) and table.func.id == "refusals":
                for word in (node for node in ast.walk(table) if isinstance(node, ast.keyword)):
                    if word.arg and {node.id for node in ast.walk(word.value) if isinstance(node, ast.Name)} <= known:
                        found.setdefault(word.arg, {})[ast.unparse(word.value)] = None
    return {name: tuple(values) for name, values in found.items()}


def values(parameter):
    """A strategy: odd values, and those that the tables have for a parameter of this name."""
    listed = tabled().get(parameter)
    return VALUES | st.sampled_from(listed) if listed else VALUES


#: By parameter: values that are no mistake, but too much to wait for, or points at infinity, of which NumPy warns.
PATIENCE = {("rounds", "10**30"), ("exchanges", "10**30"), ("v", "np.array([np.inf, -np.inf])")}
#: What else a refusal may say of a value that is called, and of a parameter.
WORDS = {
    "lambda: 1": {"lambda"},
    "lambda *a, **k: None": {"lambda"},
    "int": {"int"},
    "topologies.metropolis": {"graph"},
    "consensus.L1": {"L1"},
    "consensus.solvers.DGD": {"step_size"},
    "consensus.step_sizes.Constant(0.1)": {"round"},
    "graph": {"adjacency"},
    "point": {"step_size"},
    "graphs": {"adjacency", "graph"},
    "network": {"graph"},
    "matrices": {"graph"},
    "contacts": {"contact"},
    "outages": {"outage"},
    "key": {"round"},
    "consensus.History()": {"History"},
    "nx.Graph()": {"graph"},
}
