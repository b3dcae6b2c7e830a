"""Who imports whom: no circle, and one way only between the packages and their rooms."""

import ast
import compileall
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import networkx as nx
import pytest

import consensus
import topologies
from tests.helpers.modules import CORE, DOORS, MODULES, arrows, imports, is_addition, is_package, within

PIECES = ("models", "losses", "regularizers", "data")
pytestmark = pytest.mark.xdist_group("imports")  # they read the same files


def circles(graph):
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


def room_of(module):
    """``consensus.engines`` of ``consensus.engines.mpi``; the files beside the rooms, by their own names; ``topologies``."""
    return ".".join(module.split(".")[:2]) if module.startswith("consensus.") else module.partition(".")[0]


def to_addition(a, b):
    """Whether an arrow is a documented name of the core whose home is an addition, or a door to one: see ``test_core``."""
    return a in CORE and is_addition(b) and (is_package(a) or (a, b) in DOORS)


def test_imports_make_no_circle():
    at_once = nx.restricted_view(arrows(late=False), [], [arrow for arrow in arrows(late=False).edges if to_addition(*arrow)])
    assert at_once.has_edge("consensus.solve", "consensus._checks")
    assert at_once.has_edge("consensus.history", "consensus._checks")
    assert circles(at_once) == []
    below = arrows().subgraph(within(arrows(), "topologies"))
    assert below.has_edge("topologies.schedules.static", "topologies.weights.metropolis")
    assert circles(below) == []


def test_rooms_make_no_circle():
    rooms = nx.DiGraph(
        (room_of(a), room_of(b)) for a, b in arrows().edges if {a, b} <= MODULES.keys() and not to_addition(a, b)
    )
    rooms.remove_edges_from(list(nx.selfloop_edges(rooms)))
    assert rooms.has_edge("consensus.solvers", "consensus.communication")
    assert circles(rooms.subgraph(set(rooms) - {"consensus", "topologies"})) == []


@pytest.mark.parametrize(
    ("room", "allowed"), [("consensus.communication", {"topologies"}), ("consensus.workers", {"consensus.errors"})]
)
def test_rooms_at_the_bottom_know_nothing_above(room, allowed):
    found = ((module, name) for module in within(MODULES, room) for name in arrows().successors(module))
    known = {room_of(name) for module, name in found if name in MODULES and not to_addition(module, name)}
    above = {name for name in known - allowed - {room, "consensus"} if not name.startswith("consensus._")}
    assert above == set()


@pytest.mark.parametrize(("room", "others"), [
    ("topologies", ["consensus", "experiments", "tests"]),
    ("consensus", ["experiments", "tests"]),
    *((f"consensus.{piece}", [f"consensus.{other}" for other in PIECES if other != piece]) for piece in PIECES),
    *((f"consensus.{piece}", ["consensus.problems", "consensus.solvers", "consensus.engines"]) for piece in PIECES),
    ("consensus.problems", ["consensus.solvers", "consensus.engines", "consensus.surrogates", "consensus.local"]),
    ("consensus.compression", ["consensus.engines"]),
    ("consensus.surrogates", ["consensus.solvers", "consensus.engines"]),
    ("consensus.local", ["consensus.solvers", "consensus.engines"]),
    ("consensus.solvers", ["consensus.engines"]),
    ("consensus.engines", ["consensus.solvers", "consensus.problems", "consensus.models"]),
])  # fmt: skip
def test_imports_run_one_way(room, others):
    members = within(MODULES, room)
    assert members
    assert [(module, name) for module in members for name in within(arrows().successors(module), *others)] == []


@pytest.mark.parametrize("folder", ["tests", "experiments"])
def test_what_is_imported_of_the_packages_is_there(folder):
    """A file of tests that cannot be imported is passed over in silence, by --doctest-ignore-import-errors."""
    missing = []
    for path in (Path(__file__).parents[1] / folder).rglob("*.py"):
        for name in imports(ast.parse(path.read_text()), late=True):
            package = name.rpartition(".")[0]
            if package.partition(".")[0] in ("consensus", "topologies") and name not in MODULES:
                there = package in MODULES and hasattr(importlib.import_module(package), name.rpartition(".")[2])
                missing += [] if there else [(path.name, name)]
    assert missing == []


AT_FIRST = """
import sys, consensus, topologies
print(*sorted(name for name in sys.modules if name.startswith(("consensus", "topologies", "numpy", "scipy", "networkx"))))
from consensus.solve import solve  # of a module whose name the function has
assert consensus.solve is solve and consensus.history.History is consensus.History
assert "Problem" in dir(consensus)
import cloudpickle
assert cloudpickle.loads(cloudpickle.dumps(consensus)) is consensus
print(consensus.__file__)
"""


@pytest.mark.parametrize("form", ["source", *(pytest.param(form, marks=pytest.mark.slow) for form in ("compiled", "zip"))])
def test_packages_import_their_parts_when_they_are_used(form, tmp_path):
    source = Path(consensus.__file__).parents[1]
    target = tmp_path / "packages"
    if form != "source":
        for package in ("consensus", "topologies"):
            shutil.copytree(source / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(target, quiet=1, legacy=True)
        for path in target.rglob("*.py"):
            path.unlink()
    folder = {"source": source, "compiled": target, "zip": tmp_path / "packages.zip"}[form]
    if form == "zip":
        shutil.make_archive(str(target), "zip", target)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", AT_FIRST]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    *imported, file = done.stdout.split()
    assert imported == ["consensus", "consensus._elsewhere", "topologies", "topologies._strangers"]
    assert file.startswith(str(folder))


def test_a_run_imports_what_it_uses():
    """Other packages are imported where a function needs them: pandas alone takes most of a second."""
    late = ("pandas", "joblib", "sklearn", "matplotlib", "cvxpy", "torch", "jax", "mpi4py", "tqdm.auto")
    rooms = (
        "import sys, consensus, consensus.cli, topologies; parts = [(m, n) for m in (consensus, topologies) for n in m.__all__]"
    )
    used = "[dir(getattr(m, n)) for m, n in parts if n != 'estimators']"  # whose classes are scikit-learn's
    said = f"{rooms}; {used}; print([name for name in {late} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(consensus.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


def test_what_is_imported_is_declared():
    """Also what comes along with another package today."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in asked}
    own = {*sys.stdlib_module_names, "consensus", "topologies"}
    taken = {name.partition(".")[0] for module in MODULES if module in arrows() for name in arrows().successors(module)} - own
    assert {"numpy", "joblib", "sklearn"} <= taken
    homes = metadata.packages_distributions()
    there = {name: {home.lower().replace("_", "-") for home in homes[name]} for name in taken if name in homes}
    assert {name: homes for name, homes in there.items() if not homes & declared} == {}


@pytest.mark.parametrize("package", [consensus, topologies])
def test_packages_have_what_they_list_and_nothing_else(package):
    stub = Path(package.__file__).with_suffix(".pyi")  # what type checkers read: topologies has it in the file itself
    tree = ast.parse((stub if stub.exists() else Path(package.__file__)).read_text())
    body = tree.body if stub.exists() else next(node for node in tree.body if isinstance(node, ast.If)).body
    homes = {alias.asname: node.module for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    typed = {name: getattr(importlib.import_module(home), name) for name, home in homes.items()}
    assert typed == {name: getattr(package, name) for name in package.__all__}
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match=f"{package.__name__} attribute nonsense"):
        getattr(package, "nonsense")  # noqa: B009
