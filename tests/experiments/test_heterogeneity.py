"""The comparison by heterogeneity: its shards are what it says, and a tiny version has a row for every method."""

import numpy as np
import pytest

from experiments import heterogeneity


def test_its_shards_are_alike_or_of_few_classes():
    largest = {}
    for concentration in heterogeneity.CONCENTRATIONS:
        problem, network, _ = heterogeneity.case(0, concentration)
        shards = problem.shards
        assert shards.agents == network.agents == 16
        counts = [np.bincount(shards.targets[k, :n, 0].astype(int), minlength=10) for k, n in enumerate(shards.sizes)]
        largest[concentration] = np.mean([np.sort(row)[-2:].sum() / row.sum() for row in counts])
    assert largest[100.0] < 0.35  # of two classes
    assert largest[0.05] > 0.8


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method(tmp_path):
    found = heterogeneity.study(tmp_path, rounds=2, seeds=1, concentrations=[0.05]).run()
    shown = found.table().to_markdown()
    assert all(name in shown for name in heterogeneity.solvers())
