"""The merge of models: agents with few classes each err more than the mean of their models."""

import pytest

import consensus
from consensus.solvers import DGD
from experiments import merging


@pytest.mark.slow
def test_the_mean_of_the_models_errs_less_than_the_worst_of_them(monkeypatch):
    monkeypatch.setattr(merging, "SAMPLES", 1500)
    merging.digits.cache_clear()
    try:
        problem, network, options = merging.case(0, 0.05)
    except OSError as error:
        pytest.skip(f"MNIST cannot be fetched here: {error}")
    finally:
        merging.digits.cache_clear()
    run = consensus.solve(problem, network, DGD(0.1, batch=16), rounds=100, **options)
    assert merging.error_of_the_mean(run) < merging.error_of_the_worst_agent(run) - 0.2
