"""The splits in one, two and three dimensions, by name."""

from consensus.centralised.tensor.grid import Grid
from consensus.centralised.tensor.one_d import OneD
from consensus.centralised.tensor.split import Split
from consensus.centralised.tensor.three_d import ThreeD
from consensus.centralised.tensor.two_d import TwoD

_SPLITS: dict[str, type[Split]] = {"1d": OneD, "2d": TwoD, "3d": ThreeD}


def split_on(grid: Grid) -> Split:
    """Return the split that a grid is for."""
    return _SPLITS[grid.split](grid)
