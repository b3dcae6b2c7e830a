"""Check of the laws of compressors."""

from __future__ import annotations

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.compression import Compressor
from consensus.problems import BaseProblem
from consensus.testing.laws import Laws, Report, constant

_ERRORS = 25.0  # variances of the mean of draws: five standard errors


def check_compressor(
    compressor: Compressor, parameters: int = 20, *, problem: BaseProblem | None = None, draws: int = 400, seed: int = 0
) -> Report:
    """Check a compressor Q on random rows: its contraction constant, its bias and the form of its messages.

    The means of ``|Q(x) - x|^2`` and, if it says ``unbiased``, of ``Q(x) - x`` over many messages must be those that it states,
    within five standard errors. A row's message must depend on the row, the agent and the number alone, and all messages must
    have one form, which other agents' arrays can take.

    Parameters
    ----------
    compressor : Compressor
        The compressor to be checked.
    parameters : int
        P, the length of the rows.
    problem : Problem, optional
        For compressors that depend on the problem, as :class:`consensus.compression.LowRank`: P is its number of parameters.
    draws : int
        Number of messages over which means are taken; a bias is found if it exceeds about five times the root mean square error
        over the square root of this number.
    seed : int
        Seed of the rows.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the compressor, the law and the numbers.

    Examples
    --------
    >>> from consensus.compression import Quantize
    >>> from consensus.testing import check_compressor
    >>> report = check_compressor(Quantize(4))
    >>> "the mean of Q(x) is x, as unbiased says" in report.errors
    True
    """
    if not isinstance(compressor, Compressor):
        raise TypeError(f"compressor must be a consensus.compression.Compressor; got {_checks.shown(compressor)}")
    draws, parameters = _checks.count("draws", draws, least=2), _checks.count("parameters", parameters)
    if problem is not None:
        compressor.check(_checks.problem(problem))
        compressor, parameters = compressor.prepared(problem), problem.parameters
    laws, rng = Laws(compressor), _checks.seed(seed)
    rows = rng.standard_normal((6, parameters))
    rows[1], rows[2], rows[3] = np.abs(rows[1]) + 1, rows[2] * 10.0 ** -np.arange(parameters).clip(max=8), 0
    rows[4] = np.where(np.arange(parameters) == parameters // 2, 5.0, 0.1 * rows[4])
    for dtype in (np.float64, np.float32):
        _form(laws, compressor, constant(rows.astype(dtype)))
    _means(laws, compressor, constant(rows), draws)
    copy, agents = laws.copied(compressor), np.arange(6)
    found, wanted = (one.pack(rows, agents, 3).unpack() for one in (copy, compressor))
    laws.same("a copy sends the same messages", found, wanted)
    return laws.report


def _pack(laws: Laws, compressor: Compressor, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
    """Return a message of read-only rows, which has the members of :class:`consensus.communication.Packed`."""
    with laws.unwritten("pack leaves the rows as they are"):
        packed = compressor.pack(rows, agents, number)
    missing = [name for name in ("arrays", "bytes", "numbers", "of", "unpack") if not hasattr(packed, name)]
    laws.true("a message has arrays, bytes, numbers, of and unpack", not missing, f"{type(packed).__name__} lacks {missing}")
    return packed


def _form(laws: Laws, compressor: Compressor, rows: np.ndarray) -> None:
    """Check shapes, dtypes and sizes, agents by themselves, and that every message has the same form."""
    agents = np.array([0, 3, 4, 7, 8, 12])
    packed = _pack(laws, compressor, rows, agents, 5)
    back = laws.array("unpack returns rows in the dtype of those packed", packed.unpack(), rows.shape, rows.dtype)
    laws.true("unpacked rows are finite", np.isfinite(back).all(), f"found {back[~np.isfinite(back)][:3]}; row 3 is of zeros")
    laws.same("a row of zeros stays so", back[3], np.zeros_like(back[3]))
    for name in ("bytes", "numbers"):
        sizes = np.asarray(getattr(packed, name))
        law = f"{name} are whole numbers of each row"
        laws.true(law, sizes.shape == (len(rows),) and sizes.dtype.kind in "iu", f"found {sizes.dtype}, shape {sizes.shape}")
        laws.true(f"{name} are at least 0", (sizes >= 0).all(), f"found {sizes.min()}")
    arrays = packed.arrays
    for array in arrays:
        found = f"found {array.shape if isinstance(array, np.ndarray) else type(array).__name__}"
        laws.true("arrays have a row for each agent", isinstance(array, np.ndarray) and len(array) == len(rows), found)
    again = _pack(laws, compressor, rows, agents, 5)
    laws.same("the same row, agent and number give the same message", again.unpack(), back)
    some = packed.of(*(array[2:4] for array in arrays))
    laws.same("of makes the messages of other agents' arrays", some.unpack(), back[2:4])
    laws.same("of makes the messages of other agents' arrays", some.bytes, np.asarray(packed.bytes)[2:4])
    for own in (slice(0, 1), slice(1, 4)):
        block = _pack(laws, compressor, rows[own], agents[own], 5)
        laws.same("a block of agents sends the messages that it sends among all", block.unpack(), back[own])
    other = _pack(laws, compressor, constant(-2 * rows[::-1]), agents, 6)
    forms = [[(array.dtype, array.shape) for array in one.arrays] for one in (packed, other)]
    laws.true(
        "all messages have arrays of the same dtypes and shapes", forms[0] == forms[1], f"found {forms[0]} and {forms[1]}"
    )


def _means(laws: Laws, compressor: Compressor, rows: np.ndarray, draws: int) -> None:
    """Compare the mean error and the mean squared error with ``unbiased`` and ``omega``."""
    omega = compressor.omega(rows.shape[1])
    laws.true("omega is a number, at most 1", np.isfinite(omega) and omega <= 1, f"found {omega!r}")
    agents, norms = np.arange(len(rows)), np.square(rows).sum(axis=1)
    errors = np.stack([compressor.pack(rows, agents, number).unpack() - rows for number in range(draws)])
    squares, along = np.square(errors).sum(axis=2), (errors * rows).sum(axis=2) / np.where(norms > 0, norms, 1)
    bound = (1 - omega) * norms
    noise = 5 * squares.std(axis=0) / np.sqrt(draws)
    laws.at_most("the mean of |Q(x) - x|^2 is at most (1 - omega) |x|^2", squares.mean(axis=0) - noise, bound, 1e-12)
    if compressor.unbiased:
        shares = along.mean(axis=1)
        law = "the mean of <Q(x), x> / |x|^2 is 1, as unbiased says"
        laws.at_most(law, abs(shares.mean()), 5 * shares.std() / np.sqrt(draws), 1e-12)
        bias = np.square(errors.mean(axis=0)).sum(axis=1)
        law = "the mean of Q(x) is x, as unbiased says"
        laws.at_most(law, bias, _ERRORS * np.maximum(squares.mean(axis=0), bound) / draws, 1e-24 * norms.max())
