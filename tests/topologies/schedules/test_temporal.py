"""Contacts over time: windows, cycles, labels, shared keys, hand-made files and their bad lines."""

import gzip
import math
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


def edges(network, rounds):
    return [set(network.graph(n).edges) for n in range(rounds)]


@pytest.fixture
def write(tmp_path):
    def writer(text, name="contacts.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return writer


def test_each_round_has_the_contacts_of_its_window():
    network = topologies.Temporal(TIMES, CONTACTS, window=20)
    assert (network.agents, network.rounds, network.start, network.labels) == (4, 6, 0.0, (0, 1, 2, 3))
    assert edges(network, 18) == ROUNDS * 3
    for n in range(6):
        graph = nx.empty_graph(4)
        graph.add_edges_from(ROUNDS[n])
        assert np.array_equal(network.weights(network.key(n)).toarray(), topologies.metropolis(graph).toarray())


def test_without_cycles_rounds_stay_empty_after_the_last_window():
    network = topologies.Temporal(TIMES, CONTACTS, window=20, cyclic=False)
    assert edges(network, 20) == ROUNDS + [set()] * 14
    assert np.array_equal(network.weights(network.key(10**9)).toarray(), np.eye(4))
    assert network.union().nnz == 0


def test_a_start_shifts_windows_and_leaves_out_what_came_before():
    late = topologies.Temporal(TIMES, CONTACTS, window=30, start=35)
    assert edges(late, 3) == [{(0, 1), (0, 2), (1, 2)}, set(), {(0, 3)}]
    assert late.rounds == 3
    early = topologies.Temporal(TIMES, CONTACTS, window=20, start=-40)
    assert edges(early, 8) == [set(), set(), *ROUNDS]


@pytest.mark.parametrize("window", [0.1, 0.3, 1 / 3, 7.0, 1e-3])
@pytest.mark.parametrize("start", [0.0, 0.7, -1e3, 1 / 3])
def test_borders_of_windows_are_where_the_definition_puts_them(window, start):
    times = np.concatenate([start + window * np.arange(300), np.arange(1, 300) / 10 + max(start, 0.0)])
    network = topologies.Temporal(times, [(0, 1)] * len(times), window, start=start)
    near = {max(0, round((time - start) / window) + k) for time in times.tolist() for k in (-2, -1, 0, 1)}
    busy = {n for n in near if ((times >= start + n * window) & (times < start + (n + 1) * window)).any()}
    assert {n for n in near if n < network.rounds and network.graph(n).size()} == busy


def test_rounds_with_the_same_edges_share_a_key():
    network = topologies.Temporal([0, 1, 2, 3, 9], [(0, 1), (1, 2), (1, 0), (2, 1), (0, 1)], window=1)
    keys = [network.key(n) for n in range(10)]
    assert keys[0] == keys[2] == keys[9] != keys[1] == keys[3]
    assert len(set(keys[4:9])) == 1
    assert len(set(keys)) == 3
    assert network.key(10) == keys[0]


def test_a_window_far_away_takes_no_memory():
    network = topologies.Temporal([0, 1e12], [(0, 1), (1, 2)], window=1)
    assert network.rounds == 10**12 + 1
    assert set(network.graph(10**12).edges) == {(1, 2)}
    assert network.graph(10**11).size() == 0
    assert len(pickle.dumps(network)) < 2000


def test_labels_are_sorted_and_reach_the_graphs():
    network = topologies.Temporal([0, 1], [("cy", "bob"), ("ann", "cy")], window=1)
    assert network.labels == ("ann", "bob", "cy")
    assert dict(network.graph(0).nodes(data="label")) == {0: "ann", 1: "bob", 2: "cy"}
    assert set(network.graph(0).edges) == {(1, 2)}


def test_given_labels_may_name_agents_without_contacts():
    network = topologies.Temporal([0, 1], [(2, 0), (3, 0)], window=1, labels=["ann", "bob", "cy", "dan"])
    assert network.agents == 4
    assert edges(network, 2) == [{(0, 2)}, {(0, 3)}]
    assert [group.tolist() for group in topologies.components(network)] == [[0, 2, 3], [1]]


def test_the_union_is_that_of_all_contacts():
    network = topologies.Temporal(TIMES, CONTACTS, window=20)
    expected = nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3)])
    assert np.array_equal(network.union().toarray(), topologies.adjacency(expected).toarray())
    assert len(topologies.components(network)) == 1


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
    times = [0, 20, 20, 61]
    assert network == topologies.Temporal(times, [(9, 10), (10, 11), (9, 11), (11, 9)], window=20)


def test_compressed_files_and_settings(tmp_path):
    path = tmp_path / "contacts.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(PLAIN)
    network = topologies.Temporal.from_csv(str(path), 20, start=20, cyclic=False)
    assert edges(network, 4) == [{(0, 2), (1, 2)}, set(), {(0, 2)}, set()]


def test_labels_that_are_not_all_integers_are_text(write):
    network = topologies.Temporal.from_csv(write("0, 10, 9\n1, 9, b c\n"), window=1)
    assert network.labels == ("10", "9", "b c")
    assert topologies.Temporal.from_csv(write("0 07 7\n"), window=1).labels == ("07", "7")
    assert topologies.Temporal.from_csv(write("0 -2 -10\n"), window=1).labels == (-10, -2)


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


def test_a_first_line_with_a_number_is_no_header(write):
    with pytest.raises(ValueError, match="line 1, 'noon, 10, 11': the time must be a finite number, got 'noon'"):
        topologies.Temporal.from_csv(write("noon, 10, 11\n0, 10, 11\n"), window=20)


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "time, i, j\n"])
def test_files_without_contacts_are_refused(write, text):
    with pytest.raises(ValueError, match=r"contacts\.csv holds no contacts"):
        topologies.Temporal.from_csv(write(text), window=20)


def test_a_long_file_gives_the_sets_that_are_filled_one_contact_at_a_time(write):
    rng = np.random.default_rng(0)
    times, first = rng.integers(0, 5000, 20_000), rng.integers(0, 40, 20_000)
    second = (first + rng.integers(1, 40, 20_000)) % 40
    lines = "".join(f"{t} {i} {j}\n" for t, i, j in zip(times, first, second))
    network = topologies.Temporal.from_csv(write(lines), window=60, start=0)
    expected = [set() for _ in range(network.rounds)]
    for t, i, j in zip(times.tolist(), first.tolist(), second.tolist()):
        expected[t // 60].add((min(i, j), max(i, j)))
    assert edges(network, network.rounds) == expected


def test_travel_equality_and_what_is_shown():
    network = topologies.Temporal(TIMES, CONTACTS, window=20)
    copy = pickle.loads(pickle.dumps(network))
    assert copy == network
    assert hash(copy) == hash(network)
    assert edges(copy, 6) == ROUNDS
    order = np.random.default_rng(0).permutation(len(TIMES))
    assert network == topologies.Temporal(np.array(TIMES)[order], np.array(CONTACTS)[order][:, ::-1], window=20)
    assert network != topologies.Temporal(TIMES, CONTACTS, window=20, cyclic=False)
    assert network != topologies.Temporal(TIMES, CONTACTS, window=21)
    assert network != topologies.Temporal(TIMES, CONTACTS, window=20, labels="abcd")
    assert repr(network) == "Temporal(agents=4, edges=4, rounds=6, window=20.0, cyclic=True)"


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([0, 1], [(0, 1)]), {}, r"times must have shape .* got \(2,\) and \(1, 2\)"),
        (([0], [(0, 1, 2)]), {}, r"got \(1,\) and \(1, 3\)"),
        (([0, math.nan], [(0, 1), (0, 1)]), {}, "contact 1 has the time nan, which is not finite"),
        (([0, 1], [(0, 1), (2, 2)]), {}, "contact 1 is between agent 2 and itself"),
        (([0], [(0, 1)]), {"window": 0}, "window must be above 0, got 0"),
        (([0], [(0, 1)]), {"window": math.inf}, "window must be a finite number, got inf"),
        (([0], [(0, 1)]), {"window": "day"}, "window must be a finite number, got 'day'"),
        (([0, 1e9], [(0, 1)] * 2), {"window": 1e-300}, "window must be longer"),
        (([0], [(0, 1)]), {"start": math.nan}, "start must be a finite number, got nan"),
        (([0, 5], [(0, 1)] * 2), {"start": 6}, "there are no contacts at or after the start, 6.0"),
        (([0], [(0, 2)]), {"labels": "ab"}, r"contact 0 is of agents \[0 2\], but labels names the agents 0, ..., 1"),
        (([0], [("a", "b")]), {"labels": "ab"}, "with labels, contacts must hold agents, 0, ..., 1, got <U1"),
        (([], np.empty((0, 2), dtype=int)), {}, "there are no contacts"),
    ],
)
def test_bad_contacts_and_settings_are_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        topologies.Temporal(*arguments, **{"window": 20} | settings)
