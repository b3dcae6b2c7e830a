"""Progress bars: in a terminal or a notebook, and nowhere else."""

import importlib.util
import sys

from tqdm import tqdm


def bar(shown: bool = True, **settings: object) -> tqdm:
    """Make a tqdm bar; silent unless ``shown``, and where standard error is neither a terminal nor a notebook's."""
    if not in_notebook():
        return tqdm(disable=None if shown else True, **settings)  # None: by what standard error is
    if importlib.util.find_spec("ipywidgets"):
        from tqdm.notebook import tqdm as widget

        return widget(disable=not shown, **settings)
    return tqdm(disable=not shown, file=sys.stderr, **settings)


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, whose standard error is shown although it is no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return "IPKernelApp" in (getattr(shell, "config", None) or {})
