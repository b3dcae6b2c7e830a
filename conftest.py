"""Which examples in docstrings can run here, and that each imports what it uses, as if it were pasted by itself."""

import gc
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# Their examples need packages which not every installation has.
NEEDS = {
    "torch": [
        "consensus/asynchronous/torch_ranks.py",
        "consensus/device/engine.py",
        "consensus/frameworks/torch_engine.py",
        "consensus/frameworks/torch.py",
        "consensus/frameworks/torch_loss.py",
        "consensus/frameworks/torch_schedule.py",
    ],
    "jax": ["consensus/frameworks/jax.py"],
    "safetensors": ["consensus/frameworks/safetensors.py"],
    "cryptography": ["consensus/privacy/fixed_point.py", "consensus/peers/certificates.py"],
    "grpc": ["consensus/peers/engine.py", "consensus/peers/checks.py", "consensus/cli/peer.py"],
    "distributed": ["consensus/servers/dask_mapper.py"],
    "PEPit": ["consensus/worst_cases.py"],
    "mpi4py": ["consensus/asynchronous/ranks.py", "consensus/engines/mpi.py"],
}
collect_ignore = [file for name, files in NEEDS.items() if find_spec(name) is None for file in files]


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.DoctestItem) and item.dtest.filename.endswith(".py"):
        item.dtest.globs.clear()  # doctest puts the names of the module there
        item.dtest.globs["__name__"] = "__main__"
        if item.name == "consensus.problems.problem.Problem.buffers" and find_spec("torch") is None:
            item.add_marker(pytest.mark.skip(reason="needs torch"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is imported and collected is garbage before the end, and collections need not go through it."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    return result
