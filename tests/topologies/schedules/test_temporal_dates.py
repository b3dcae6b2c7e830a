"""Contacts at dates: seconds, whatever library made the dates, in a constructor and in files."""

import time
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

import topologies

WHEN = ["2024-03-01T12:00:00", "2024-03-01T12:00:59.500", "2024-03-01T12:01:00", "2024-03-01T12:05:00"]
MET = [("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("ann", "bob")]
ROUNDS = [{(0, 1), (1, 2)}, {(0, 2)}, set(), set(), set(), {(0, 1)}]
SINCE = datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp()
NAIVE = [datetime.fromisoformat(when) for when in WHEN]
AWARE = [when.replace(tzinfo=UTC) for when in NAIVE]
INDEX = pd.to_datetime(WHEN, format="ISO8601")
TIMES = {
    "numpy": np.array(WHEN, dtype="datetime64[ms]"),
    "nanoseconds": np.array(WHEN, dtype="datetime64[ns]"),
    "datetime": NAIVE,
    "aware": AWARE,
    "two zones": [when.astimezone(zone) for when, zone in zip(AWARE, [UTC, timezone(timedelta(hours=1))] * 2, strict=True)],
    "series": pd.Series(INDEX),
    "index": INDEX,
    "timestamps": list(INDEX),
    "series in a zone": pd.Series(INDEX).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
}
WINDOWS = [60, 60.0, timedelta(minutes=1), np.timedelta64(60, "s"), np.timedelta64(60_000_000, "us"), pd.Timedelta("1min")]


def edges(network):
    return [set(network.graph(n).edges) for n in range(network.rounds)]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_dates_without_a_zone_do_not_depend_on_that_of_the_machine(zone, tmp_path, monkeypatch):
    path = tmp_path / "contacts.csv"  # in New York there is no half past two on that day
    path.write_text("time,from,to\n2024-03-10T01:30,a,b\n2024-03-10T02:30,b,c\n2024-03-10T03:30,a,c\n")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        dates = [datetime(2024, 3, 10, hour, 30) for hour in (1, 2, 3)]
        networks = [
            topologies.Temporal.from_csv(path, 3600),
            topologies.Temporal(dates, [("a", "b"), ("b", "c"), ("a", "c")], 3600),
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    for network in networks:
        assert edges(network) == [{(0, 1)}, {(1, 2)}, {(0, 2)}]


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


def test_days_of_a_leap_year():
    network = topologies.Temporal([date(2024, 2, 28), date(2024, 3, 1)], MET[:2], timedelta(days=1), start=date(2024, 2, 27))
    assert edges(network) == [set(), {(0, 1)}, set(), {(1, 2)}]


@pytest.mark.parametrize("header", ["", "when, who, whom\n", "# a trace\n"])
@pytest.mark.parametrize("ending", ["", "Z", "+00:00"])
@pytest.mark.parametrize(("comma", "gap"), [(",", " "), (",", "T"), ("", "T"), ("", " ")])
def test_dates_in_files(tmp_path, comma, gap, ending, header):
    lines = (f"{when.replace('T', gap)}{ending}{comma} {i}{comma} {j}\n" for when, (i, j) in zip(WHEN, MET, strict=True))
    path = tmp_path / "contacts.csv"
    path.write_text(header.replace(",", comma) + "".join(lines))
    network = topologies.Temporal.from_csv(path, timedelta(minutes=1))
    assert edges(network) == ROUNDS
    assert network.start == SINCE
    assert network.labels == ("ann", "bob", "cy")


DATES, PLAIN = TIMES["numpy"], [0, 1, 2, 3]


@pytest.mark.parametrize(("times", "window", "start", "kind", "why"), [
    ([*NAIVE[:3], AWARE[3]], 60, None, ValueError, "some times have a time zone and others have none"),
    ([*NAIVE[:3], 5.0], 60, None, TypeError, "times must be numbers, or dates: .* got a mixture"),
    ([*DATES[:3], np.datetime64("NaT")], 60, None, ValueError, "contact 3 has the time nan, which is not finite"),
    ([*INDEX[:3], pd.NaT], 60, None, ValueError, "contact 3 has the time nan, which is not finite"),
    (WHEN, 60, None, TypeError, "times must be numbers, or dates: .* got str"),
    (DATES, 60, 12.0, ValueError, "start must be a date, as times are; got 12.0"),
    (PLAIN, 60, datetime(2024, 3, 1), TypeError, "start must be a finite number, as times are; got datetime"),
    (PLAIN, timedelta(60), None, TypeError, "window must be a number in the unit of times, which are not dates; got"),
    (DATES, timedelta(0), None, ValueError, "window must be above 0"),
    (DATES, np.timedelta64(1, "M"), None, ValueError, "window must have a fixed length"),
    (DATES, np.timedelta64("NaT"), None, ValueError, "window must be a finite number"),
    (DATES, "60", None, TypeError, "window must be a number of seconds, or a timedelta; got '60'"),
])  # fmt: skip
def test_bad_dates_are_rejected(times, window, start, kind, why):
    with pytest.raises(kind, match=why):
        topologies.Temporal(times, MET, window, start)


@pytest.mark.parametrize("step", ["1ns", "7us", "50ms", "250ms", "1h"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_dates_are_subtracted_as_nanoseconds(tmp_path, step, zone):
    step, begin = pd.Timedelta(step), pd.Timestamp("2024-03-01T12:00:00.123456789", tz=zone)
    times = [begin + k * step for k in range(30)]
    pairs = [(k % 5, k % 5 + 1) for k in range(30)]
    lengths = [step, step.to_timedelta64()] if step.nanoseconds else [step, step.to_pytimedelta(), step.to_timedelta64()]
    for length in lengths:
        network = topologies.Temporal(times, pairs, length)
        assert edges(network) == [{pair} for pair in pairs]
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{when.isoformat()},{i},{j}\n" for when, (i, j) in zip(times, pairs, strict=True)))
    assert topologies.Temporal.from_csv(path, step) == network
    ended = topologies.Temporal(times, pairs, step, ends=[when + 2 * step for when in times])
    assert edges(ended) == [{pairs[0]}, *[set(pairs[n - 1 : n + 1]) for n in range(1, 30)], {pairs[29]}]


def test_lengths_of_time_as_times_are_refused_with_the_division():
    times = np.array([0, 500, 1000], dtype="timedelta64[ms]")
    with pytest.raises(TypeError, match=r"got lengths of time: pass times / numpy.timedelta64\(1, 's'\)"):
        topologies.Temporal(times, MET[:3], 0.5)
    assert topologies.Temporal(times / np.timedelta64(1, "s"), MET[:3], 0.5).rounds == 3
