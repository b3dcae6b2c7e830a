"""The public names of the packages, where the reference has a page for each.

As a script, whether the reference has them all, and whether the docstring of each class and function has an example.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PACKAGES = ("consensus", "topologies")
REFERENCE = Path(__file__).parents[1] / "reference"
HIDDEN = ("consensus.cli.__main__", "consensus.kernels")  # and what is inside
UNLINKED = ("changelog",)  # names in it may be gone
GRAPHS = ("contents", "networks")  # pages whose tables name functions of topologies without their package
OTHERS = {"scikit-learn"}  # heads of columns with the names of another package
WITHOUT_EXAMPLE = {"consensus.cli.submit"}  # it needs a cluster


def exported() -> dict[str, Any]:
    """Return everything that a module's ``__all__`` names, by its dotted name, modules left out."""
    found = {}
    for package in PACKAGES:
        folder = importlib.import_module(package)
        inside = (module.name for module in pkgutil.walk_packages(folder.__path__, f"{package}."))
        for name in (package, *(name for name in inside if "._" not in name and not name.startswith(HIDDEN))):
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError:  # of a package that an extra brings
                continue
            found |= {f"{name}.{word}": getattr(module, word) for word in getattr(module, "__all__", ())}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def shortest() -> dict[str, str]:
    """Return for each public name, and for the module that defines its object, the name that the reference uses."""
    by_object: dict[int, list[str]] = {}
    values = exported()
    for name, value in values.items():
        by_object.setdefault(id(value), []).append(name)
    found = {}
    for names in by_object.values():
        best = min(names, key=lambda name: (name.count("."), len(name), name))
        value = values[best]
        own = f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else best
        found |= dict.fromkeys([*names, own], best)
    return found


def aliases() -> dict[str, str]:
    """Return what numpydoc links in the types of parameters: our classes by their last word, and those of libraries."""
    words = {
        best.rpartition(".")[2]: best
        for name, best in shortest().items()
        if inspect.isclass(exported_value(best))
    }
    return LIBRARIES | words


def exported_value(name: str) -> Any:
    """Return the object of a dotted name."""
    module, _, word = name.rpartition(".")
    return getattr(importlib.import_module(module), word)


LIBRARIES = {
    "ndarray": "numpy.ndarray",
    "np.ndarray": "numpy.ndarray",
    "np.random.Generator": "numpy.random.Generator",
    "sparse.csr_array": "scipy.sparse.csr_array",
    "csr_array": "scipy.sparse.csr_array",
    "nx.Graph": "networkx.Graph",
    "nx.DiGraph": "networkx.DiGraph",
    "DataFrame": "pandas.DataFrame",
    "pd.DataFrame": "pandas.DataFrame",
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    "Path": "pathlib.Path",
    "Sequence": "collections.abc.Sequence",
    "Mapping": "collections.abc.Mapping",
    "callable": "collections.abc.Callable",
    "Callable": "collections.abc.Callable",
}


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Any:
    """Link what no page describes by the name used: other public names, last words, and what a class inherits."""
    names: dict[str, str] = app.config.public_names
    words = {best.rpartition(".")[2]: best for best in names.values()}
    parts = node.get("reftarget", "").split(".")
    holder = ".".join(word for word in (node.get("py:module"), node.get("py:class")) if word)
    wanted = []
    for cut in range(len(parts), 0, -1):
        first = ".".join(parts[:cut])
        if owner := names.get(first) or (words.get(first) if cut == 1 else None):
            wanted += inherited(owner, parts[cut:], names)
    if node.get("py:class") and holder in names:
        wanted += [*inherited(names[holder], parts, names), names[holder]]
    domain = env.get_domain("py")
    for name in wanted:
        if found := domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content):
            return found
    return None


def inherited(owner: str, rest: list[str], names: dict[str, str]) -> list[str]:
    """Return where a class's attribute may be described: at the class, at those it derives from, on the class's page."""
    if len(rest) != 1 or not inspect.isclass(value := exported_value(owner)):
        return [".".join([owner, *rest])]
    word, classes = rest[0], inspect.getmro(value)
    if not hasattr(value, word) and not any(word in vars(one).get("__annotations__", ()) for one in classes):
        return []
    family = (f"{one.__module__}.{one.__qualname__}" for one in classes)
    return [f"{owner}.{word}", *(f"{names[one]}.{word}" for one in family if one in names), owner]


def link_literals(app: Sphinx, doctree: nodes.document) -> None:
    """Link names in code type, such as ``AdaptiveNEXT()`` or ``consensus.partition``, in pages that are written in Markdown."""
    if not str(doctree.get("source", "")).endswith(".md") or app.env.docname in UNLINKED:
        return
    names = app.config.public_names
    words = {best.rpartition(".")[2]: best for best in names.values()}
    for literal in list(doctree.findall(nodes.literal)):
        found = re.fullmatch(r"((?:\w+\.)*(\w+))(\(.*\))?", literal.astext(), re.DOTALL)
        if not found or isinstance(literal.parent, nodes.reference | nodes.title | pending_xref):
            continue
        full, word = found[1], found[2]
        column = head(literal)
        if column in OTHERS:
            continue
        best = (
            names.get(full)
            or names.get(f"consensus.{full}")
            or (names.get(f"topologies.{full}") if column is not None and app.env.docname in GRAPHS else None)
            or (words.get(word) if full == word and word[0].isupper() else None)
        )
        if best:
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=best, refexplicit=True, refwarn=True
            )
            link["refdoc"] = app.env.docname
            literal.replace_self(link)
            link += literal


def head(literal: nodes.literal) -> str | None:
    """Return the head of the column of a table that a name is in; None outside tables."""
    cell: Any = literal.parent
    while cell is not None and not isinstance(cell, nodes.entry):
        cell = cell.parent
    if cell is None:
        return None
    place, group = cell.parent.index(cell), cell.parent.parent.parent
    heads = [
        row[place].astext()
        for part in group.children
        if isinstance(part, nodes.thead)
        for row in part.children
    ]
    return heads[0] if heads else ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links."""
    app.add_config_value("public_names", shortest(), "")
    app.connect("missing-reference", resolve)
    app.connect("doctree-read", link_literals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def without_example(values: dict[str, Any]) -> set[str]:
    """Return the names of classes and functions whose docstring has no example, of values by name."""
    named = (
        (name, value)
        for name, value in values.items()
        if inspect.isclass(value) or inspect.isroutine(inspect.unwrap(value))
    )
    return {name for name, value in named if ">>> " not in (value.__doc__ or "")}


def faults() -> dict[str, list[str]]:
    """Return what is wrong, and with which names."""
    pages = "\n".join(page.read_text() for page in REFERENCE.glob("*.rst"))
    listed = set(
        re.findall(r"^(?:   ~|\.\. py:data:: )((?:consensus|topologies)\.[\w.]+)$", pages, flags=re.MULTILINE)
    )
    public = set(shortest().values())
    bare = without_example({name: exported_value(name) for name in public})
    found = {
        "not in the reference (docs/reference)": public - listed,
        "in the reference and not public": listed - public,
        "without an example in the docstring": bare - WITHOUT_EXAMPLE,
        "with an example, and in WITHOUT_EXAMPLE of docs/_extensions/public.py": WITHOUT_EXAMPLE - bare,
    }
    return {kind: sorted(names) for kind, names in found.items() if names}


if __name__ == "__main__":
    for kind, names in (found := faults()).items():
        print(f"{kind}: {', '.join(names)}", file=sys.stderr)
    sys.exit(bool(found))
