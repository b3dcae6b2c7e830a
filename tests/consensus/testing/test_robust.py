"""Every aggregation rule passes the contract; of wrong ones the broken law is named."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.robust import NNA, NNM, Bucketing, ClippedGossip, CSPlus, Robust
from consensus.solvers import DGD
from consensus.testing import check_robust

RULES = [CSPlus, NNA, ClippedGossip]
REGULAR = topologies.Static(topologies.random_regular(20, 12, seed=0), weights=topologies.max_degree)


@pytest.mark.parametrize("before", [None, NNM(), Bucketing(2)], ids=repr)
@pytest.mark.parametrize("rule", RULES)
def test_it_keeps_the_contract(rule, before):
    for weight in (0.05, 0.2):
        assert "Byzantine rows take no honest agent far" in check_robust(rule(DGD(0.1), weight, before)).errors
    check_robust(rule(DGD(0.1), 2 / 13, before), REGULAR)


def _together(self, messages):  # by all that the block receives
    apart = np.tanh(np.nan_to_num(messages.differences())).sum()
    return NNA.aggregate(self, messages) + (1e-3 * apart if self.byzantine_weight else 0)


def _written(self, messages):
    messages.own[:] = messages.mixed()
    return messages.own


def _trusting(self, messages):
    rows = np.clip(messages.rows, -1, 1) if self.byzantine_weight else messages.rows
    return messages._replace(rows=rows).mixed()


FAULTS = {
    "Byzantine rows take no honest agent far: found": lambda self, messages: messages.mixed(),
    "Byzantine rows of nan take no honest agent far: found nan": _trusting,
    "Byzantine rows of inf take no honest agent far: found nan": lambda self, m: NNA.aggregate(self, m) + 0 * m.mixed(),
    "agents that agree stay where they are": lambda self, messages: 0.9 * NNA.aggregate(self, messages),
    "with byzantine_weight=0 the rule is W x": lambda self, messages: messages.own.copy(),
    "blocks of agents come to the same bits": _together,
    "the rule leaves its messages as they are": _written,
    "new rows have the shape and dtype of the rows: found dtype float64": lambda self, m: NNA.aggregate(self, m).astype(float),
}


def test_every_rule_is_tried():
    exported = [getattr(consensus.robust, name) for name in consensus.robust.__all__]
    assert {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Robust)} == {Robust, *RULES}


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Broken\(.*\): {law}"):
        check_robust(type("Broken", (NNA,), {"aggregate": FAULTS[law]})(DGD(0.1), 0.2))


def test_a_network_on_which_nothing_is_tolerated_is_refused():
    with (
        pytest.warns(UserWarning, match="less than one neighbour's weight"),
        pytest.raises(ValueError, match="must have an agent"),
    ):
        check_robust(NNA(DGD(0.1), 0.05), REGULAR)
    with pytest.raises(TypeError, match=r"^rule must be a consensus.robust.Robust; got 3"):
        check_robust(3)
