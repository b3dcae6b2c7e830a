"""Which tests share a worker where several run at once."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Tests of processes have timeouts, and look at what is left behind; those of experiments look at one run of them all.
TOGETHER = {HERE / "consensus" / "engines": "processes", HERE / "campaign": "processes", HERE / "experiments": "experiments"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    for item in items:
        for folder, group in TOGETHER.items():
            if folder in item.path.parents:
                item.add_marker(pytest.mark.xdist_group(group))
