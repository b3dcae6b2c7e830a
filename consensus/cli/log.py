"""The package's log on standard error, where there is no terminal."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(*, once: bool = False) -> Iterator[None]:
    """Inside, write the package's log to standard error, each text ``once``, unless that is a terminal, which has bars."""
    if sys.stderr.isatty():
        yield
        return
    logger, handler = logging.getLogger("consensus"), logging.StreamHandler()
    seen: set[str] = set()

    def new(record: logging.LogRecord) -> bool:
        text, before = record.getMessage(), len(seen)
        seen.add(text)
        return len(seen) > before

    if once:
        handler.addFilter(new)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
