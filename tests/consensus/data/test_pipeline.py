"""Pipelines: their settings are checked; arrays and tables in, original units out. Tables of owners are in test_owned.py."""

import numpy as np
import pandas as pd
import pytest

from consensus.data import Columns, Pipeline


@pytest.mark.parametrize(("settings", "error"), [
    ({"mean": np.zeros(2)}, "mean must be finite numbers, one for each feature"),
    ({"scale": np.array([1.0, 0.0, 1.0])}, "scale must be finite numbers above 0, one for each feature"),
    ({"spread": -1.0}, "spread must be finite numbers above 0, one for each output"),
    ({"classes": ("a",)}, "classes must be a tuple of at least 2 classes, or None"),
    ({"columns": ["a"]}, "columns must be Columns, as Columns.of"),
    ({"target": 3}, "target must be the name of a column, a tuple of names, or None; got 3"),
])  # fmt: skip
def test_pipelines_are_checked(settings, error):
    good = {"columns": Columns(("a", "b", "c"), {}), "mean": np.zeros(3), "scale": np.ones(3)}
    with pytest.raises((ValueError, TypeError), match=error):
        Pipeline(**good | settings)


def test_arrays_need_no_columns():
    pipeline = Pipeline(
        None, np.array([1.0, 2.0]), np.array([2.0, 4.0]), shift=np.array([1.0, 2.0]), spread=np.array([3.0, 5.0])
    )
    np.testing.assert_array_equal(pipeline.transform([[3, 6], [1, 2]]), [[1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(pipeline.original([[1, 1], [0, 2]]), [[4.0, 7.0], [1.0, 12.0]])
    for data, error in (
        ([[1.0]], r"data must have shape \(samples, 2\); got \(1, 1\)"),
        ([[1.0, np.nan]], "feature 1 is nan in row 0"),
    ):
        with pytest.raises(ValueError, match=error):
            pipeline.transform(data)
    with pytest.raises(ValueError, match=r"outputs must have shape \(samples, 2\); got \(1, 3\)"):
        pipeline.original([[1, 2, 3]])
    with pytest.raises(ValueError, match="target must be the name of a column, so that it is found; this pipeline has none"):
        pipeline.targets(pd.DataFrame({"days": [1.0]}))


def test_numbers_and_categories_of_files_are_those_of_frames(tmp_path):
    frame = pd.DataFrame({"ward": ["1", "2", "2"], "age": [30, 40, 50], "kind": ["b", "a", "b"]})
    columns = Columns(("age", "ward"), {"ward": ("1", "2")})
    pipeline = Pipeline(columns, np.zeros(3), np.ones(3), "kind", classes=("a", "b"))
    for suffix in (".csv", ".tsv", ".parquet"):
        path = tmp_path / f"new{suffix}"
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        for data in (frame, path, str(path)):
            np.testing.assert_array_equal(pipeline.transform(data), [[30, 1, 0], [40, 0, 1], [50, 0, 1]])
            np.testing.assert_array_equal(pipeline.targets(data)[:, 0], [1, 0, 1])
