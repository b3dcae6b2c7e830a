"""Vectors of integers as messages: the widths of runs of 32, then their numbers in as few bits."""

import numpy as np

from consensus.communication.runs import RUN, WIDTH, widths_of

_AS_THEY_ARE = 1  # the width, which no integers have, of a run of numbers in float64
_LIMIT = 2.0**62  # integers are smaller in modulus


def pack(codes: np.ndarray) -> bytes:
    """Return a message with the integers ``codes`` (P,): the runs' widths, then each run in two's complement.

    A run whose integers are at most m in modulus takes ``floor(log2 m) + 2`` bits an integer, none if all are zero. A run of
    floats with a NaN, or with a number of 2^62 or more, which only a diverging run has, travels as it is, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression.packing import pack, unpack
    >>> unpack(pack(np.array([5, -3, 0, 100])), 4).tolist()
    [5, -3, 0, 100]
    """
    runs = -(-len(codes) // RUN)
    padded = np.pad(codes, (0, -len(codes) % RUN)).reshape(runs, RUN)
    fits = np.abs(padded) < _LIMIT if padded.dtype.kind == "f" else np.ones(padded.shape, bool)  # false for NaN
    as_they_are = ~fits.all(axis=1)
    widths = np.where(as_they_are, _AS_THEY_ARE, widths_of(codes[None])[0])
    words = np.where(fits, padded, 0).astype("<i8")
    if as_they_are.any():
        words[as_they_are] = padded[as_they_are].astype("<f8").view("<i8")
    used = _used(widths, len(codes))
    bits = np.unpackbits(words.view(np.uint8).reshape(runs, RUN, 8)[..., : used.shape[2] // 8], axis=2, bitorder="little")
    head = np.unpackbits(widths.astype(np.uint8)[:, None], axis=1, bitorder="little")[:, :WIDTH]
    return np.packbits(np.concatenate([head.ravel(), bits[used]]), bitorder="little").tobytes()


def unpack(message: bytes | np.ndarray, count: int) -> np.ndarray:
    """Return the ``count`` numbers of which :func:`pack` made the beginning of ``message``.

    They are of int64, or of float64 if the numbers of a run travelled as they are.
    """
    widths, start = _read_widths(message, count), WIDTH * -(-count // RUN)
    bits = np.unpackbits(np.frombuffer(message, np.uint8, length(message, count)), bitorder="little")
    used, counted = _used(widths, count), _bits(widths)[:, None, None]
    whole = np.zeros(used.shape, np.uint8)
    whole[used] = bits[start : start + np.count_nonzero(used)]
    sign = np.take_along_axis(whole, np.broadcast_to(np.maximum(counted - 1, 0), (*used.shape[:2], 1)), axis=2)
    whole |= sign & (np.arange(used.shape[2]) >= counted)  # two's complement: the sign fills all higher bits
    words = np.repeat(sign * np.uint8(255), 8, axis=2)
    words[..., : used.shape[2] // 8] = np.packbits(whole, axis=2, bitorder="little")
    codes, as_they_are = words.view("<i8")[..., 0], widths == _AS_THEY_ARE
    if as_they_are.any():
        codes = np.where(as_they_are[:, None], codes.view("<f8"), codes)
    return codes.ravel()[:count]


def length(message: bytes | np.ndarray, count: int) -> int:
    """Return the size of the message with ``count`` numbers at the beginning of ``message``."""
    bits = _bits(_read_widths(message, count)) * RUN
    last = int(bits[-1]) // RUN * (-count % RUN) if count else 0
    return -(-(WIDTH * len(bits) + int(bits.sum()) - last) // 8)


def longest(count: int) -> int:
    """Return the largest size of a message with ``count`` numbers."""
    return -(-(WIDTH * -(-count // RUN) + 64 * count) // 8)


def _read_widths(message: bytes | np.ndarray, count: int) -> np.ndarray:
    """Return the widths (runs,) of a message with ``count`` numbers."""
    runs = -(-count // RUN)
    head = np.unpackbits(np.frombuffer(message, np.uint8, -(-runs * WIDTH // 8)), count=runs * WIDTH, bitorder="little")
    return np.packbits(head.reshape(runs, WIDTH), axis=1, bitorder="little").ravel()


def _bits(widths: np.ndarray) -> np.ndarray:
    """Bits of a number in each run, of the ``widths`` in a message."""
    return np.where(widths == _AS_THEY_ARE, 64, widths.astype(int))


def _used(widths: np.ndarray, count: int) -> np.ndarray:
    """Return a mask of the bits of ``count`` words that are in a message: (runs, 32, bits), whole bytes of the widest run."""
    bits = _bits(widths)
    among = np.arange(len(bits) * RUN).reshape(-1, RUN, 1) < count
    return among & (np.arange(8 * -(-bits.max(initial=1) // 8)) < bits[:, None, None])
