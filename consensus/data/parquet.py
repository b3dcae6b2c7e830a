"""Parquet files as the columns of a table."""

from consensus import _extras

_NUMBERS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty")  # as pandas calls what a column holds


def read(path, words=False):
    """Names and columns, as pandas has them; ``words`` is for files of text. An index is no column."""
    pandas = _extras.module("pandas", f"reading {path}", "parquet")
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install consensus-opt[parquet]") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # of pyarrow's own kinds, or Python's: a damaged file ends in any of them
        raise ValueError(f"{path} is not a Parquet file: {error}") from error
    return [str(name) for name in frame.columns], [column for _, column in frame.items()]


def values(column):
    """A column of :func:`read` as numbers, with NaN where missing, or as objects with ``None`` there."""
    import pandas

    if column.dtype.kind in "fiub" and not column.hasnans:
        return column.to_numpy(column.dtype.type)
    cells = column.astype(object).where(column.notna(), None)
    return cells.to_numpy(float if pandas.api.types.infer_dtype(cells) in _NUMBERS else object)
