"""Default steps are at most three times as slow as the best constant, and no run diverges."""

import pytest

from experiments.benchmarks.defaults import NAMED, diverges, fits, random_case, ratio, with_defaults

pytestmark = pytest.mark.slow

MENDED = ("ATG", "DADMM", "EXTRA", "GradientTracking", "GradientTracking cta", "KGT", "LED", "LTADMM")
MENDED += ("NewtonTracking", "PGEXTRA")
QUICK = (7, 9, 10, 12)  # of the named problems: an ill-conditioned pair, and logistic costs on three graphs
SOLVERS = with_defaults()


@pytest.mark.parametrize("name", MENDED)
def test_the_default_is_at_most_three_times_as_slow_as_the_best_constant(name):
    for case in (NAMED[k] for k in QUICK if name != "DADMM" or NAMED[k].costs == "squared"):
        default, best, factor = ratio(case, SOLVERS[name], most=8000)
        assert default <= 3 * best, f"{case}: {default:g} rounds, with {factor:.3g} times the default {best:g}"
        assert 1 / 300 < factor < 300


@pytest.mark.parametrize("name", MENDED)
def test_on_the_other_named_problems_it_is_so(name):
    """A third of them each, but neural networks with local steps, which are short because longer ones do not always settle."""
    others = [case for k, case in enumerate(NAMED) if k not in QUICK][MENDED.index(name) % 3 :: 3]
    for case in (case for case in others if fits(case, SOLVERS[name]) and (case.convex or name not in ("LED", "LTADMM"))):
        default, best, _ = ratio(case, SOLVERS[name])
        assert default <= 3 * best, str(case)


@pytest.mark.parametrize("name", MENDED)
def test_no_run_with_a_default_diverges(name):
    cases = (case for case in map(random_case, range(100)) if fits(case, SOLVERS[name]) and case.agents <= 30)
    few = [case for case in cases if name != "DADMM" or case.costs == "squared"]
    assert len(few) > 20
    assert [case for case in few if diverges(case, SOLVERS[name], 60)] == []
