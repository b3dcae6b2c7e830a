"""Compressors, and the messages that they make of rows of numbers: one file a form."""

from consensus.communication.runs import Runs
from consensus.compression.base import Compressor
from consensus.compression.half import Half, Halves
from consensus.compression.integer_rows import IntegerRows
from consensus.compression.low_rank import Factors, LowRank
from consensus.compression.no_compression import NoCompression, Whole
from consensus.compression.quantize import Quantize, Quantized
from consensus.compression.random_k import Drawn, RandomK
from consensus.compression.top_k import Sparse, TopK

Quantised = Quantized

__all__ = [
    "Compressor",
    "Drawn",
    "Factors",
    "Half",
    "Halves",
    "IntegerRows",
    "LowRank",
    "NoCompression",
    "Quantize",
    "Quantized",
    "RandomK",
    "Runs",
    "Sparse",
    "TopK",
    "Whole",
]
