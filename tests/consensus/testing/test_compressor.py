"""Every compressor passes the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import consensus
from consensus.compression import Compressor, Half, LowRank, NoCompression, Quantize, RandomK, Sparse, TopK
from consensus.testing import check_compressor
from tests.extensions.signs import Sign
from tests.helpers.problems import problem

ALL = [TopK(3), TopK(0.2), RandomK(4), RandomK(0.3), Quantize(2), Quantize(8), Quantize(3, "nearest"), Half(), NoCompression()]
WITH_LAYERS = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")


@pytest.mark.parametrize("compressor", [*ALL, Sign()], ids=repr)
def test_it_keeps_the_contract(compressor):
    laws = check_compressor(compressor).errors
    assert ("the mean of Q(x) is x, as unbiased says" in laws) == compressor.unbiased
    check_compressor(compressor, 7, draws=50, seed=1)


def test_one_that_depends_on_the_problem_keeps_the_contract():
    check_compressor(LowRank(2), problem=WITH_LAYERS)


def test_every_compressor_is_tried():
    exported = [getattr(consensus.compression, name) for name in consensus.compression.__all__]
    classes = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Compressor)}
    assert classes - {Compressor, LowRank} == {type(one) for one in ALL}


@dataclass(frozen=True)
class Ternary(Compressor):
    """Right: the largest modulus with the entry's sign, with a probability of their quotient. Those below each break a law."""

    seed: int = 0

    unbiased = True

    def __repr__(self):
        return "Ternary()"

    def omega(self, parameters):
        return 2 - np.sqrt(parameters)

    def top(self, rows):
        return np.abs(rows).max(axis=1, keepdims=True)

    def kept(self, rows, agents, number):
        draws = [np.random.default_rng([self.seed, agent, number]).random(rows.shape[1]) for agent in agents]
        return np.stack(draws) * self.top(rows) < np.abs(rows)

    def pack(self, rows, agents, number, columns=20):
        values = np.where(self.kept(rows, agents, number), np.sign(rows) * self.top(rows), 0).astype(rows.dtype)
        places = np.tile(np.arange(rows.shape[1], dtype=np.int32), (len(rows), 1))
        return Sparse(values[:, :columns].copy(), places[:, :columns].copy(), rows.shape[1])


def _written(self, rows, agents, number):
    rows[0] = 0
    return Ternary.pack(self, rows, agents, number)


@dataclass(frozen=True)
class Bare:
    """A message of rows as they are that has no ``of``."""

    rows: np.ndarray

    arrays = property(lambda self: (self.rows,))
    bytes = numbers = property(lambda self: np.full(len(self.rows), 8))

    def unpack(self):
        return self.rows


@dataclass(frozen=True)
class Message(Bare):
    """One whose bytes are no whole numbers."""

    bytes = property(lambda self: np.full(len(self.rows), 2.5))

    def of(self, rows):
        return replace(self, rows=rows)


def _turned(rows):  # by a right angle
    return np.stack([-rows[:, 1::2], rows[:, ::2]], axis=2).reshape(rows.shape)


def _normalised(self, rows, agents, number):
    with np.errstate(invalid="ignore"):
        return Message(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _memory(self, rows, agents, number):
    MEMORY.append(number)
    return Ternary.pack(self, rows, agents, len(MEMORY))


MEMORY = []
FAULTS = {
    r"the mean of .* as unbiased says": {"kept": lambda self, rows, *_: np.abs(rows) > 0.5},
    r"the mean of Q\(x\) is x, as unbiased says": {
        "pack": lambda self, rows, *where: Ternary.pack(self, (rows + 0.5 * _turned(rows)).astype(rows.dtype), *where)
    },
    r"the mean of .* as unbiased says: found 0\.08": {
        "kept": lambda self, rows, agents, number: Ternary.kept(self, rows, agents, 0)  # the same draw for all messages
    },
    r"the mean of <Q\(x\), x> / \|x\|\^2 is 1": {
        "pack": lambda self, rows, *where: Ternary.pack(self, (0.9 * rows).astype(rows.dtype), *where)
    },
    r"the mean of \|Q\(x\) - x\|\^2 is at most": {"omega": lambda self, parameters: 0.5},
    "omega is a number, at most 1: found 1.5": {"omega": lambda self, parameters: 1.5},
    "the same row, agent and number give the same message": {"pack": _memory},
    "a block of agents sends the messages that it sends among all": {"top": lambda self, rows: np.abs(rows).max(keepdims=True)},
    "pack leaves the rows as they are": {"pack": _written},
    "all messages have arrays of the same dtypes and shapes": {
        "pack": lambda self, rows, agents, number: Ternary.pack(self, rows, agents, number, 10 + number % 2)
    },
    r"a message has arrays, bytes, numbers, of and unpack: Bare lacks \['of'\]": {"pack": lambda self, rows, *_: Bare(rows)},
    "bytes are whole numbers of each row: found float64": {"pack": lambda self, rows, *_: Message(rows)},
    "unpacked rows are finite: found .* row 3 is of zeros": {"pack": _normalised},
    "a row of zeros stays so": {"pack": lambda self, rows, *_: Message(rows + 1)},
    "unpack returns rows in the dtype": {"pack": lambda self, rows, *_: Message(rows.astype(np.float16))},
}


def test_what_is_broken_below_was_whole():
    check_compressor(Ternary())


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Ternary\(\): {law}"):
        check_compressor(type("Broken", (Ternary,), FAULTS[law])())


def test_arguments_are_checked():
    with pytest.raises(TypeError, match=r"^compressor must be a consensus.compression.Compressor; got 3"):
        check_compressor(3)
