"""A history with numbers of every kind."""

import numpy as np

from consensus.history import History

NUMBERS = [0.1, 1 / 3, -0.0, 5.0, 1e300, 5e-324, -np.pi, 2.0**53 + 2, np.nextafter(1, 2), np.inf, -np.inf, np.nan]


ROWS = len(NUMBERS)


def recorded(rows=ROWS, agents=3):
    """A history with counts, floats of every size, and a quantity of every agent."""
    history, rng = History(), np.random.default_rng(0)
    for row in range(rows):
        history.append(
            {
                "round": 10 * row,
                "objective": NUMBERS[row],
                "agent_objective": rng.standard_normal(agents) * 10.0 ** rng.integers(-300, 300),
                "messages": np.int64(2**62 + row),
                "seconds": np.float64(row) / 7,
                "narrow": np.float32(row) / np.float32(3),
            }
        )
    return history


def bits(column):
    return np.asarray(column, np.float64).view(np.uint64).tolist()
