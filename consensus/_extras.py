"""Packages that only some need, imported where they are used."""


def pandas(what, extra="pandas"):
    """The module pandas; ``ImportError`` where it is not installed, of what needs it and of the extra that brings it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install consensus-opt[{extra}]") from error
    return pandas
