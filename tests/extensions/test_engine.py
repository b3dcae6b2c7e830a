"""An engine of one's own, in a file of its own: consensus/testing/threads.py."""

import pytest

from consensus.testing.threads import Threads
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same

CASES = {**engine_cases.special(), **engine_cases.saved()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_gives_the_same_bits(name):
    assert_same(CASES[name].run(engine=Threads(3)), CASES[name].run())


def test_an_error_ends_it():
    case = engine_cases.special()["functions, DGD"]._replace(solver=engine_cases.Faulty(0.02))
    with pytest.raises(engine_cases.Trouble) as caught:
        case.run(engine=Threads(3))
    assert caught.value.history["round"].tolist() == [0, 3]
