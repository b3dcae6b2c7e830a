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
    # Processors differ by rounding errors, and these by units of messages: what agents disagree by is made of them.
    factors = {"disagreement": 4, "stationarity": 1.3}
    for name, numbers in wanted.items():
        both = np.fromstring(printed[name], sep=" "), np.fromstring(numbers, sep=" ")
        tiny = np.finfo(float).tiny  # agents agree at the start
        np.testing.assert_allclose(*(np.log(part + tiny) for part in both), rtol=0, atol=np.log(factors.get(name, 1.03)))
