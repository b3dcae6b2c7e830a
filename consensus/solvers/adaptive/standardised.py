"""A warning of data on which networks train badly."""

from consensus import _checks
from consensus.data.shards import Shards

_FAR = 10.0  # standard deviations of features and targets that are far from one


def warn_if_not(shards: Shards, targets_too: bool) -> None:
    """Warn of features, and of targets where these are numbers to predict, that are far from standardised."""
    real = shards.weights > 0
    X, targets = shards.features[real], shards.targets[real]
    found = [("feature", k, X[:, k]) for k in range(X.shape[1])]
    if targets_too:
        found += [("target", k, targets[:, k]) for k in range(targets.shape[1])]
    far = []
    for kind, k, column in found:
        mean, spread = float(column.mean()), float(column.std())
        if spread > _FAR or abs(mean) > _FAR * max(spread, 1.0) or (kind == "target" and 0 < spread < 1 / _FAR):
            far.append(f"{kind} {k} (mean {mean:.3g}, standard deviation {spread:.3g})")
    if far:
        shown = ", ".join(far[:3]) + (f" and {len(far) - 3} more" if len(far) > 3 else "")
        _checks.warn(
            f"data far from standardised: {shown}; networks train badly on them whatever the solver: "
            "consensus.datasets.split or scikit-learn's StandardScaler standardises"
        )
