"""Split a data set over agents."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consensus import _checks, _memory
from consensus.data.tables import npz

SCHEMES = ("iid", "sorted", "dirichlet", "sizes")
_FORMAT = 1  # of saved shards
_DRAWS = 1000  # redraws of a Dirichlet split that leaves an agent empty


@dataclass(frozen=True, eq=False)
class Shards:
    """Every agent's own samples, padded once to the largest shard with samples of zero weight.

    Attributes
    ----------
    features : ndarray (agents, most, features)
    targets : ndarray (agents, most, outputs)
        In the dtype of the features.
    weights : ndarray (agents, most)
        One on samples, zero on padding.
    indices : ndarray of int (agents, most)
        Which row of the original data each sample is; -1 on padding.
    samples : int
        N, the number of samples of the whole network (a restricted block keeps it).
    rows : ndarray of int (agents,)
        Which agents of the network are held here; by default all.
    network_size : int
        A, the number of agents of the whole network (a restricted block keeps it).
    """

    features: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    indices: np.ndarray
    samples: int
    rows: np.ndarray = None
    network_size: int = None
    memory: tuple = field(default=(), repr=False)  # keeps what is in shared memory known as such

    def __post_init__(self):
        if self.rows is None:  # not a block, whose arrays may come later
            _check_shapes(self)
            object.__setattr__(self, "rows", np.arange(len(self.features)))
            object.__setattr__(self, "network_size", len(self.features))

    @property
    def agents(self):
        """Number of agents held here."""
        return len(self.features)

    @property
    def sizes(self):
        """Number of samples of each agent held here, shape (agents,)."""
        return np.count_nonzero(self.indices >= 0, axis=1)

    def restrict(self, rows):
        """The shards of the agents ``rows``, a slice (views, nothing is copied) or a sequence of their numbers."""
        rows = _checks.rows(rows, self.agents)
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            weights=self.weights[rows],
            indices=self.indices[rows],
            rows=self.rows[rows],
        )


def _check_shapes(shards):
    """Raise ``TypeError`` or ``ValueError`` unless the arrays of ``shards`` belong together."""
    wanted = {"features": ("agents", "most", "features"), "targets": ("agents", "most", "outputs")}
    wanted |= dict.fromkeys(("weights", "indices"), ("agents", "most"))
    for name, axes in wanted.items():
        array = getattr(shards, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            raise TypeError(f"{name} of Shards must be an array of numbers ({', '.join(axes)}); got {_checks.shown(array)}")
        if array.ndim != len(axes) or array.shape[:2] != shards.features.shape[:2]:
            raise ValueError(
                f"{name} of Shards must have shape ({', '.join(axes)}), agents and most as in features "
                f"{shards.features.shape}; got {array.shape}"
            )
    _checks.count("samples of Shards", shards.samples)


def partition(X, y, agents, scheme="iid", seed=0, *, sizes=None, concentration=0.5):
    """Give every sample to exactly one agent.

    Parameters
    ----------
    X : array_like (samples, features)
        float32 data stay float32; everything else becomes float64.
    y : array_like (samples,) or (samples, outputs)
        Targets, or integer classes.
    agents : int
        How many agents; at most the number of samples.
    scheme : {"iid", "sorted", "dirichlet", "sizes"}
        ``iid``: shuffled, shards of equal size up to one sample. ``sorted``: ordered by target (its first column)
        before the split, so that agents see different targets. ``dirichlet``: each class is spread over the agents by
        proportions drawn from a Dirichlet distribution [1]_; a target with more than 50 distinct values is cut into its
        deciles, which then act as classes. ``sizes``: shuffled, agent i takes ``sizes[i]`` samples.
    seed : int
        Of the shuffle and the Dirichlet draws.
    sizes : sequence of int, optional
        For ``scheme="sizes"``: every agent's number of samples; they sum to the number of samples.
    concentration : float
        For ``scheme="dirichlet"``: small means that agents see few classes, large approaches ``iid``.

    Returns
    -------
    Shards

    Raises
    ------
    ValueError
        If shapes disagree, data are not finite, there are more agents than samples, or an agent would stay empty.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated visual
       classification", arXiv 1909.06335, 2019, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> shards = partition(np.arange(14.0).reshape(7, 2), np.arange(7.0), agents=3)
    >>> shards.sizes
    array([3, 2, 2])
    >>> sorted(shards.indices[shards.indices >= 0].tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    X, y = arrays(X, y)
    agents = _checks.count("agents", agents)
    _checks.choice("scheme", scheme, SCHEMES)
    if agents > len(X):
        raise ValueError(f"agents must be at most the number of samples, {len(X)}, so that none is empty; got {agents}")
    if (sizes is not None) != (scheme == "sizes"):
        raise ValueError(f"sizes goes with scheme='sizes' and with no other; got scheme={scheme!r}, sizes={sizes!r}")
    rng = _checks.seed(seed)
    if scheme == "dirichlet":
        groups = _dirichlet(y[:, 0], agents, _checks.number("concentration", concentration, above=0), rng)
    else:
        order = np.argsort(y[:, 0], kind="stable") if scheme == "sorted" else rng.permutation(len(X))
        if scheme == "sizes":
            groups = np.split(order, np.cumsum(_sizes(sizes, agents, len(X)))[:-1])
        else:
            groups = np.array_split(order, agents)
    return _padded(X, y, groups)


def arrays(X, y, names=("X", "y")):
    """Features (samples, features) and targets (samples, outputs), checked, in the dtype of the features."""
    X, y = _checks.array(names[0], X), _checks.array(names[1], y)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"{names[0]} must have shape (samples, features), at least one of each; got {X.shape}")
    if y.ndim not in (1, 2) or len(y) != len(X) or y.size == 0:
        raise ValueError(
            f"{names[1]} must have shape ({len(X)},) or ({len(X)}, outputs), as {names[0]} has {len(X)} rows; got {y.shape}"
        )
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for name, array in zip(names, (X, y), strict=True):
        with np.errstate(over="ignore"):  # a number too large for float32 is refused here, not turned into inf below
            finite = np.isfinite(array.astype(dtype, copy=False))
        if not finite.all():
            where = np.argwhere(~finite)[0]
            raise ValueError(
                f"{name} must be finite in {np.dtype(dtype)}; {name}[{', '.join(map(str, where))}] is {array[tuple(where)]}"
            )
    return X.astype(dtype, copy=False), y.reshape(len(y), -1).astype(dtype, copy=False)


def _sizes(sizes, agents, samples):
    sizes = _checks.dense("sizes", sizes)
    if sizes.shape != (agents,) or sizes.dtype.kind not in "iu" or sizes.sum() != samples:
        raise ValueError(
            f"sizes must be {agents} whole numbers that sum to the number of samples, {samples}; got {sizes.tolist()}"
        )
    if sizes.min() < 1:
        raise ValueError(f"sizes must give every agent a sample; agent {sizes.argmin()} would get {sizes.min()}")
    return sizes


def _dirichlet(labels, agents, concentration, rng):
    if len(np.unique(labels)) > 50:
        labels = np.searchsorted(np.quantile(labels, np.arange(0.1, 1.0, 0.1)), labels)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_DRAWS):
        groups = [[] for _ in range(agents)]
        for members in classes:
            proportions = rng.dirichlet(np.full(agents, concentration))
            cuts = np.rint(np.cumsum(proportions)[:-1] * len(members)).astype(int)
            for group, part in zip(groups, np.split(rng.permutation(members), cuts), strict=True):
                group.append(part)
        groups = [np.concatenate(group) for group in groups]
        if min(map(len, groups)) > 0:
            return groups
    raise ValueError(
        f"{_DRAWS} Dirichlet splits over {agents} agents all left one without samples: raise concentration "
        f"(got {concentration}) or use fewer agents"
    )


def _padded(X, y, groups):
    indices = np.full((len(groups), max(map(len, groups))), -1)
    for agent, group in enumerate(groups):
        indices[agent, : len(group)] = group
    real = indices >= 0
    features, owner = _memory.empty((*indices.shape, X.shape[1]), X.dtype)
    np.take(X, indices, axis=0, out=features, mode="wrap")  # -1 fetches the last row: cleared below
    targets = y[indices]
    features[~real], targets[~real] = 0, 0
    return Shards(features, targets, real.astype(X.dtype), indices, len(X), memory=(owner,))


def save_shards(shards, folder):
    """Write every agent's samples to a file of its own, for data that shall not sit on one machine.

    Parameters
    ----------
    shards : Shards
        All agents', or a block's: several machines may each write theirs into the same folder.
    folder : path
        Gets ``agent-<number>.npz`` for each agent, without padding, and ``index.json``.
    """
    _checks.shards(shards)
    folder = Path(_checks.path("folder", folder))
    folder.mkdir(parents=True, exist_ok=True)
    for row, agent in enumerate(shards.rows):
        own = shards.weights[row] > 0
        arrays = {"features": shards.features[row, own], "targets": shards.targets[row, own]}
        np.savez(folder / f"agent-{agent}.npz", **arrays, indices=shards.indices[row, own])
    index = {
        "format": _FORMAT,
        "agents": int(shards.network_size),
        "samples": int(shards.samples),
        "most": int(shards.features.shape[1]),
    }
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


def load_shards(folder, agents=None):
    """Read shards that :func:`save_shards` wrote, of all agents or of some only.

    Parameters
    ----------
    folder : path
    agents : slice, sequence of int, or callable, optional
        Which agents; a function takes the number of agents and says which, as ``MPI().rows`` does for a rank.

    Returns
    -------
    Shards
        Padded as in the whole network, so that a block computes the same bits.

    Raises
    ------
    FileNotFoundError
        If the folder has no index, or not the file of an agent asked for.
    ValueError
        If the index is of another format, an agent is not in it, or a file is damaged: the message names it.
    TypeError
        If ``agents`` are no agents' numbers.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> shards = partition(np.eye(5), np.arange(5.0), agents=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_shards(shards, folder)
    ...     load_shards(folder, agents=[1]).sizes
    array([2])
    """
    folder = Path(_checks.path("folder", folder))
    index = _index(folder / "index.json")
    everyone = np.arange(index["agents"])
    rows = agents(index["agents"]) if callable(agents) else slice(None) if agents is None else agents
    rows = everyone[_checks.rows(rows, index["agents"], "agents")]
    if not len(rows):
        raise ValueError(f"agents must name at least one of the {index['agents']} agents of {folder}; got {agents!r}")
    parts = [_agent(folder / f"agent-{agent}.npz", index["most"]) for agent in rows]
    first, shape = parts[0], (len(parts), index["most"])
    for agent, part in zip(rows, parts, strict=True):
        for name in ("features", "targets"):
            if part[name].shape[1] != first[name].shape[1] or part[name].dtype != first[name].dtype:
                raise ValueError(
                    f"{name} of agent {agent} in {folder} must be like those of agent {rows[0]}, {first[name].shape[1]} "
                    f"columns of {first[name].dtype}; got {part[name].shape[1]} of {part[name].dtype}"
                )
    features, owner = _memory.empty((*shape, first["features"].shape[1]), first["features"].dtype)
    features[...] = 0
    targets = np.zeros((*shape, first["targets"].shape[1]), first["targets"].dtype)
    indices = np.full(shape, -1)
    for row, own in enumerate(parts):
        size = len(own["indices"])
        features[row, :size], targets[row, :size], indices[row, :size] = own["features"], own["targets"], own["indices"]
    weights = (indices >= 0).astype(features.dtype)
    return Shards(features, targets, weights, indices, index["samples"], rows, index["agents"], (owner,))


def _index(path):
    """What the index of a folder of shards says."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of which text in another encoding is one
        raise ValueError(f"{path} is not the JSON that save_shards writes: {error}") from error
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        got = index.get("format") if isinstance(index, dict) else index
        raise ValueError(f"{path.parent} has shards of format {_checks.shown(got)}; this version reads format {_FORMAT}")
    for name in ("agents", "samples", "most"):
        _checks.count(f"{name} in {path}", index.get(name))
    return index


def _agent(path, most):
    """The arrays of one agent's file, none longer than ``most``."""
    own = npz(path, "features", "targets", "indices")
    size = own["indices"].shape[:1]
    good = own["indices"].dtype.kind in "iu" and own["indices"].ndim == 1 and size[0] <= most
    for name in ("features", "targets"):
        good = good and own[name].dtype.kind == "f" and own[name].ndim == 2 and own[name].shape[:1] == size
    if not good:
        found = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in own.items())
        raise ValueError(f"{path} must hold at most {most} samples, features and targets (samples, columns); it has {found}")
    for name in ("features", "targets"):
        if not np.isfinite(own[name]).all():
            raise ValueError(f"{path} must hold finite {name}; some are NaN or infinite")
    return own
