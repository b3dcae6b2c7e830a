"""The README's examples, run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_converge(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(EXAMPLES[number], names)
    history = names["result"].history
    assert history["objective"][-1] < 0.9 * history["objective"][0]
    assert history["stationarity"][-1] < 0.05 * history["stationarity"][0]
    assert history["disagreement"][-1] < 0.05
    if "resume=" in EXAMPLES[number]:
        assert names["again"].history["round"][-1] == 600
    if "again" in names:
        assert names["again"].history["objective"][-1] < 1.001 * history["objective"][-1]
    for line in re.findall(r'savefig\("(.*?)"', EXAMPLES[number]):
        assert (tmp_path / line).stat().st_size > 5000
