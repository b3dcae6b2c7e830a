"""Who imports whom inside the package: no circle, and nothing of the packages that build on it."""

import ast
from pathlib import Path

import networkx as nx
import pytest

import topologies

ROOT = Path(topologies.__file__).parent
MODULES = {
    ".".join(("topologies", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}


def imports(source):
    """The names of all that a module imports, wherever in it: ``a.b`` of ``import a.b``, ``a.b.c`` of ``from a.b import c``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_of_the_packages_above_is_imported(module):
    roots = {name.partition(".")[0] for name in imports(MODULES[module].read_text())}
    assert not roots & {"consensus", "experiments", "tests"}


def test_imports_make_no_circle():
    arrows = nx.DiGraph()
    for module, path in MODULES.items():
        for name in imports(path.read_text()):
            target = name if name in MODULES else name.rpartition(".")[0]
            if target in MODULES:
                arrows.add_edge(module, target)
    assert arrows.has_edge("topologies.schedules.static", "topologies.weights.metropolis")
    assert arrows.has_edge("topologies.pattern", "topologies._checks")
    assert list(nx.simple_cycles(arrows)) == []
