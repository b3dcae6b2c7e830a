"""What the scripts need beside the package is named with the extra that brings it."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(("missing", "script"), [("tabulate", "shared.tables"), ("jinja2", "shared.tables")])
def test_a_missing_package_is_named_before_any_run(missing, script, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"experiments.{script}", raising=False)
    with pytest.raises(ImportError, match=rf"this script needs {missing}: pip install 'consensus-opt\[studies\]'$"):
        importlib.import_module(f"experiments.{script}")
