"""Data sets by name, tables of one's own, and their training and test parts."""

from consensus.tables.dataset import Dataset
from consensus.tables.datasets import CLASSIFICATION, NAMES, load
from consensus.tables.splits import Split, folds, split

__all__ = ["CLASSIFICATION", "NAMES", "Dataset", "Split", "folds", "load", "split"]
