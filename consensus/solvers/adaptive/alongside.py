"""Blocks that ride along with exchanges, in twelve bits a number."""

from typing import TYPE_CHECKING, Any

import numpy as np

from consensus.packing import Quantised
from consensus.solvers.adaptive.held import PROBES, draw

if TYPE_CHECKING:
    from consensus.engines.network import Network

_BITS = 12


def mix_roughly(network: "Network", round: int, data: np.ndarray, *blocks: np.ndarray, beside: int = 0) -> list[np.ndarray]:
    """An exchange in which ``data`` are mixed, and ``blocks`` q (agents, ...) in twelve bits: C Q(q) + q - Q(q).

    What is lost of a message stays with its sender, which keeps the sum over agents, and an agreement, whatever Q is.
    """
    sent = [Quantised.nearest(q.reshape(len(q), -1), _BITS) for q in blocks]
    mixed, *theirs = network.mix(round, data, *sent, beside=beside)
    lost = ((new - own.unpack()).reshape(q.shape) for new, own, q in zip(theirs, sent, blocks, strict=True))
    return [mixed, *(q + new for q, new in zip(blocks, lost, strict=True))]


class Alongside:
    """A network, with every exchange of which blocks are mixed, too, by :func:`mix_roughly`.

    Everything else is the network's. What goes with the blocks are messages of
    :class:`consensus.solvers.adaptive.held.Held`, whose masses and probes tell what the exchanges did.

    Parameters
    ----------
    network : Network
        On which agents fit their averages themselves.
    blocks : ndarray (agents, P, count)
    """

    def __init__(self, network: "Network", blocks: np.ndarray) -> None:
        self.network, self._held = network, [blocks]
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def mix(self, round: int, data: np.ndarray, beside: int = 0) -> tuple[np.ndarray]:
        """As the network's, of one block."""
        mixed, q = mix_roughly(self.network, round, data, self._held[-1], beside=beside)
        self._held.append(q)
        self._seen = [*(self._seen or [self._known(data)]), self._known(mixed)]
        return (mixed,)

    def _known(self, message):
        """Masses, and probes per mass, of what is held beside the blocks."""
        mass = message[:, :1]
        return mass, message[:, -min(self.network.agents, PROBES) :] / mass

    def total(self) -> np.ndarray:
        """What each agent takes for the sum over the network (agents, P, count): the combination of all that it held with

            b = argmin | p^ - (its probes, combined) |^2 + (2^(2 - bits))^2 |b|^2 ,

        in which the last term stands for the rounding errors in all that is combined.
        """
        mass, probes = (np.stack(part, axis=1) for part in zip(*self._seen, strict=True))
        goal = draw(self.network.agents, probes.dtype).mean(axis=0)
        steps, left = np.diff(probes, axis=1), goal - probes[:, -1]
        normal = steps @ steps.swapaxes(1, 2)
        np.einsum("akk->ak", normal)[...] += 2.0 ** (2 * (2 - _BITS))
        b = np.linalg.solve(normal, steps @ left[:, :, None])
        weights = np.zeros_like(mass)  # of z_0, z_1, ... in z_K + sum_k b_k (z_k - z_{k-1})
        weights[:, -1] = 1
        weights[:, 1:] += b
        weights[:, :-1] -= b
        weights *= self.network.agents / mass
        total = np.zeros_like(self._held[0])
        for weight, q in zip(weights.swapaxes(0, 1), self._held, strict=True):
            total += weight[:, :, None] * q
        return total
