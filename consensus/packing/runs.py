"""Vectors of integers with few bits each: runs of 32 share a width."""

import numpy as np

_RUN = 32  # integers that share a width,
_WIDTH = 6  # which takes so many bits: 0 to 63


def packed_bytes(codes: np.ndarray) -> np.ndarray:
    """The lengths (n,), in whole bytes, of the messages that :func:`pack` makes of the rows of ``codes``.

    Parameters
    ----------
    codes : ndarray (n, P)
        Integers below 2^62 in modulus, of any dtype. A row with a NaN, which only a diverging run has, counts as zeros.

    Returns
    -------
    ndarray of int (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing.runs import packed_bytes
    >>> packed_bytes(np.array([[0, 0, 0], [3, -1, 0]])).tolist()
    [1, 2]
    """
    widths = _widths(codes)
    runs = np.full(widths.shape[1], _RUN)
    runs[-1:] -= -codes.shape[1] % _RUN
    lengths: np.ndarray = -(-(widths @ runs + _WIDTH * widths.shape[1]) // 8)
    return lengths


def pack(codes: np.ndarray) -> bytes:
    """A message with the integers ``codes`` (P,): the runs' widths, then each run in two's complement.

    A run whose integers are at most m in modulus takes ``floor(log2 m) + 2`` bits an integer, none if all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing.runs import pack, unpack
    >>> unpack(pack(np.array([5, -3, 0, 100])), 4).tolist()
    [5, -3, 0, 100]
    """
    (widths,) = _widths(codes[None])
    padded = np.pad(codes.astype("<i8"), (0, -len(codes) % _RUN)).reshape(-1, _RUN)
    bits = np.unpackbits(padded.view(np.uint8).reshape(*padded.shape, 8), axis=2, bitorder="little")
    last = _RUN - (-len(codes) % _RUN)
    runs = [
        run[: last if place == len(widths) - 1 else _RUN, :width].ravel()
        for place, (run, width) in enumerate(zip(bits, widths.tolist(), strict=True))
    ]
    head = np.unpackbits(widths.astype(np.uint8)[:, None], axis=1, bitorder="little")[:, :_WIDTH]
    return np.packbits(np.concatenate([head.ravel(), *runs]), bitorder="little").tobytes()


def unpack(message: bytes, count: int) -> np.ndarray:
    """The ``count`` integers (count,) of which :func:`pack` made ``message``."""
    bits = np.unpackbits(np.frombuffer(message, np.uint8), bitorder="little")
    runs = -(-count // _RUN)
    widths = np.packbits(bits[: runs * _WIDTH].reshape(runs, _WIDTH), axis=1, bitorder="little")[:, 0].tolist()
    codes, end = np.zeros(count, np.int64), runs * _WIDTH
    for run, width in enumerate(widths):
        some = codes[run * _RUN : (run + 1) * _RUN]
        start, end = end, end + width * len(some)
        if width:
            whole = np.repeat(bits[start:end].reshape(len(some), width)[:, -1:], 64, axis=1)  # the sign fills the left
            whole[:, :width] = bits[start:end].reshape(len(some), width)
            some[:] = np.packbits(whole, axis=1, bitorder="little").view("<i8")[:, 0]
    return codes


def _widths(codes):
    """Bits of an integer in each run of each row (n, runs)."""
    moduli = np.abs(np.pad(codes, ((0, 0), (0, -codes.shape[1] % _RUN)))).reshape(len(codes), -1, _RUN)
    largest = np.nan_to_num(moduli.max(axis=2).astype(float), posinf=0)
    return np.where(largest > 0, np.frexp(largest)[1] + 1, 0)
