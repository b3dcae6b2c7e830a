"""The package's log on standard error, where there is no terminal."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged() -> Iterator[None]:
    """Inside, write the package's log to standard error, unless that is a terminal, which has bars."""
    if sys.stderr.isatty():
        yield
        return
    logger, handler = logging.getLogger("consensus"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
