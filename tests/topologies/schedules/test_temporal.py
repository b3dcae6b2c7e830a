"""Contacts over time: windows, cycles, labels, shared keys, files of contacts and their bad lines."""

import gzip
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import topologies

TIMES = [40, 0, 59.9, 20, 100, 39, 20]
CONTACTS = [(2, 0), (0, 1), (1, 0), (1, 2), (3, 0), (2, 1), (1, 2)]
ROUNDS = [{(0, 1)}, {(1, 2)}, {(0, 1), (0, 2)}, set(), set(), {(0, 3)}]  # windows of 20
PLAIN = """0, 9, 10
20, 10, 11

20, 9, 11
61, 11, 9
"""


def edges(network, rounds=None):
    return [set(network.graph(n).edges) for n in range(network.rounds if rounds is None else rounds)]


@pytest.fixture
def write(tmp_path):
    def writer(content, name="contacts.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return writer


def test_each_round_has_the_contacts_of_its_window():
    network = topologies.Temporal(TIMES, CONTACTS, window=20)
    assert (network.agents, network.rounds, network.start, network.labels) == (4, 6, 0.0, (0, 1, 2, 3))
    assert edges(network, 18) == ROUNDS * 3
    for n in range(6):
        graph = nx.compose(nx.empty_graph(4), nx.Graph(list(ROUNDS[n])))
        assert np.array_equal(network.weights(network.key(n)).toarray(), topologies.metropolis(graph).toarray())
    expected = nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3)])
    assert np.array_equal(network.union().toarray(), topologies.adjacency(expected).toarray())


def test_without_cycles_rounds_stay_empty_after_the_last_window():
    network = topologies.Temporal(TIMES, CONTACTS, window=20, cyclic=False)
    assert edges(network, 20) == ROUNDS + [set()] * 14
    assert np.array_equal(network.weights(network.key(10**9)).toarray(), np.eye(4))
    assert network.union().nnz == 0


def test_a_start_shifts_windows_and_excludes_earlier_contacts():
    late = topologies.Temporal(TIMES, CONTACTS, window=30, start=35)
    assert edges(late) == [{(0, 1), (0, 2), (1, 2)}, set(), {(0, 3)}]
    assert edges(topologies.Temporal(TIMES, CONTACTS, window=20, start=-40)) == [set(), set(), *ROUNDS]


def windows(network):
    """Return the windows in which there are contacts; one graph for each key, which rounds with equal edges share."""
    rounds = {}
    for n in range(network.rounds):
        rounds.setdefault(network.key(n), []).append(n)
    return {n for alike in rounds.values() if network.graph(alike[0]).size() for n in alike}


@pytest.mark.parametrize("text", ["0.1", "0.3", "7.0", "0.001", "1e-7", "0.25"])
@pytest.mark.parametrize("start", ["0", "0.7", "-1e3", "1709294400.4", "0.1234567"])
@pytest.mark.parametrize("kind", [float, Decimal, Fraction, lambda text: np.array(float(text))[()]])
def test_a_float_is_the_decimal_that_it_is_written_as(text, start, kind):
    exact, steps = Fraction(start), [*range(40), 117, 300]
    if kind not in (Decimal, Fraction) and len(start) > 9 and text == "1e-7":
        return  # such sums take more digits than floats have
    times = [kind(str(Decimal(start) + k * Decimal(text))) for k in steps]
    network = topologies.Temporal(times, [(0, 1)] * len(times), kind(text), start=kind(start))
    assert windows(network) == set(steps)
    assert network.start == float(exact)


@pytest.mark.parametrize("window", [0.1, 0.3, 1 / 3, 7.0, 1e-3, 0.7])
@pytest.mark.parametrize("start", [0.0, 0.7, -1e3, 1 / 3])
def test_times_that_were_computed_count_as_what_was_meant(window, start):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        network = topologies.Temporal(start + window * np.arange(300), [(0, 1)] * 300, window, start=start)
    assert windows(network) == set(range(300))
    if said:
        assert "differ from the beginning of a window by rounding errors alone" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounded = topologies.Temporal(np.round(window * np.arange(300), 9), [(0, 1)] * 300, round(window, 9))
    assert rounded.rounds in (300, 301)  # where 1 / 3 is cut off


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, object])
def test_times_of_other_types(dtype):
    steps = np.array([0, 1, 2, 3, 7])
    times = (steps * 0.1).round(1).astype(dtype) if np.dtype(dtype).kind in "fO" else steps.astype(dtype)
    network = topologies.Temporal(times, [(0, 1)] * 5, 0.1 if np.dtype(dtype).kind in "fO" else 1)
    assert windows(network) == {0, 1, 2, 3, 7}


def test_whole_numbers_beyond_floats():
    times = [2**70, 2**70 + 1, 2**70 + 3]
    assert windows(topologies.Temporal(times, [(0, 1)] * 3, 1)) == {0, 1, 3}
    assert windows(topologies.Temporal(np.array([2**64 - 4, 2**64 - 1], dtype=np.uint64), [(0, 1)] * 2, 1)) == {0, 3}


def test_contacts_that_last_are_in_every_window_until_they_end():
    times, ends = [0, 15, 20, 5, 30], [20, 15, 41, 6, 30]
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    network = topologies.Temporal(times, pairs, window=10, ends=ends)
    assert edges(network) == [{(0, 1), (3, 4)}, {(0, 1), (1, 2)}, {(2, 3)}, {(2, 3), (0, 4)}, {(2, 3)}]
    late = topologies.Temporal(times, pairs, window=10, ends=ends, start=15)
    assert edges(late) == [{(0, 1), (1, 2), (2, 3)}, {(2, 3), (0, 4)}, {(2, 3)}]
    with pytest.raises(ValueError, match=r"contact 1 ends at 14.0, before its time, 15.0: .* times \+ durations"):
        topologies.Temporal(times, pairs, 10, ends=[20, 14, 41, 6, 30])
    with pytest.raises(ValueError, match=r"ends must be as times are, numbers of shape \(5,\); got numbers of shape \(2,\)"):
        topologies.Temporal(times, pairs, 10, ends=[20, 14])
    with pytest.raises(ValueError, match=r"would take .* bytes of memory"):
        topologies.Temporal([0], [(0, 1)], 1e-12, ends=[1e3])


def test_contacts_with_oneself_are_an_error_or_ignored():
    times, pairs = [0, 1, 2], [(0, 1), (3, 3), (1, 2)]
    with pytest.raises(ValueError, match=r"contact 1 is between agent 3 and itself; self_contacts='drop' ignores"):
        topologies.Temporal(times, pairs, 1)
    network = topologies.Temporal(times, pairs, 1, self_contacts="drop")
    assert (network.labels, edges(network)) == ((0, 1, 2, 3), [{(0, 1)}, set(), {(1, 2)}])
    with pytest.raises(ValueError, match="self_contacts must be 'error' or 'drop', got 'keep'"):
        topologies.Temporal(times, pairs, 1, self_contacts="keep")


def test_masked_times_and_contacts_are_named():
    times, pairs = np.ma.masked_equal([0, 99, 20], 99), np.ma.masked_equal([(0, 1), (1, 99), (2, 0)], 99)
    with pytest.raises(ValueError, match=r"times has 1 masked entries, at \[1\]: pass times\[~times.mask\]"):
        topologies.Temporal(times, pairs.filled(3), 10)
    with pytest.raises(ValueError, match=r"contacts has 1 masked entries, at \[1, 1\]"):
        topologies.Temporal(times.filled(3), pairs, 10)
    kept = ~(times.mask | pairs.mask.any(axis=1))
    assert topologies.Temporal(times[kept], pairs[kept], 10).rounds == 3
    with pytest.raises(ValueError, match=r"ends has 1 masked entries"):
        topologies.Temporal([0, 1, 2], pairs.filled(3), 10, ends=times)


def test_rounds_with_the_same_edges_share_a_key():
    network = topologies.Temporal([0, 1, 2, 3, 9], [(0, 1), (1, 2), (1, 0), (2, 1), (0, 1)], window=1)
    keys = [network.key(n) for n in range(11)]
    assert keys[0] == keys[2] == keys[9] == keys[10] != keys[1] == keys[3]
    assert len(set(keys[4:9])) == 1
    assert len(set(keys)) == 3


def test_a_distant_window_takes_no_memory():
    network = topologies.Temporal([0, 1e12], [(0, 1), (1, 2)], window=1)
    assert network.rounds == 10**12 + 1
    assert set(network.graph(10**12).edges) == {(1, 2)}
    assert network.graph(10**11).size() == 0
    assert len(pickle.dumps(network)) < 2000


def test_agents_are_the_sorted_labels_of_contacts_or_the_given_labels():
    network = topologies.Temporal([0, 1], [("cy", "bob"), ("ann", "cy")], window=1)
    assert network.labels == ("ann", "bob", "cy")
    assert dict(network.graph(0).nodes(data="label")) == {0: "ann", 1: "bob", 2: "cy"}
    assert edges(network) == [{(1, 2)}, {(0, 2)}]
    given = topologies.Temporal([0, 1], [(2, 0), (3, 0)], window=1, labels=["ann", "bob", "cy", "dan"])
    assert edges(given) == [{(0, 2)}, {(0, 3)}]
    assert [group.tolist() for group in topologies.components(given)] == [[0, 2, 3], [1]]


@pytest.mark.parametrize("text", [
    PLAIN,
    PLAIN.replace(", ", ","),
    PLAIN.replace(", ", "\t"),
    PLAIN.replace(", ", "   "),
    "time, i, j\n" + PLAIN,
    "t i j\n" + PLAIN.replace(",", " "),
    "# time, i, j of a trace\n\n" + PLAIN.replace("61,", "   61 ,") + "# end\n",
    PLAIN.replace("20, 10, 11", "20, 10, 11 # met at noon"),
    PLAIN.replace("\n", "\r\n"),
    "\ufeff" + PLAIN,
    "\n".join(line + ", x, y" * bool(line) for line in PLAIN.splitlines()),
    PLAIN.rstrip("\n"),
    "\n".join(reversed(PLAIN.splitlines())),
    PLAIN.replace("61", "6.1e1"),
])  # fmt: skip
def test_files_of_contacts_in_every_form(write, text):
    network = topologies.Temporal.from_csv(write(text), window=20)
    assert network.labels == (9, 10, 11)
    assert edges(network, 5) == [{(0, 1)}, {(0, 2), (1, 2)}, set(), {(0, 2)}, {(0, 1)}]
    assert network == topologies.Temporal([0, 20, 20, 61], [(9, 10), (10, 11), (9, 11), (11, 9)], window=20)


def test_compressed_files_and_settings(write):
    path = write(gzip.compress(PLAIN.encode(), mtime=0), "contacts.csv.gz")
    network = topologies.Temporal.from_csv(str(path), 20, start=20, cyclic=False)
    assert edges(network, 4) == [{(0, 2), (1, 2)}, set(), {(0, 2)}, set()]


@pytest.mark.parametrize(
    ("text", "labels"), [("0, 10, 9\n1, 9, b c\n", ("10", "9", "b c")), ("0 07 7\n", ("07", "7")), ("0 -2 -10\n", (-10, -2))]
)
def test_labels_are_text_unless_all_are_integers(write, text, labels):
    assert topologies.Temporal.from_csv(write(text), window=1).labels == labels


@pytest.mark.parametrize(("bad", "why"), [
    ("20, 10", "a line must hold time, i, j; this one has 2 fields"),
    ("20, 10, 11, 12", "it has 4 fields, but lines before it have 3"),
    ("noon, 10, 11", "the time must be a finite number, got 'noon'"),
    ("nan, 10, 11", "the time must be a finite number, got 'nan'"),
    ("-inf, 10, 11", "the time must be a finite number, got '-inf'"),
    ("20,, 11", "a label is empty"),
    ("20, 10,", "a label is empty"),
    ("20, 10, 10", "10 has a contact with itself"),
    ("time, i, j", "the time must be a finite number, got 'time'"),
])  # fmt: skip
def test_bad_lines_are_named_by_number_and_content(write, bad, why):
    path = write(f"# a trace\ntime, i, j\n0, 10, 11\n\n{bad}\n40, 10, 11\n")
    with pytest.raises(ValueError, match=rf"contacts\.csv, line 5, '{bad}': {why}"):
        topologies.Temporal.from_csv(path, window=20)


GZIPPED = gzip.compress(b"0, 1, 2\n5, 2, 3\n" * 999, mtime=0)


@pytest.mark.parametrize(("name", "content", "why"), [
    ("header.csv", "noon, 10, 11\n0, 10, 11\n", "line 1, 'noon, 10, 11': the time must be a finite number, got 'noon'"),
    ("empty.csv", "", "holds no contacts"),
    ("comment.csv", "# nothing\n\n", "holds no contacts"),
    ("titles.csv", "time, i, j\n", "holds no contacts"),
    ("mixed.csv", "0, 1, 2\n2024-03-01, 2, 3\n", "line 2, '2024-03-01, 2, 3': the time is a date without"),
    ("zones.csv", "2024-03-01, 1, 2\n2024-03-02T00:00Z, 2, 3\n", "line 2, .* with a time zone, but that of lines before"),
    ("short.csv.gz", GZIPPED[:-30], "cannot be read"),
    ("broken.csv.gz", GZIPPED[:10] + b"\xff" * 9 + GZIPPED[19:], "cannot be read"),
    ("plain.csv.gz", "0, 1, 2\n", "cannot be read"),
    ("latin.csv", "0, ann, bj\xf6rn\n".encode("latin-1"), "is not UTF-8 text"),
    ("binary.csv", bytes(range(256)) * 4, "is not UTF-8 text"),
    ("zeros.csv", bytes(100), r"line 1, .*: a line must hold time, i, j; this one has 1 fields"),
])  # fmt: skip
def test_bad_files_are_named(write, name, content, why):
    with pytest.raises(ValueError, match=f"{name}.*{why}"):
        topologies.Temporal.from_csv(write(content, name), 60)


def test_paths_must_be_those_of_files(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} cannot be read"):
        topologies.Temporal.from_csv(tmp_path, 60)
    with pytest.raises(FileNotFoundError):
        topologies.Temporal.from_csv(tmp_path / "none.csv", 60)
    for path in (None, 3, ["a"]):
        with pytest.raises(TypeError, match="path must be the path of a text file, got"):
            topologies.Temporal.from_csv(path, 60)


def test_a_long_file_agrees_with_sets_that_are_filled_one_contact_at_a_time(write):
    rng = np.random.default_rng(0)
    times, first = rng.integers(0, 5000, 20_000), rng.integers(0, 40, 20_000)
    second = (first + rng.integers(1, 40, 20_000)) % 40
    lines = "".join(f"{t} {i} {j}\n" for t, i, j in zip(times, first, second))
    network = topologies.Temporal.from_csv(write(lines), window=60, start=0)
    expected = [set() for _ in range(network.rounds)]
    for t, i, j in zip(times.tolist(), first.tolist(), second.tolist()):
        expected[t // 60].add((min(i, j), max(i, j)))
    assert edges(network) == expected


TRACE = [(1000, "1", "2"), (1010, "2", "3"), (1020, "3", "1"), (1041, "2", "1")]
MET = [{(0, 1)}, {(1, 2)}, {(0, 2)}, set(), {(0, 1)}]


@pytest.mark.parametrize(("head", "line", "columns"), [
    ("src dst time\n", "{1} {2} {0}\n", ("time", "src", "dst")),
    ("from,to,when\n", "{1},{2},{0}\n", ("when", "from", "to")),
    ("idx;time;day;from;to\n", "0;{0};7;{1};{2}\n", ("time", "from", "to")),
    ("timestamp\tweight\tu\tv\n", "{0}\t1.5\t{1}\t{2}\n", ("timestamp", "u", "v")),
    ("", "{1} {2} {0}\n", (2, 0, 1)),
    ("% asym\n", "{1} {2} 1 {0}\n", (3, 0, 1)),
    ("# FromNodeId ToNodeId UnixTS\n", "{1} {2} {0}\n", ("UnixTS", "FromNodeId", "ToNodeId")),
    ("", "{1},{0},{2}\n", (1, 0, 2)),
    (",time,i,j\n", "5,{0},{1},{2}\n", ("time", "i", "j")),
])  # fmt: skip
def test_columns_by_name_and_place_and_the_error_without_them(write, head, line, columns):
    path = write(head + "".join(line.format(*contact) for contact in TRACE))
    network = topologies.Temporal.from_csv(path, 10, columns=columns)
    assert (network.labels, network.start, edges(network)) == ((1, 2, 3), 1000.0, MET)
    assert network == topologies.Temporal.from_csv(path, 10, columns=list(columns))
    if columns != (1, 0, 2):  # what no header and no number says
        with pytest.raises(ValueError, match="columns=") as caught:
            topologies.Temporal.from_csv(path, 10)
        call = str(caught.value).partition("read it by ")[2].partition(", or by their")[0]
        remedy = eval(call) if call else topologies.Temporal.from_csv(path, 10, columns=columns)
        assert str(columns) in str(caught.value)
        assert remedy == network


def test_a_file_sorted_by_its_first_agent_is_not_taken_for_a_trace(write):
    lines = sorted((i, j, t) for t, i, j in [(50, 1, 2), (10, 2, 1), (40, 1, 3), (20, 3, 2), (30, 2, 3)])
    path = write("".join(f"{i} {j} {t}\n" for i, j, t in lines))
    with pytest.raises(
        ValueError, match=r"has no header, .*: pass columns=\(2, 0, 1\) if column 2, counted from 0, holds the times"
    ):
        topologies.Temporal.from_csv(path, 10)
    assert topologies.Temporal.from_csv(path, 10, columns=(2, 0, 1)).start == 10.0
    assert topologies.Temporal.from_csv(path, 10, columns=(0, 1, 2)).start == 1.0


def test_the_default_order_needs_no_word_where_nothing_contradicts_it(write):
    rng = np.random.default_rng(5)
    times, first = np.sort(rng.integers(0, 200, 300)), rng.integers(0, 20, 300)
    second = (first + rng.integers(1, 20, 300)) % 20
    for extra in ("", " 1", " 1A 2B"):  # weights, classes of the agents
        path = write("".join(f"{t} {i} {j}{extra}\n" for t, i, j in zip(times, first, second)))
        assert topologies.Temporal.from_csv(path, 10).labels == tuple(range(20))


def test_ends_labels_and_contacts_with_oneself_in_files(write):
    path = write("begin,end,from,to\n0,25,ann,bob\n5,5,bob,bob\n12,13,cy,bob\n")
    with pytest.raises(ValueError, match=r"columns=\('begin', 'from', 'to'\), end='end'\)"):
        topologies.Temporal.from_csv(path, 10)
    settings = {"columns": ("begin", "from", "to"), "end": "end"}
    with pytest.raises(ValueError, match=r"line 3, '5,5,bob,bob': bob has a contact with itself; self_contacts='drop'"):
        topologies.Temporal.from_csv(path, 10, **settings)
    network = topologies.Temporal.from_csv(path, 10, **settings, self_contacts="drop", labels=["dan", "cy", "bob", "ann"])
    assert network.labels == ("dan", "cy", "bob", "ann")
    assert edges(network) == [{(2, 3)}, {(1, 2), (2, 3)}, {(2, 3)}]
    with pytest.raises(ValueError, match="has 1 agents that labels do not name: cy"):
        topologies.Temporal.from_csv(path, 10, **settings, self_contacts="drop", labels=["bob", "ann"])
    numbers = write("0 7 9\n5 9 8\n")
    assert edges(topologies.Temporal.from_csv(numbers, 5, labels=range(6, 10))) == [{(1, 3)}, {(2, 3)}]


def test_quotes_signs_in_names_and_comments(write):
    path = write('0,"Ward, north","Ward #3" # noon\n5, "Ward #3" , "a; ""b"""\n')
    assert topologies.Temporal.from_csv(path, 5).labels == ("Ward #3", "Ward, north", 'a; "b"')
    assert topologies.Temporal.from_csv(write('0 "ann lee" "bob"\n5\t"bob"   cy\n'), 5).labels == ("ann lee", "bob", "cy")
    assert topologies.Temporal.from_csv(write("0\tann lee\tbob\n"), 5).labels == ("ann lee", "bob")
    with pytest.raises(ValueError, match=r"line 2, .*: its quotes are not closed"):
        topologies.Temporal.from_csv(write('0,a,b\n5,"a,b\n'), 5)
    with pytest.raises(ValueError, match=r"line 2, .*: the time must be a finite number, got '0,5'.*, with a decimal point"):
        topologies.Temporal.from_csv(write("t;i;j\n0,5;a;b\n"), 5)


@pytest.mark.parametrize(
    ("step", "window"),
    [("0.1", 0.1), ("0.1", 0.2), ("1e-3", 0.001), ("0.3", Fraction(3, 10)), ("0.0000001", 1e-7), ("0.1", Decimal("0.1"))],
)
@pytest.mark.parametrize("start", ["0", "1709294400", "1709294400.1234567"])
def test_times_of_files_are_read_to_the_last_digit(write, step, window, start):
    times = [Fraction(start) + k * Fraction(step) for k in range(50)]
    text = "".join(f"{Decimal(start) + k * Decimal(step)},{k % 5},{k % 5 + 1}\n" for k in range(50))
    network = topologies.Temporal.from_csv(write("t,i,j\n" + text), window)
    length = Fraction(str(window))
    expected = [{(k % 5, k % 5 + 1) for k in range(50) if (times[k] - times[0]) // length == n} for n in range(network.rounds)]
    assert edges(network) == expected
    assert network.rounds == (times[-1] - times[0]) // length + 1


@pytest.mark.parametrize(("settings", "kind", "why"), [
    ({"columns": ("time", "a", "b")}, ValueError, "line 1, .*: the header has the column 'a' not; it has 'time', 'x', 'y'"),
    ({"columns": (0, 1, 3)}, ValueError, "columns must be places from 0 to 2, got 3"),
    ({"columns": (0, 1)}, ValueError, "columns must be three columns"),
    ({"columns": (0, 1, 1)}, ValueError, "columns must be three columns"),
    ({"columns": "txy"}, TypeError, "columns must be three columns"),
    ({"columns": (0, 1, 2.0)}, ValueError, "columns must be three columns"),
    ({"end": 1.5}, TypeError, "end must be the name or the place of a column, got 1.5"),
    ({"end": "until"}, ValueError, "the header has the column 'until' not"),
    ({"sep": "|"}, ValueError, "sep must be one of"),
])  # fmt: skip
def test_bad_settings_of_files(write, settings, kind, why):
    with pytest.raises(kind, match=why):
        topologies.Temporal.from_csv(write("time,x,y\n0,a,b\n"), 5, **settings)


def test_names_need_a_header_and_a_time_in_another_place_is_pointed_at(write):
    with pytest.raises(ValueError, match=r"line 1, '0 1 2': there is no header with the column 'time'; give places"):
        topologies.Temporal.from_csv(write("0 1 2\n"), 5, columns=("time", "i", "j"))
    with pytest.raises(
        ValueError, match=r"got 'ann'; .* If column 2, counted from 0, holds the times, pass columns=\(2, 0, 1\)"
    ):
        topologies.Temporal.from_csv(write("ann bob 5\n"), 5)
