"""Docstrings of public objects, inherited ones included, satisfy the validator of numpydoc."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from tests.helpers.modules import definitions, parsed

pytest.importorskip("numpydoc")  # of the extra dev

import numpydoc.validate
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import Validator, validate

PACKAGES = ["consensus", "topologies"]  # with all packages inside them
# Not required: extended summaries, "See Also", examples, and lines of their own for the quotes.
IGNORED = {"ES01", "SA01", "EX01", "GL01", "GL02"}
MEMBERS = (property, classmethod, staticmethod)


def public(package):
    """Yield the names of the functions and classes that a package and the packages inside it export, and of methods."""
    folder = importlib.import_module(package)
    inside = (found.name for found in pkgutil.walk_packages(folder.__path__, f"{package}.") if found.ispkg)
    for module in map(importlib.import_module, (package, *inside)):
        for value in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if inspect.isfunction(value) or inspect.isclass(value):
                name = f"{value.__module__}.{value.__qualname__}"
                yield name
                for member, found in vars(value).items() if inspect.isclass(value) else ():
                    if member[0] != "_" and (inspect.isfunction(found) or isinstance(found, MEMBERS)):
                        yield f"{name}.{member}"


def faults(name):
    """Return the faults in the docstring of an object."""
    value = Validator._load_obj(name)
    if not value.__doc__ and inspect.getdoc(value):
        return []  # inherited from a method that is validated itself
    codes = IGNORED
    fields = set(getattr(value, "_fields", ()))
    if fields or getattr(value, "_is_protocol", False) or (inspect.isclass(value) and "__init__" not in vars(value)):
        codes = codes | {"PR01"}
        fields -= {name.strip() for entry in ClassDoc(value)["Attributes"] for name in entry.name.split(",")}
    found = [f"{code}: {text}" for code, text in validate(name)["errors"] if code not in codes]
    return found + [f"field {field} is not documented" for field in sorted(fields)]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_public_objects_are_complete(package, monkeypatch):
    # Neither is used here, and both tokenize files: comments that ignore faults, and numbers of lines.
    monkeypatch.setattr(numpydoc.validate, "extract_ignore_validation_comments", lambda *_, **__: {}, raising=False)
    monkeypatch.setattr(Validator, "source_file_def_line", None)
    names = sorted(set(public(package)))
    assert len(names) > 2
    assert {name: found for name in names if (found := faults(name))} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_say_the_subject_first(package):
    """No clause in the place of a noun at the beginning, and fields in a section of their own."""
    folder = Path(importlib.import_module(package).__file__).parent
    found = []
    for path in folder.rglob("*.py"):
        for node in definitions(parsed(path)):
            if not getattr(node, "name", "").startswith("_"):
                text = ast.get_docstring(node) or ""
                if re.match(r"(What|Whether|Where|Which|How)\b", text) or re.search(r"^\s*Fields:", text, re.M):
                    found.append(f"{path.name}: {text.splitlines()[0]}")
    assert found == []


def test_faults_are_found():
    faulty = f"{__name__}.faulty"
    assert faults(faulty) == [
        "SS03: Summary does not end with a period",
        "PR01: Parameters {'number'} not documented",
        "RT01: No Returns section found",
    ]


def faulty(number):
    """Return a number"""
    return number
