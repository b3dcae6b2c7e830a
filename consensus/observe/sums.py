"""Sums over agents with the same bits wherever the agents are."""

import numpy as np

_NUMBERS = 1 << 14  # of rows that are added at a time: they stay in a core's cache
_WIDE = 1 << 11  # numbers in a row, from which a loop over rows in Python costs nothing


def added(total: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return ``total + rows[0] + rows[1] + ...``, added one after the other.

    Because the order is that of the rows, a sum that one process begins and others go on with has the bits of one process that
    has all rows. (NumPy adds rows like this, too, unless they hold one number.)

    Parameters
    ----------
    total : ndarray (P,)
        The sum so far.
    rows : ndarray (agents, P)
        What is added to it.

    Returns
    -------
    ndarray (P,)
        The sum.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.observe.sums import added
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3))
    >>> first = added(np.zeros(3), rows[:317])
    >>> bool((added(first, rows[317:]) == added(np.zeros(3), rows)).all())
    True
    """
    width = len(total)
    if width == 1:  # a column, whose sum NumPy would split
        return np.add.accumulate(np.concatenate([total, rows[:, 0]]))[-1:]
    if width >= _WIDE:
        total = total.copy()
        for row in rows:
            total += row
        return total
    few = _NUMBERS // max(1, width)
    for first in range(0, len(rows), few):
        part = rows[first : first + few]
        both = np.empty((1 + len(part), width), total.dtype)  # row after row, whatever the order of a user's array
        both[0], both[1:] = total, part
        total = both.sum(axis=0)
    return total
