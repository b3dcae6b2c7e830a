"""Contacts over time: windows, cycles, labels, shared keys, files of contacts and their bad lines."""

import gzip
import pickle

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


@pytest.mark.parametrize("window", [0.1, 0.3, 1 / 3, 7.0, 1e-3])
@pytest.mark.parametrize("start", [0.0, 0.7, -1e3, 1 / 3])
def test_windows_end_where_the_definition_says(window, start):
    times = np.concatenate([start + window * np.arange(300), np.arange(1, 300) / 10 + max(start, 0.0)])
    network = topologies.Temporal(times, [(0, 1)] * len(times), window, start=start)
    near = {max(0, round((time - start) / window) + k) for time in times.tolist() for k in (-2, -1, 0, 1)}
    busy = {n for n in near if ((times >= start + n * window) & (times < start + (n + 1) * window)).any()}
    assert {n for n in near if n < network.rounds and network.graph(n).size()} == busy


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


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
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


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("20, 10", "a line must hold time, i, j; this one has 2 fields"),
        ("20, 10, 11, 12", "it has 4 fields, but lines before it have 3"),
        ("noon, 10, 11", "the time must be a finite number, got 'noon'"),
        ("nan, 10, 11", "the time must be a finite number, got 'nan'"),
        ("-inf, 10, 11", "the time must be a finite number, got '-inf'"),
        ("20,, 11", "a label is empty"),
        ("20, 10,", "a label is empty"),
        ("20, 10, 10", "10 has a contact with itself"),
        ("time, i, j", "the time must be a finite number, got 'time'"),
    ],
)
def test_bad_lines_are_named_by_number_and_content(write, bad, why):
    path = write(f"# a trace\ntime, i, j\n0, 10, 11\n\n{bad}\n40, 10, 11\n")
    with pytest.raises(ValueError, match=rf"contacts\.csv, line 5, '{bad}': {why}"):
        topologies.Temporal.from_csv(path, window=20)


GZIPPED = gzip.compress(b"0, 1, 2\n5, 2, 3\n" * 999, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
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
    ],
)
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
