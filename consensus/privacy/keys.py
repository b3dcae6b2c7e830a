"""Keys that each two agents share, and the random words that both draw from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from consensus import _extras

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import UInt64

KEY = 32  # bytes


class PairKeys:
    """The keys of pairs, of the ``agents`` that this process holds with each other and with others.

    Each agent has a private X25519 key, made of the operating system's entropy, which never leaves the process and is in no
    file. :meth:`agree` takes the public keys of all agents, and derives the keys of pairs by HKDF for one ``purpose``.

    Parameters
    ----------
    agents : iterable of int
        The agents here.
    purpose : str
        What the keys are for: those for something else are others.
    user : str
        Who needs them, for the error if the extra ``secure`` is missing.

    Raises
    ------
    ImportError
        Without the extra ``secure``.
    """

    def __init__(self, agents: Iterable[int], purpose: str, user: str) -> None:
        self._purpose, self._user = purpose.encode(), user
        keys = self._primitives("asymmetric.x25519").X25519PrivateKey
        self._private = {agent: keys.generate() for agent in agents}
        self._pairs: dict[tuple[int, int], bytes] = {}

    @property
    def agents(self) -> list[int]:
        """The agents here."""
        return list(self._private)

    @property
    def pairs(self) -> Iterable[tuple[int, int]]:
        """The pairs i < j that have a key, one of them an agent here."""
        return self._pairs.keys()

    @property
    def public(self) -> UInt64[np.ndarray, "agents words"]:
        """The public keys of these agents, (agents, 4)."""
        raw = b"".join(key.public_key().public_bytes_raw() for key in self._private.values())
        return np.frombuffer(raw, np.uint64).reshape(-1, KEY // 8)

    def agree(self, public: UInt64[np.ndarray, "all_agents words"], pairs: Iterable[tuple[int, int]] | None = None) -> None:
        """Derive the keys of the ``pairs`` i < j in which there is an agent of this process, by default of all.

        ``public`` are the public keys of all agents (A, 4).
        """
        kdf, hashes, keys = map(self._primitives, ("kdf.hkdf", "hashes", "asymmetric.x25519"))
        raw = [row.tobytes() for row in public]
        if pairs is None:
            everyone = range(len(raw))
            pairs = {(min(one, other), max(one, other)) for one in self._private for other in everyone if other != one}
        for first, second in pairs:
            mine, theirs = (first, second) if first in self._private else (second, first)
            if mine in self._private:
                shared = self._private[mine].exchange(keys.X25519PublicKey.from_public_bytes(raw[theirs]))
                about = self._purpose + raw[first] + raw[second]
                self._pairs[first, second] = kdf.HKDF(hashes.SHA256(), KEY, None, about).derive(shared)

    def words(self, pair: tuple[int, int], number: int, count: int) -> UInt64[np.ndarray, " count"]:
        """Return ``count`` words of ChaCha20 that only the two agents know, for a ``number`` that nothing else has."""
        ciphers = self._primitives("ciphers")
        nonce = bytes(4) + number.to_bytes(12, "little")  # the counter of blocks, from zero, and the number
        cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(self._pairs[pair], nonce), mode=None)
        return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), np.uint64)

    def _primitives(self, name: str) -> Any:  # noqa: ANN401  # modules of an optional package
        return _extras.module(f"cryptography.hazmat.primitives.{name}", self._user, "secure")
