"""The study of what solvers tolerate: its table, and its conditions."""

import numpy as np
import pytest

import topologies
from experiments import tolerance


def test_each_network_is_what_its_name_says():
    networks = {name: tolerance.case(0, name)[1] for name in tolerance.NETWORKS}
    kinds = [topologies.Static, topologies.LinkFailure, topologies.GilbertElliott, topologies.RandomActivation]
    assert list(map(type, networks.values())) == kinds
    whole = networks["as it is"].weights(0)
    for network in networks.values():
        matrix = network.weights(network.key(3)).toarray()
        np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-12)
        assert not matrix[whole.toarray() == 0].any()


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_each_solver_and_dashes_where_one_cannot_be_wrapped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tolerance, "EXCHANGES", 4)
    monkeypatch.setattr(tolerance, "SOLVERS", {name: tolerance.SOLVERS[name] for name in ("DGD", "EXTRA", "AdaptiveNEXT")})
    tolerance.main(["--seeds", "1", "--workers", "1", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    rows = {cells[0].strip(): cells[1:] for line in printed.splitlines() if (cells := line.split("|")[1:-1])}
    assert {"DGD", "EXTRA", "AdaptiveNEXT"} <= set(rows)
    assert [cell.strip() for cell in rows["AdaptiveNEXT"][-2:]] == ["–", "–"]
    assert len(rows["DGD"]) == len(tolerance.NETWORKS) + len(tolerance.NOISE)
