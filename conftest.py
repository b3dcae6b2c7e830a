"""Which examples in docstrings can run here, and that each imports what it uses, as if it were pasted by itself."""

from importlib.util import find_spec

import pytest

# Their examples begin with the packages after which they are named, and which not every installation has.
collect_ignore = [f"consensus/models/{name}.py" for name in ("torch", "jax") if find_spec(name) is None]


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.DoctestItem) and item.dtest.filename.endswith(".py"):
        item.dtest.globs.clear()  # doctest puts the names of the module there
        item.dtest.globs["__name__"] = "__main__"
