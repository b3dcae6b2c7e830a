"""The modules of the packages, who imports whom, and which of them are the core."""

import ast
import functools
from pathlib import Path

import networkx as nx

import consensus
import topologies

BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # where statements have statements

# Rooms that add to the core, which knows none of them: see CONTRIBUTING.md.
ADDITIONS = (
    "aggregative",
    "asynchronous",
    "centralised",
    "centralized",
    "cli",
    "compression",
    "costs",
    "coupled",
    "cvxpy_solver",
    "datasets",
    "deep",
    "device",
    "estimators",
    "federated",
    "frameworks",
    "methods",
    "model_parallel",
    "owners",
    "online",
    "overview",
    "peers",
    "personal",
    "plotting",
    "privacy",
    "robust",
    "servers",
    "streaming",
    "studies",
    "tables",
    "testing",
    "trees",
    "unlike",
    "variance_reduced",
    "worst_cases",
)
# Where a function of the core imports an addition, for what is asked of it by name.
DOORS = {
    ("consensus.communication.block", "consensus.trees.tree"),  # network.tree
    ("consensus.data.tables", "consensus.tables.dataset"),  # data frames, text, whole data sets
    ("consensus.data.tables", "consensus.tables.frames"),
    ("consensus.engines.mpi", "consensus.asynchronous"),  # MPI(asynchronous=True)
    ("consensus.problems.base", "consensus.unlike.regularizers"),  # regularizer=[...]
    ("consensus.problems.problem", "consensus.unlike.problem"),  # Problem.from_agents
    ("consensus.result", "consensus.owners.predictor"),  # result.predictor, consensus.load
    ("consensus.result", "consensus.owners.predictor_file"),
}
MODULES = {}
for package in (consensus, topologies):
    root = Path(package.__file__).parent
    for path in root.rglob("*.py"):
        name = ".".join((package.__name__, *path.relative_to(root).with_suffix("").parts))
        MODULES[name.removesuffix(".__init__")] = path


def imports(tree, late):
    """What is imported when a module is, what type checkers read, and with ``late`` what is imported when functions are called.

    That is ``a.b`` of ``import a.b``, ``a.b.c`` of ``from a.b import c``.
    """
    for block in BLOCKS:
        for node in getattr(tree, block, ()):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, "imports are absolute"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif late or not isinstance(node, ast.FunctionDef):
                yield from imports(node, late)


def definitions(node):
    """The module, classes and functions of a tree, at any depth of statements; expressions, most of a tree, are not visited."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for block in BLOCKS:
        for inner in getattr(node, block, ()):
            yield from definitions(inner)


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def arrows(late=True):
    graph = nx.DiGraph()
    graph.add_nodes_from(MODULES)
    for module, path in MODULES.items():
        if module in ("consensus", "topologies"):  # they list what is imported lazily
            continue
        for name in imports(parsed(path), late):
            target = name if name in MODULES else name.rpartition(".")[0]
            graph.add_edge(module, target if target in MODULES else name)
    return graph


def within(names, *rooms):
    return [name for name in names if any(name == room or name.startswith(f"{room}.") for room in rooms)]


def is_addition(module):
    return any(module == f"consensus.{room}" or module.startswith(f"consensus.{room}.") for room in ADDITIONS)


def is_package(module):
    return MODULES[module].name == "__init__.py"


CORE = [name for name in MODULES if name.startswith("consensus") and not is_addition(name)]
