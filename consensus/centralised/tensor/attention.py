"""Attention of a rank's heads in its sequences."""

import numpy as np


def attention(a: np.ndarray, sequence: int, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``softmax(Q K' / sqrt(d)) V`` (tokens, heads d), and the weights (sequences, heads, sequence, sequence).

    The rows of ``a`` (tokens, heads 3 d) are tokens of one sequence after another, with the query, key and value of each head
    side by side.
    """
    query, key, value = _of_heads(a, sequence, heads)
    scores = query @ key.swapaxes(-1, -2)
    scores /= np.sqrt(query.shape[-1])
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ value).swapaxes(1, 2).reshape(len(a), -1), weights


def attention_slopes(a: np.ndarray, weights: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the gradient by ``a``, from that by the result of :func:`attention` and its weights."""
    heads, sequence = weights.shape[1:3]
    query, key, value = _of_heads(a, sequence, heads)
    da = np.empty_like(a)
    of_query, of_key, of_value = _of_heads(da, sequence, heads)
    d = dy.reshape(-1, sequence, heads, query.shape[-1]).swapaxes(1, 2)
    of_value[...] = weights.swapaxes(-1, -2) @ d
    of_weights = d @ value.swapaxes(-1, -2)
    of_weights -= (of_weights * weights).sum(axis=-1, keepdims=True)
    of_weights *= weights
    of_weights /= np.sqrt(query.shape[-1])
    of_query[...] = of_weights @ key
    of_key[...] = of_weights.swapaxes(-1, -2) @ query
    return da


def _of_heads(a: np.ndarray, sequence: int, heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, keys and values (sequences, heads, sequence, d), as views."""
    parts = a.reshape(-1, sequence, heads, 3, a.shape[1] // (3 * heads)).transpose(3, 0, 2, 1, 4)
    return parts[0], parts[1], parts[2]
