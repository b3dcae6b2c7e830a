"""The README's example, run as it stands, prints what stands below it."""

import re
from pathlib import Path

import numpy as np

TEXT = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_prints_what_is_shown(capsys):
    ((example, shown),) = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", TEXT, flags=re.DOTALL)
    exec(example, {})
    printed = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    wanted = dict(line.split(None, 1) for line in shown.splitlines())
    assert list(printed) == list(wanted)
    # Where agents nearly agree and are nearly there, numbers are of roundings, which differ between processors.
    tolerances = {"disagreement": {"rtol": 0, "atol": 1e-3}, "stationarity": {"rtol": 0.02, "atol": 5e-3}}
    for name, numbers in wanted.items():
        tolerance = tolerances.get(name, {"rtol": 0.02})
        np.testing.assert_allclose(np.fromstring(printed[name], sep=" "), np.fromstring(numbers, sep=" "), **tolerance)
