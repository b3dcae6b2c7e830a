"""Whether what came of a call is an answer that a user can work with."""

import ast
import functools
import re
import traceback
from pathlib import Path

import sklearn

import consensus
import topologies
from consensus.errors import RunError

OURS = tuple(str(Path(package.__file__).parent) for package in (consensus, topologies))
ESTIMATORS = (str(Path(sklearn.__file__).parent),)  # refuse data in scikit-learn's words, which check_estimator asks for
# Of Python, NumPy and the parsers: right about something inside, not about what the user did.
FOREIGN = ("LinAlgError", "UnicodeError", "UnicodeDecodeError", "UnicodeEncodeError", "JSONDecodeError", "ComplexWarning")


def judge(error, names):
    """None if an exception is a clear refusal of one of the arguments ``names``; else what is wrong with it."""
    text, kind = str(error), type(error).__name__
    if isinstance(error, RunError | ImportError | OSError):
        return None if text else "no message"
    if not isinstance(error, TypeError | ValueError) or kind in FOREIGN:
        return "not an error for users"
    if not text:
        return "no message"
    words = set(re.findall(r"\w+", text))
    if words & set(names) or raised_in(ESTIMATORS, error):
        return None
    return "names no argument" if raised_in(OURS, error) else "comes from inside"


def raised_in(folders, error):
    """Whether the exception was raised by a ``raise`` of a file in ``folders``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(folders) and any(a <= last.lineno <= b for a, b in _raises(last.filename))


@functools.cache
def _raises(path):
    nodes = ast.walk(ast.parse(Path(path).read_text()))
    return [(node.lineno, node.end_lineno) for node in nodes if isinstance(node, ast.Raise)]


def where(error):
    """The last line of the package that an exception went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(OURS)]
    return _place(frames[-1].filename, frames[-1].lineno) if frames else "outside"


def warned(caught):
    """The RuntimeWarnings among ``caught`` that lines of the package gave: ``(text, where)``."""
    return [
        (f"{w.category.__name__}: {w.message}", _place(w.filename, w.lineno))
        for w in caught
        if issubclass(w.category, RuntimeWarning) and w.filename.startswith(OURS)
    ]


def _place(path, line):
    return f"{Path(path).relative_to(Path(OURS[0]).parent)}:{line}"
