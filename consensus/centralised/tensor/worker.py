"""A worker process that is a rank of a grid."""

from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import NamedTuple

from consensus.centralised.pass_memory import PassMemory
from consensus.centralised.tensor.grid import Grid
from consensus.centralised.tensor.network import Sharded
from consensus.centralised.tensor.pipes import Pipes


class Passed(NamedTuple):
    """Numbers and messages that a worker sent in a pass, and bytes of its parameters and activations."""

    numbers: int
    messages: int
    parameters: int
    activations: int


class GridWorker(NamedTuple):
    """The worker ``number`` of ``workers``, with pipes to others; ``network(grid=...)`` is its part of a network."""

    network: Callable[..., Sharded]
    split: str
    memory: PassMemory
    number: int
    workers: int
    pipes: Mapping[int, Connection]

    def begin(self) -> Callable[[str, int], Passed | None]:
        """Return ``work(way, samples)``, a pass ``"up"`` or ``"down"``; it returns None if another worker has ended."""
        grid, memory = Grid(Pipes(self.number, self.workers, self.pipes), self.split), self.memory
        network = self.network(grid=grid)

        def up(samples: int) -> None:
            network.take(memory.w.array)
            network.put(network.forward(network.block(memory.x.array[:samples])), memory.outputs.array[:samples])

        def down(samples: int) -> None:
            network.write(network.backward(network.block(memory.u.array[:samples], outputs=True)), memory.gradient.array)

        ways = {"up": up, "down": down}

        def work(way: str, samples: int) -> Passed | None:
            grid.numbers = grid.messages = 0
            try:
                ways[way](samples)
            except (EOFError, OSError):
                return None
            return Passed(grid.numbers, grid.messages, *network.held)

        return work
