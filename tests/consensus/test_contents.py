"""Digests of what things are: equal for equal things, in every process; different wherever a run would be."""

import enum
import functools
import hashlib
import itertools
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType

import cloudpickle
import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import consensus
import topologies
from consensus._arrays.digest import digest
from tests.helpers import engine_cases
from tests.helpers.problems import data

STEP = 0.1


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Slotted:
    x: object


class Plain:
    factor = 2

    def __init__(self, **attributes):
        self.__dict__ |= attributes

    @functools.cached_property
    def cached(self):
        return object()

    def double(self, x):
        return self.factor * x


@dataclass
class Marked:
    x: int
    seen: list = field(default_factory=list, compare=False)


def made(text, **known):
    """What ``thing`` is after a script of the user's."""
    names = {"__name__": "__main__", "np": np, "dataclass": dataclass, **known}
    exec(compile(text, "script.py", "exec"), names)
    return names["thing"]


def looped():
    inner = [1]
    inner.append(inner)
    return inner


ARRAY = np.arange(6.0).reshape(2, 3)
DIFFERENT = {  # things of which no two are the same
    "numbers": [0, 0.0, -0.0, False, np.float64(0), np.float32(0), 0j, None, "", b"", "0", float("nan")],
    "sequences": [[1, 2], (1, 2), [1, [2]], [[1], 2], [[1, 2]], {1, 2}, frozenset({1, 2}), {1: 2}, ["ab", "c"], ["a", "bc"]],
    "arrays": [
        ARRAY,
        ARRAY.T,
        ARRAY.ravel(),
        ARRAY.astype("f4"),
        ARRAY.astype(">f8"),
        ARRAY.astype(object),
        -ARRAY[::-1],
        ARRAY + 0j,
    ],
    "sparse": [sparse.csr_array(ARRAY), sparse.csc_array(ARRAY), sparse.csr_array(2 * ARRAY), sparse.csr_array(ARRAY.T)],
    "graphs": [nx.path_graph(3), nx.cycle_graph(3), nx.DiGraph(nx.path_graph(3)), nx.path_graph(3, create_using=nx.MultiGraph)],
    "objects": [Plain(), Plain(x=1), Plain(y=1), Plain(x=Plain()), Slotted(1), Slotted(2), Marked(1), Marked(2), *Colour],
    "generators": [np.random.default_rng(0), np.random.default_rng(1), np.random.Generator(np.random.MT19937(0))],
    "functions of libraries": [np.add, np.exp, len, abs, "".join, " ".join, topologies.metropolis, np.linalg.norm],
    "made functions": [
        *(functools.partial(np.add, 1), functools.partial(np.add, 2), functools.partial(np.add), Plain().double),
        *(Plain(factor=3).double, topologies.lazy(topologies.metropolis), topologies.lazy(topologies.sinkhorn)),
    ],
    "lambdas": [
        *(lambda x: x, lambda y: y, lambda x: x + 1, lambda x: x + 2, lambda x, y=1: x, lambda x, y=2: x, lambda x: STEP * x),
    ],
    "loops": [looped(), [looped()], [1, looped()]],
    "schedules": [engine_cases.NETWORKS[name] for name in engine_cases.NETWORKS],
}
SCRIPTS = {  # what tells a script from another
    "a global": ["a = 1\ndef thing(x): return a * x", "a = 2\ndef thing(x): return a * x"],
    "a global of a helper": [f"def help(x): return {k}\ndef thing(x): return help(x)" for k in (1, 2)],
    "an inner function": [f"def thing(x):\n def inner(): return {k}\n return inner()" for k in (1, 2)],
    "an enclosing variable": [f"def outer(a):\n def f(x): return a\n return f\nthing = outer({k})" for k in (1, 2)],
    "a constant inside a class": [f"class C:\n def f(self): return {k}\nthing = C()" for k in (1, 2)],
    "a class attribute": [f"class C:\n a = {k}\nthing = C()" for k in (1, 2)],
    "a base class": [f"class B:\n def f(self): return {k}\nclass C(B): pass\nthing = C()" for k in (1, 2)],
    "a property": [f"class C:\n @property\n def f(self): return {k}\nthing = C()" for k in (1, 2)],
    "a static method": [f"class C:\n @staticmethod\n def f(): return {k}\nthing = C()" for k in (1, 2)],
    "a dataclass": [f"@dataclass\nclass C:\n a: int = 1\n def f(self): return {k}\nthing = C()" for k in (1, 2)],
    "a cached function": [f"import functools\n@functools.cache\ndef thing(x): return {k}" for k in (1, 2)],
    "what is raised": [f"def thing(x):\n try: return 1\n except {k}Error: return 2" for k in ("Value", "Type")],
}
SAME = {  # a script, and the same one as far as runs are concerned
    "words and lines": ["def thing(x): return 1", 'def thing(x):\n\n  "What it does."\n  # why\n  return 1'],
    "a class's words": [f"class C:\n {a}\n def f(self):\n  {a}\n  return 1\nthing = C()" for a in ("#", "'Words.'")],
    "order of attributes": [f"class C: pass\nthing = C(); thing.{a} = '{a}'; thing.{b} = '{b}'" for a, b in ("xy", "yx")],
    "an unused global": ["a = 1\ndef thing(x): return x", "a = 2\ndef thing(x): return x"],
    "an attribute like a global": ["a = 1\ndef thing(x): return x.a", "a = 2\ndef thing(x): return x.a"],
    "a count of calls": ["n = 1\ndef thing(x):\n global n; n += 1", "n = 7\ndef thing(x):\n global n; n += 1"],
    "a lock that code names": 2 * ["import threading\nlock = threading.Lock()\ndef thing(x):\n with lock: return x"],
    "classes that name one another": 2
    * ["class A:\n def f(s): return B\nclass B:\n a = A\n def f(s): return A, B\nthing = A()"],
    "an equal copy": ["a = [1]\nthing = [a, a]", "thing = [[1], [1]]"],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_things_have_different_digests(name):
    found = [digest(thing) for thing in DIFFERENT[name]]
    assert len(set(found)) == len(found)


def test_how_things_are_put_together_counts():
    parts = "a", "b", ["a", "b"], ("a",), np.zeros(2), np.zeros(1)
    found = [digest(*some) for count in (1, 2, 3) for some in itertools.permutations(parts, count)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", SCRIPTS)
def test_another_script_has_another_digest(name):
    first, second = (digest(made(text)) for text in SCRIPTS[name])
    assert first != second
    assert digest(made(SCRIPTS[name][0])) == first


@pytest.mark.parametrize("name", SAME)
def test_the_same_script_has_the_same_digest(name):
    first, second = (digest(made(text)) for text in SAME[name])
    assert first == second


def test_caches_and_fields_that_are_not_compared_do_not_count():
    thing = Plain(x=1)
    before = digest(thing)
    assert thing.cached is thing.cached
    assert digest(thing) == before
    assert digest(Marked(1, [2])) == digest(Marked(1))
    matrix, graph = sparse.csr_array(ARRAY), nx.path_graph(4)
    before = digest(matrix, graph)
    assert matrix.has_sorted_indices
    assert all((graph.adj[0], graph.edges, graph.degree))
    assert digest(matrix, graph) == before


def test_a_run_changes_no_digest_of_its_problem():
    """A metric that names the problem is the same one when the run goes on."""
    problem = engine_cases.problem()
    before = digest(problem)
    consensus.solve(problem, topologies.ring(problem.agents), rounds=3)
    assert problem.work.gradients
    assert digest(problem) == before


@pytest.mark.parametrize("lost", [(x for x in "ab"), open(__file__)])  # noqa: SIM115
def test_what_cannot_be_compared_is_named(lost):
    with pytest.raises(TypeError, match=r"^Plain\.parts\[1\]\['a'\] cannot be compared .* leave it out of what __getstate__"):
        digest(Plain(parts=[0, {"a": lost}]))


SETTINGS = """
cases = engine_cases.special().values()
parts = (part for case in cases for part in (case.solver, case.network, getattr(case.problem, "model", None)))
found = [digest(*parts), digest({"a", "b", "cd"}, type("Plain", (), {"f": lambda self: 1})())]
"""


@pytest.mark.slow
def test_digests_are_the_same_in_every_process():
    root = str(Path(consensus.__file__).parents[1])
    imports = f"import sys; sys.path.insert(0, {root!r})\nfrom tests.helpers import engine_cases\n"
    imports += "from consensus._arrays.digest import digest\n"
    text = f"{imports}{SETTINGS}\nprint(found)"
    done = subprocess.run([sys.executable, "-c", text], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True)
    here = {"__name__": "__main__", "engine_cases": engine_cases, "digest": digest}
    exec(SETTINGS, here)
    assert done.stdout == f"{here['found']}\n", done.stderr


@pytest.mark.parametrize("name", engine_cases.special())
def test_settings_of_the_package_are_those_of_their_copies(name):
    case = engine_cases.special()[name]
    parts = case.solver, case.network, *(getattr(case.problem, part, None) for part in ("model", "loss", "regularizer"))
    for part in parts:
        assert digest(part) == digest(cloudpickle.loads(cloudpickle.dumps(part)))


def test_modules_of_torch_count_with_their_values_and_code():
    torch = pytest.importorskip("torch")

    def model(value=0.0, dtype=torch.float32, slope=0.01):
        module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LeakyReLU(slope))
        with torch.no_grad():
            module[0].weight.fill_(1.0)
            module[0].bias.fill_(value)
        return consensus.models.Torch(module.to(dtype))

    mine = model()
    before = digest(mine)
    mine.predict(np.zeros((2, 8)), np.ones((2, 4, 3)))
    found = [before, *(digest(other) for other in (model(1e-6), model(dtype=torch.bfloat16), model(slope=0.02)))]
    assert len(set(found)) == 4
    assert digest(mine) == digest(model()) == digest(cloudpickle.loads(cloudpickle.dumps(mine))) == before


@pytest.mark.slow
def test_functions_of_jax_count_with_their_code():
    jax = pytest.importorskip("jax")
    functions = [lambda p, x: x @ p["w"], lambda p, x: 2 * (x @ p["w"])]
    functions += [jax.jit(function) for function in functions]
    models = [consensus.models.JAX(function, {"w": np.ones((3, 1), np.float32)}) for function in functions]
    before = [digest(model) for model in models]
    for model in models:
        model.predict(np.zeros((2, 3)), np.ones((2, 4, 3)))
    assert before == [digest(model) for model in models]
    assert len({*before}) == 4


PARTS = (
    consensus.solvers.DGD,
    consensus.step_sizes.Diminishing,
    consensus.MLP,
    consensus.SquaredLoss,
    consensus.L2,
    topologies.Static,
)


def test_a_run_is_the_same_when_files_move(tmp_path, monkeypatch):
    X, y = data()
    problem = consensus.Problem(
        consensus.MLP([4, 3, 1]), consensus.SquaredLoss(), consensus.partition(X, y, agents=5), consensus.L2(0.1)
    )
    solver, network = consensus.solvers.DGD(consensus.step_sizes.Diminishing(0.1, 0.01)), topologies.Static(topologies.ring(5))
    before = digest(solver, network, problem.model, problem.loss, problem.regularizer)
    consensus.solve(problem, network, solver, rounds=3, checkpoint=tmp_path / "run")
    whole = consensus.solve(problem, network, solver, rounds=6)
    for kind in map(type, (solver, solver.step_size, network, problem.model, problem.loss, problem.regularizer)):
        monkeypatch.setattr(kind, "__module__", f"{kind.__module__.partition('.')[0]}.rooms.of_another_name")
    assert digest(solver, network, problem.model, problem.loss, problem.regularizer) == before
    resumed = consensus.solve(problem, network, solver, rounds=6, resume=tmp_path / "run")
    np.testing.assert_array_equal(resumed.w, whole.w)


def test_functions_of_the_package_may_move_and_those_of_others_count_by_their_place():
    def moved(function, module):
        return FunctionType(function.__code__, function.__globals__ | {"__name__": module}, function.__name__)

    assert digest(moved(topologies.metropolis, "topologies.rules")) == digest(topologies.metropolis)
    assert digest(moved(np.linalg.norm.__wrapped__, "numpy.other")) != digest(np.linalg.norm.__wrapped__)
    assert digest(type("DGD", (), {"__module__": "__main__"})) != digest(
        type("DGD", (), {"__module__": "consensus.solvers.dgd"})
    )


def test_public_classes_of_one_package_have_different_names():
    """Checkpoints know them by these; no checkpoint names the two called Torch, nor the Grids of ranks and of settings."""
    listed = Path(__file__).parents[1].joinpath("public_names.txt").read_text().splitlines()
    names = [line.partition("(")[0].split(".") for line in listed]
    classes = [(parts[0], parts[-1]) for parts in names if parts[-1][0].isupper() and not parts[-2][0].isupper()]
    assert {name for name in classes if classes.count(name) > 1} == {("consensus", "Grid"), ("consensus", "Torch")}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (5, 3), (3000, 100)])
def test_arrays_count_by_their_numbers_wherever_these_are_in_memory(shape):
    array = np.asarray(np.random.default_rng(0).standard_normal(shape))
    row = array[0].copy() if array.size and array.ndim else array
    expected = hashlib.sha256(f"array {len(f'<f8 {shape}')}:<f8 {shape}bytes {array.nbytes}:".encode() + array.tobytes())
    assert digest(array) == digest(np.asarray(array, order="F")) == expected.hexdigest()[:16]  # as checkpoints have it
    assert digest(np.broadcast_to(row, (4, *row.shape))) == digest(np.stack([row] * 4))


@pytest.mark.parametrize("name", engine_cases.NETWORKS)
def test_a_network_that_was_used_is_the_same(name):
    network = engine_cases.NETWORKS[name]
    used = cloudpickle.loads(cloudpickle.dumps(network))
    for round in range(20):
        used.weights(used.key(round))
        used.graph(round)
    used.union()
    topologies.conditions(used)
    assert (str(used), digest(used)) == (str(network), digest(network))
