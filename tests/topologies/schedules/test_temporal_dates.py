"""Contacts at dates: seconds, whatever made them, in a constructor and in files."""

import gzip
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

import topologies

WHEN = ["2024-03-01T12:00:00", "2024-03-01T12:00:59.500", "2024-03-01T12:01:00", "2024-03-01T12:05:00"]
MET = [("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("ann", "bob")]
ROUNDS = [{(0, 1), (1, 2)}, {(0, 2)}, set(), set(), set(), {(0, 1)}]
SINCE = datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp()
COMMAS, SPACES = "{}, {}, {}\n", "{} {} {}\n"
BERLIN = timezone(timedelta(hours=1))
TIMES = {
    "numpy": np.array(WHEN, dtype="datetime64[ms]"),
    "nanoseconds": np.array(WHEN, dtype="datetime64[ns]"),
    "datetime": [datetime.fromisoformat(when) for when in WHEN],
    "aware": [datetime.fromisoformat(when).replace(tzinfo=UTC) for when in WHEN],
    "two zones": [
        datetime.fromisoformat(when).replace(tzinfo=UTC).astimezone(zone)
        for when, zone in zip(WHEN, [UTC, BERLIN] * 2, strict=True)
    ],
    "series": pd.Series(pd.to_datetime(WHEN, format="ISO8601")),
    "index": pd.to_datetime(WHEN, format="ISO8601"),
    "timestamps": [pd.Timestamp(when) for when in WHEN],
    "series in a zone": pd.Series(pd.to_datetime(WHEN, format="ISO8601")).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
}  # fmt: skip
WINDOWS = [60, 60.0, timedelta(minutes=1), np.timedelta64(60, "s"), np.timedelta64(60_000_000, "us"), pd.Timedelta("1min")]


def edges(network):
    return [set(network.graph(n).edges) for n in range(network.rounds)]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: f"{type(window).__name__} {window}")
@pytest.mark.parametrize("kind", TIMES)
def test_dates_count_in_seconds(kind, window):
    network = topologies.Temporal(TIMES[kind], MET, window)
    assert edges(network) == ROUNDS
    assert (network.window, network.start) == (60.0, SINCE)
    assert network == topologies.Temporal([0, 59.5, 60, 300], MET, 60)


@pytest.mark.parametrize(
    "start", [datetime(2024, 3, 1, 12, 1), np.datetime64("2024-03-01T12:01"), pd.Timestamp("2024-03-01 12:01", tz="UTC")]
)
def test_a_start_is_a_date_too(start):
    network = topologies.Temporal(TIMES["numpy"], MET, 60, start=start)
    assert edges(network) == ROUNDS[1:]
    assert network.start == SINCE + 60


def test_days():
    network = topologies.Temporal([date(2024, 2, 28), date(2024, 3, 1)], MET[:2], timedelta(days=1), start=date(2024, 2, 27))
    assert edges(network) == [set(), {(0, 1)}, set(), {(1, 2)}]  # a leap year


@pytest.mark.parametrize("header", ["", "when, who, whom\n", "# a trace\n"])
@pytest.mark.parametrize("ending", ["", "Z", "+00:00"])
@pytest.mark.parametrize(("line", "gap"), [(COMMAS, " "), (COMMAS, "T"), (SPACES, "T"), (SPACES, " ")])
def test_dates_in_files(tmp_path, line, gap, ending, header):
    if header.startswith("when") and "," not in line:
        header = header.replace(",", "")
    text = header + "".join(line.format(when.replace("T", gap) + ending, *pair) for when, pair in zip(WHEN, MET, strict=True))
    path = tmp_path / "contacts.csv"
    path.write_text(text)
    network = topologies.Temporal.from_csv(path, timedelta(minutes=1))
    assert edges(network) == ROUNDS
    assert network.start == SINCE
    assert network.labels == ("ann", "bob", "cy")


def test_bad_dates():
    zoned = [*TIMES["datetime"][:3], TIMES["aware"][3]]
    for times, window, start, kind, why in (
        (zoned, 60, None, ValueError, "some times have a time zone and others have none"),
        ([*TIMES["datetime"][:3], 5.0], 60, None, TypeError, "times must be numbers, or dates: .* got a mixture"),
        ([*TIMES["numpy"][:3], np.datetime64("NaT")], 60, None, ValueError, "contact 3 has the time nan, which is not finite"),
        ([*TIMES["timestamps"][:3], pd.NaT], 60, None, ValueError, "contact 3 has the time nan, which is not finite"),
        (WHEN, 60, None, TypeError, "times must be numbers, or dates: .* got str"),
        (TIMES["numpy"], 60, 12.0, ValueError, "start must be a date, as times are; got 12.0"),
        ([0, 1, 2, 3], 60, datetime(2024, 3, 1), TypeError, "start must be a finite number, as times are; got datetime"),
        (
            [0, 1, 2, 3],
            timedelta(60),
            None,
            TypeError,
            "window must be a number in the unit of times, which are not dates; got",
        ),
        (TIMES["numpy"], timedelta(0), None, ValueError, "window must be above 0"),
        (TIMES["numpy"], np.timedelta64(1, "M"), None, ValueError, "window must have a fixed length"),
        (TIMES["numpy"], np.timedelta64("NaT"), None, ValueError, "window must be a finite number"),
        (TIMES["numpy"], "60", None, TypeError, "window must be a number of seconds, or a timedelta; got '60'"),
    ):
        with pytest.raises(kind, match=why):
            topologies.Temporal(times, MET, window, start)


def test_bad_files_are_named(tmp_path):
    good = gzip.compress(b"0, 1, 2\n5, 2, 3\n" * 999)
    for name, content, why in (
        ("mixed.csv", b"0, 1, 2\n2024-03-01, 2, 3\n", "line 2, '2024-03-01, 2, 3': the time is a date without"),
        ("zones.csv", b"2024-03-01, 1, 2\n2024-03-02T00:00Z, 2, 3\n", "line 2, .* with a time zone, but that of lines before"),
        ("short.csv.gz", good[:-30], "cannot be read"),
        ("broken.csv.gz", good[:10] + b"\xff" * 9 + good[19:], "cannot be read"),
        ("plain.csv.gz", b"0, 1, 2\n", "cannot be read"),
        ("latin.csv", "0, ann, bj\xf6rn\n".encode("latin-1"), "is not UTF-8 text"),
        ("junk.csv", bytes(range(256)) * 4, "is not UTF-8 text"),
        ("zeros.csv", bytes(100), r"line 1, .*: a line must hold time, i, j; this one has 1 fields"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=why) as caught:
            topologies.Temporal.from_csv(tmp_path / name, 60)
        assert name in str(caught.value)
    with pytest.raises(ValueError, match=f"{tmp_path} cannot be read"):
        topologies.Temporal.from_csv(tmp_path, 60)
    with pytest.raises(FileNotFoundError):
        topologies.Temporal.from_csv(tmp_path / "none.csv", 60)
    for path in (None, 3, ["a"]):
        with pytest.raises(TypeError, match="path must be the path of a text file, got"):
            topologies.Temporal.from_csv(path, 60)
