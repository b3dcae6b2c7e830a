"""Online, aggregative and zeroth-order problems, and accumulated gradients, have the bits of one process on ranks."""

import pytest

from tests.helpers import problem_ranks
from tests.helpers.engine_harness import started
from tests.helpers.golden import lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_ranks_have_the_bits_of_one_process(kind):
    wanted = list(lines(problem_ranks.runs()))
    assert [line for line in wanted if "Error" in line] == []
    done = started(kind, 2, problem_ranks.__file__)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == wanted
