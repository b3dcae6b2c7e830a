"""Progress: bars in a terminal or a notebook, and lines of the log elsewhere."""

import importlib.util
import logging
import sys
from time import monotonic
from typing import Self

from tqdm import tqdm

_INTERVAL = 10.0  # seconds from one line of the log to the next, at least


class Lines:
    """The progress of a run as lines of the log, with the methods of a tqdm bar that an observer calls.

    The time left is that of the rounds left at the mean pace so far, from the round of the first call of ``update``, which is
    that of the checkpoint if a run goes on from one.
    """

    disable = False

    def __init__(self, rounds: int, name: str) -> None:
        self.rounds, self.name, self.round, self.measured = rounds, name, 0, ""
        self._begun: tuple[int, float] | None = None
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, rounds: int) -> None:
        """Count rounds, and write a line if the last one is long enough ago."""
        self.round += rounds
        now = monotonic()
        if self._begun is None:
            self._begun, self._last = (self.round, now), now
        begun, since = self._begun
        if now - self._last < _INTERVAL or self.round == begun:
            return
        self._last = now
        left = (now - since) * (self.rounds - self.round) / (self.round - begun)
        line = "%s: round %d of %d, about %.0f s left%s"
        logging.getLogger("consensus").info(line, self.name, self.round, self.rounds, left, self.measured)

    def set_postfix_str(self, measured: str, refresh: bool) -> None:
        """Keep what was measured in the round for the next line."""
        self.measured = f"; at round {self.round} {measured}"


def of_run(shown: bool, rounds: int, name: str) -> tqdm | Lines:
    """Make the bar of a run, or lines of the log if it is to be shown and there is neither a terminal nor a notebook."""
    made = bar(shown, total=rounds, desc=name, unit="round")
    return Lines(rounds, name) if shown and made.disable else made


def bar(shown: bool = True, **settings: object) -> tqdm:
    """Make a tqdm bar; silent unless ``shown``, and where standard error is neither a terminal nor a notebook's."""
    if not in_notebook():
        return tqdm(disable=None if shown else True, **settings)  # None: by what standard error is
    if importlib.util.find_spec("ipywidgets"):
        from tqdm.notebook import tqdm as widget

        return widget(disable=not shown, **settings)
    return tqdm(disable=not shown, file=sys.stderr, **settings)


def in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this process: it shows standard error, although that is no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return "IPKernelApp" in (getattr(shell, "config", None) or {})
