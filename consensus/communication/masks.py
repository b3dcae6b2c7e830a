"""Masks of pairs of agents, which cancel in the sum over all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from consensus import _extras

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Int, UInt64

KEY = 32  # bytes
_PURPOSE = b"consensus-opt: masks of a pair of agents"


class Masks:
    """The masks of the ``agents`` that this process holds: uint64 that add up to zero modulo 2^64 over all agents.

    Each agent has a private key, which never leaves the process. :meth:`agree` takes the public keys of all agents.

    Raises
    ------
    ImportError
        Without the extra ``secure``.
    """

    def __init__(self, agents: Iterable[int]) -> None:
        keys = _primitives("asymmetric.x25519").X25519PrivateKey
        self._private = {agent: keys.generate() for agent in agents}
        self._pairs: dict[tuple[int, int], bytes] = {}

    @property
    def public(self) -> UInt64[np.ndarray, "agents words"]:
        """The public keys of these agents, (agents, 4)."""
        raw = b"".join(key.public_key().public_bytes_raw() for key in self._private.values())
        return np.frombuffer(raw, np.uint64).reshape(-1, KEY // 8)

    def agree(self, public: UInt64[np.ndarray, "all_agents words"]) -> None:
        """Derive a key for each pair with one of these agents, from the ``public`` keys of all agents (A, 4)."""
        kdf, hashes, keys = _primitives("kdf.hkdf"), _primitives("hashes"), _primitives("asymmetric.x25519")
        raw = [row.tobytes() for row in public]
        for agent, private in self._private.items():
            for other, theirs in enumerate(raw):
                pair = min(agent, other), max(agent, other)
                if other == agent or pair in self._pairs:
                    continue
                shared = private.exchange(keys.X25519PublicKey.from_public_bytes(theirs))
                about = _PURPOSE + raw[pair[0]] + raw[pair[1]]
                self._pairs[pair] = kdf.HKDF(hashes.SHA256(), KEY, None, about).derive(shared)

    def drawn(
        self, number: int, count: int, among: Int[np.ndarray, " some"] | None = None
    ) -> UInt64[np.ndarray, "agents count"]:
        """Return ``count`` masks for each of these agents, in the sum with a ``number`` that no other has.

        With ``among`` the sum is that of some agents only, and rows are those of the ones of them that are here.
        """
        here = list(self._private) if among is None else [agent for agent in among.tolist() if agent in self._private]
        place, taking = {agent: row for row, agent in enumerate(here)}, None if among is None else set(among.tolist())
        masks, zeros = np.zeros((len(here), count), np.uint64), bytes(8 * count)
        ciphers = _primitives("ciphers")
        nonce = bytes(4) + number.to_bytes(12, "little")  # the counter of blocks, from zero, and the number
        for (first, second), key in self._pairs.items():
            if taking is not None and not {first, second} <= taking:
                continue
            cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, nonce), mode=None)
            mask = np.frombuffer(cipher.encryptor().update(zeros), np.uint64)
            if first in place:
                masks[place[first]] += mask
            if second in place:
                masks[place[second]] -= mask
        return masks


def _primitives(name: str) -> Any:  # noqa: ANN401  # modules of an optional package
    return _extras.module(f"cryptography.hazmat.primitives.{name}", "SecureSums", "secure")
