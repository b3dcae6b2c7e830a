"""Data sets by name, tables of one's own, and their training and test parts."""

from consensus.data.datasets import CLASSIFICATION, NAMES, Dataset, load
from consensus.data.splits import Split, folds, split

__all__ = ["CLASSIFICATION", "NAMES", "Dataset", "Split", "folds", "load", "split"]
