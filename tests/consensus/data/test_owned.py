"""Owners who keep their tables: equal to the pooled run, refused by name on all, and nothing revealed that is not listed."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import consensus
import topologies
from consensus.data import own
from tests.helpers import owners
from tests.helpers.engine_harness import environment
from tests.helpers.owners_on_threads import OnThreads, errors_of, on_ranks
from tests.helpers.ranks_on_threads import together


@pytest.fixture
def tables():
    return [table.drop(columns="outcome") for table in owners.hospitals()]


def pooled(tables, target):
    """Standardised features and target of all tables in one, by pandas and scikit-learn alone."""
    frame = pd.concat(tables, ignore_index=True)[tables[0].columns]
    X = pd.get_dummies(frame.drop(columns=target), columns=["ward"], dtype=float)
    X = X[["age", "pressure", "smokes", "ward_A", "ward_B", "ward_C", "site"]].to_numpy(float)
    y = frame[[target]].to_numpy(float)
    return StandardScaler().fit_transform(X), StandardScaler().fit_transform(y)


def test_shards_are_the_pooled_table_standardised(tables):
    owned = own(tables, "days", categories=["ward"])
    X, y = pooled(tables, "days")
    real = owned.shards.weights > 0
    assert owned.shards.sizes.tolist() == list(owners.SIZES)
    assert owned.pipeline.columns.features == ("age", "pressure", "smokes", "ward_A", "ward_B", "ward_C", "site")
    np.testing.assert_allclose(owned.shards.features[real], X, rtol=0, atol=1e-12)
    np.testing.assert_allclose(owned.shards.targets[real], y, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(owned.shards.indices[real], np.arange(sum(owners.SIZES)))
    assert (owned.shards.features[..., -1] == 0).all(), "a constant column becomes zero"


def test_ridge_is_that_of_scikit_learn_on_the_pooled_table(tables):
    owned = own(tables, "days", categories=["ward"])
    result = owners.solved(owned, "ridge", tolerance=1e-14)
    X, y = pooled(tables, "days")
    ones = np.column_stack([X, np.ones(len(X))])  # the bias is penalised, as in the problem
    exact = Ridge(alpha=owners.RIDGE * len(X), fit_intercept=False, solver="svd").fit(ones, y[:, 0])
    np.testing.assert_allclose(result.mean, exact.coef_, rtol=0, atol=1e-12)


def test_a_network_of_neurons_trains_as_on_the_pooled_table(tables):
    owned = own(tables, "days", categories=["ward"])
    X, y = pooled(tables, "days")
    whose = np.repeat(np.arange(4), owners.SIZES)
    split = consensus.data.Owned(consensus.partition(X, y, groups=whose), owned.pipeline, owned.revealed)
    here, there = (owners.solved(each, "mlp") for each in (owned, split))
    np.testing.assert_allclose(here.w, there.w, rtol=0, atol=1e-12)
    assert here.history["objective"][-1] < 0.7 * here.history["objective"][0]


def test_each_rank_has_the_bits_of_one_process_and_its_own_rows_only(tables):
    alone, ranks = own(tables, "days", categories=["ward"]), on_ranks(tables, "days", categories=["ward"])
    for owner, owned in enumerate(ranks):
        expected = alone.shards.restrict([owner])
        for name in ("features", "targets", "weights", "indices", "rows"):
            np.testing.assert_array_equal(getattr(owned.shards, name), getattr(expected, name))
        assert (owned.shards.samples, owned.shards.network_size) == (sum(owners.SIZES), 4)
        for name in ("mean", "scale", "shift", "spread"):
            np.testing.assert_array_equal(getattr(owned.pipeline, name), getattr(alone.pipeline, name))
        assert owned.pipeline.columns == alone.pipeline.columns
        pd.testing.assert_frame_equal(owned.revealed, alone.revealed)


def test_files_are_read_as_frames_are(tables, tmp_path):
    paths = owners.write(tmp_path)
    frames, files = own(tables, "days", categories=["ward"]), own(list(map(str, paths)), "days", categories=["ward"])
    np.testing.assert_array_equal(frames.shards.features, files.shards.features)
    np.testing.assert_array_equal(frames.shards.targets, files.shards.targets)


def test_a_rank_may_hold_several_owners(tables):
    alone = own(tables, "days", categories=["ward"])
    mine = [tables[:2], tables[2:]]
    two = together(2, lambda ranks: own(mine[ranks.me], "days", categories=["ward"], engine=OnThreads(ranks)))
    np.testing.assert_array_equal(np.concatenate([each.shards.features for each in two]), alone.shards.features)
    uneven = [tables[:1], tables[1:]]
    told = together(2, lambda ranks: errors_of_one(ranks, uneven[ranks.me]))
    assert told[0] == told[1]
    assert "data must be 2 tables on this rank, as owners are dealt; got 1 on rank 0 of 2" in told[0]


def errors_of_one(ranks, table):
    with pytest.raises(ValueError, match="data must be") as error:
        own(table, "days", categories=["ward"], engine=OnThreads(ranks))
    return str(error.value)


def test_classes_are_those_of_all_owners(tables):
    kinds = [["a", "b"], ["c"], ["b"], ["a", "c"]]
    frames = [table[["age"]].assign(kind=np.resize(kind, len(table))) for table, kind in zip(tables, kinds, strict=True)]
    for owned in (own(frames, "kind"), *on_ranks(frames, "kind")):
        assert owned.pipeline.classes == owned.shards.classes == ("a", "b", "c")
        for row, owner in enumerate(owned.shards.rows):
            codes = owned.shards.targets[row, : owners.SIZES[owner], 0].astype(int)
            assert [owned.pipeline.classes[code] for code in codes] == frames[owner].kind.tolist()
    numbers = [frame.assign(kind=frame.kind.map({"a": 10, "b": 9, "c": 2})) for frame in frames]
    assert own(numbers, "kind", classification=True).pipeline.classes == (2, 9, 10)
    one = [frame.assign(kind="a") for frame in frames]
    with pytest.raises(ValueError, match="'kind' must have at least 2 classes; all owners have only 'a'"):
        own(one, "kind")
    both = [numbers[0], *frames[1:]]
    with pytest.raises(ValueError, match="classes of 'kind' must be all text or all numbers"):
        own(both, "kind", classification=True)


def test_scalers_are_stable_far_from_zero():
    rng = np.random.default_rng(1)
    parts = [1e9 + rng.standard_normal((size, 1)) for size in (50_000, 11, 3_000)]
    tables = [pd.DataFrame({"x": part[:, 0], "y": part[:, 0]}) for part in parts]
    pipeline, everything = own(tables, "y").pipeline, np.concatenate(parts)[:, 0] - 1e9
    np.testing.assert_allclose(pipeline.scale[0], everything.std(), rtol=1e-12)  # a sum of squares alone has no digit here
    np.testing.assert_allclose(pipeline.mean[0] - 1e9, everything.mean(), atol=3e-7)


def test_what_is_revealed_is_printed_before_it_is_sent_and_counted(tables, capsys):
    class Recording(OnThreads):
        def __init__(self, ranks, sent):
            super().__init__(ranks)
            self.sent = sent

        def allgather(self, items):
            self.sent.append((capsys.readouterr().out if not self.sent and self.ranks.me == 0 else "", list(items)))
            return super().allgather(items)

    sent = [[] for _ in tables]
    owned = together(
        4, lambda ranks: own(tables[ranks.me], "days", categories=["ward"], engine=Recording(ranks, sent[ranks.me]))
    )[0]
    assert "consensus.data.own sends to all other owners, who learn what each one sends:" in sent[0][0][0]
    assert owned.revealed.exchange.tolist() == [
        "columns", "kinds", "categories of 'ward'", "rows", "sums of features", "squares of features", "sums of the target",
        "squares of the target",
    ]  # fmt: skip
    assert owned.revealed.numbers.tolist() == [24, 32, 9, 8, 28, 28, 4, 4]
    largest = max(item.size for own_sent in sent for _, items in own_sent for item in items if isinstance(item, np.ndarray))
    assert largest == 7, "no owner sends more numbers at once than there are columns, whatever its rows"
    assert len(sent[0]) == 1 + len(owned.revealed)


def test_new_tables_become_inputs_as_the_old_ones(tables, tmp_path):
    owned = own(tables, "days", categories=["ward"])
    pipeline, paths = owned.pipeline, owners.write(tmp_path)
    for frame in (tables[1], tables[1].drop(columns="days"), paths[1]):
        np.testing.assert_array_equal(pipeline.transform(frame), owned.shards.features[1, : owners.SIZES[1]])
    for frame in (tables[1], paths[1]):
        np.testing.assert_array_equal(pipeline.targets(frame), owned.shards.targets[1, : owners.SIZES[1]])
    np.testing.assert_allclose(pipeline.original(pipeline.targets(tables[1])), tables[1].days, rtol=1e-14)
    for frame, error in (
        (tables[1].assign(ward="D"), "must be one of 'A', 'B', 'C'; in row 0"),
        (tables[1].drop(columns="age"), "missing: 'age'"),
        (tables[1].assign(age=np.inf), "data must be finite; 'age' is inf in row 0"),
        (None, "data must be a data frame with the columns .*, or its file; got None"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            pipeline.transform(frame)
    with pytest.raises(ValueError, match="data must have the column 'days' once"):
        pipeline.targets(tables[1].drop(columns="days"))


PADDED = """
import numpy as np

import consensus
from consensus.data.shards import padded


def resident():  # bytes of the process's own memory: pages of files come and go as the system likes
    with open("/proc/self/status") as file:
        sizes = dict(line.split(":") for line in file)
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "VmSwap")) * 1024


def shards_beside(most):
    part = np.ones((5, 3)), np.ones((5, 1)), np.arange(5)
    arrays = padded([part], [5], *part[:2], most)
    shards = consensus.Shards(**arrays | {"rows": np.array([0]), "network_size": 2, "samples": most + 5})
    consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards).gradient(np.zeros((1, 4)))
    return shards


shards_beside(10)  # imports what it needs
before = resident()
shards = shards_beside(5_000_000)
print(resident() - before, shards.features.nbytes + shards.targets.nbytes + shards.weights.nbytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads resident memory where Linux has it")
def test_padding_to_a_large_owner_elsewhere_takes_no_memory():
    """An owner of 5 rows beside one of 5 million: what its rank touches, of 200 MB of features, targets and weights."""
    run = [sys.executable, "-c", PADDED]  # by itself: threads of other tests take memory, too
    done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=100, env=environment())
    taken, padding = map(int, done.stdout.split())
    assert padding == 200_000_000
    assert taken < 50_000_000, f"{taken / 1e6:.0f} MB: the indices, 8 bytes a sample, and little else"


def test_owners_reach_consensus_on_a_topology(tables):
    owned = own(tables, "days", categories=["ward"])
    problem = consensus.Problem(consensus.Linear(7), consensus.SquaredLoss(), owned.shards, consensus.L2(1e-2))
    result = consensus.solve(problem, topologies.ring(4), rounds=60)
    outputs = problem.model.predict(result.mean, owned.pipeline.transform(tables[0]))
    error = owned.pipeline.original(outputs) - tables[0].days
    assert float(np.sqrt((error**2).mean())) < 0.7, "the noise has a deviation of 0.5"


def test_each_owner_draws_its_own_test_rows():
    table = pd.DataFrame({"age": np.arange(30.0), "days": np.arange(30.0) % 7})
    owned = own([table, table.copy()], "days", test_size=0.3)
    ages = [np.sort(owned.test.features[agent, :, 0]).tolist() for agent in range(2)]
    assert ages[0] != ages[1]
    again, other = (own([table, table.copy()], "days", test_size=0.3, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.test.features, owned.test.features)
    assert not np.array_equal(other.test.features, owned.test.features)


def test_scales_are_those_of_the_training_rows_of_all_owners():
    rng = np.random.default_rng(4)
    tables = [pd.DataFrame({"age": rng.normal(k, k + 1, 20), "days": rng.normal(size=20)}) for k in range(3)]
    owned = own(tables, "days", test_size=0.4)
    rows = np.concatenate([part[:size] for part, size in zip(owned.shards.features, owned.shards.sizes, strict=True)])
    assert abs(rows.mean()) < 1e-12
    assert rows.std() == pytest.approx(1, abs=1e-12)
    ages = np.concatenate([table.age for table in tables])
    assert abs(owned.pipeline.mean[0] - ages.mean()) > 1e-3


def test_test_sets_have_a_row_at_least_and_none_without_weight():
    table = pd.DataFrame({"age": np.arange(8.0), "days": np.arange(8.0) % 3, "c": [1.0, 0, 2, 0, 3, 0, 4, 0]})
    small = own([table, table], "days", test_size=0.01, drop=["c"])
    assert small.test.sizes.tolist() == [1, 1]
    assert small.shards.sizes.tolist() == [7, 7]
    owned = own([table, table], "days", test_size=0.5, weights="c", seed=3)
    for shards in (owned.shards, owned.test):
        assert (shards.weights[shards.weights > 0]).all()
        real = shards.weights > 0
        assert real.sum(axis=1).tolist() == shards.sizes.tolist()
    kept = np.concatenate([(part.features[part.weights > 0]).ravel() for part in (owned.shards, owned.test)])
    assert len(kept) == 8  # four of each owner
    given = {float(age): c for age, c in zip(table.age, table.c, strict=True)}
    mean, scale = owned.pipeline.mean[0], owned.pipeline.scale[0]
    for shards in (owned.shards, owned.test):
        total = sum(given[float(np.round(x * scale + mean))] for x in shards.features[shards.weights > 0].ravel())
        assert shards.total_weight == pytest.approx(total, rel=1e-12)


# Categories that say too much of an owner's rows are warned of before anything is sent.


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is UserWarning]


@pytest.mark.parametrize("made", [
    lambda rows: [f"P-{row}" for row in range(rows)],
    lambda rows: np.arange(rows) + 40_000,  # numbers that are named in categories
    lambda rows: [f"visitor {row // 2}" for row in range(rows)],  # two rows each
    lambda rows: ["none"] * (rows // 3) + [f"note {row}" for row in range(rows - rows // 3)],
])  # fmt: skip
def test_a_column_that_nearly_identifies_rows_is_warned_of(tables, made):
    tables[1]["patient"] = made(len(tables[1]))
    others = [table.assign(patient=np.resize(["u", "v"], len(table))) for table in tables]
    tables = [others[0], tables[1], *others[2:]]
    said = warned(lambda: own(tables, "days", categories=["ward", "patient"]))
    different = tables[1].patient.nunique()
    expected = (
        f"the column 'patient' of data[1] nearly identifies rows: it has {different} different texts in {len(tables[1])} rows"
    )
    assert [text for text in said if text.startswith(expected)]
    assert all("drop=['patient'] leaves it out" in text for text in said if "identifies" in text)
    dropped = warned(lambda: own(tables, "days", categories=["ward"], drop=["patient"]))  # the remedy
    assert not [text for text in dropped if "patient" in text]


def test_texts_of_one_row_and_of_one_owner_are_warned_of(tables):
    said = warned(lambda: own(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("in the column 'ward' 'C' occurs at owner 2 alone")]
    tables[0].loc[4, "ward"] = "isolation"
    said = warned(lambda: own(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("the column 'ward' of data[0] has texts of one row each, 'isolation'")]
    assert [text for text in said if text.startswith("in the column 'ward' 'isolation' occurs at owner 0 alone")]


def test_classes_of_one_owner_are_warned_of():
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"age": rng.normal(size=12), "ill": ["flu", "none"] * 6}) for _ in range(3)]
    assert not warned(lambda: own(tables, "ill"))
    tables[2].loc[[3, 4], "ill"] = "plague"
    assert [text[:55] for text in warned(lambda: own(tables, "ill"))] == [
        "in the target 'ill' 'plague' occurs at owner 2 alone, s"
    ]
    tables[2].loc[4, "ill"] = "flu"
    assert "the target of data[2] has texts of one row each, 'plague'" in warned(lambda: own(tables, "ill"))[0]


def test_ordinary_categories_are_not_warned_of(tables):
    common = [table.assign(ward=np.resize(["A", "B", "C"], len(table))) for table in tables]
    assert not warned(lambda: own(common, "days", categories=["ward"]))


def test_the_warning_comes_before_anything_is_sent(tables):
    """Who makes warnings errors sends names of columns, and no text of a category; others hear that the table is rejected."""
    tables[1]["ward"] = [f"P-{row}" for row in range(len(tables[1]))]
    heard = []

    class Listening(OnThreads):
        def allgather(self, items):
            heard.append(repr(items := list(items)))
            return super().allgather(items)

    def told(ranks):
        with pytest.raises((ValueError, UserWarning), match=r"owner 1 is rejected there|nearly identifies rows") as caught:
            own(tables[ranks.me], "days", categories=["ward"], engine=Listening(ranks))
        return str(caught.value)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        said = together(4, told)
    assert not any("P-" in text for text in [*heard, *said])
    assert said[0] == "the table of owner 1 is rejected there: its own process says why"


def test_on_ranks_an_owner_is_warned_of_its_own_table(tables):
    tables[1]["ward"] = [f"P-{row}" for row in range(len(tables[1]))]
    said = warned(lambda: on_ranks(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("the column 'ward' of data nearly identifies rows")]


def test_the_remedy_of_texts_is_not_to_send_them():
    frame = pd.DataFrame({"name": ["Ada", "Ole", "Eva", "Kim"], "days": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ValueError, match=r"4 different texts in 4 rows: .*leaves it out") as caught:
        own([frame], "days")
    assert "categories=" not in str(caught.value)
    assert "'category'" not in str(caught.value)


# What owners cannot agree on is refused by name on all; what is wrong in a table is told to its owner alone.


def test_a_missing_column_is_refused_by_name_on_all(tables):
    tables[2] = tables[2].drop(columns="smokes")
    tables[1] = tables[1].assign(weight=70.0)
    told = errors_of(tables, "days", categories=["ward"])
    words = "all 4 owners must have the same columns: 'smokes' is missing at owner 2; 'weight' is missing at owners 0, 2, 3"
    assert told == [f"ValueError: {words}"] * 4
    with pytest.raises(ValueError, match=words):
        own(tables, "days", categories=["ward"])


def test_a_missing_target_or_category_is_refused_by_name_on_all(tables):
    for name in ("days", "ward"):
        broken = [*tables[:3], tables[3].drop(columns=name)]
        told = errors_of(broken, "days", categories=["ward"])
        assert told == [f"ValueError: all 4 owners must have the same columns: {name!r} is missing at owner 3"] * 4


def test_what_is_wrong_in_a_table_is_told_to_its_owner_alone(tables):
    tables[1] = tables[1].assign(age=["Ole Nordmann", *tables[1].age.tolist()[1:]])
    told = errors_of(tables, "days", categories=["ward"])
    assert "'age' ('...' in row 0, among 24 numbers" in told[1]  # an owner finds it there; others may read what ranks print
    with pytest.raises(ValueError, match=r"'age' \('Ole Nordmann' in row 0, among 24 numbers"):
        own([tables[1]], "days", categories=["ward"])
    assert {*told[:1], *told[2:]} == {"ValueError: the table of owner 1 is rejected there: its own process says why"}
    tables[1] = "nowhere.csv"
    told = errors_of(tables, "days", categories=["ward"])
    assert told[1] == "FileNotFoundError: data must be a file that exists; got 'nowhere.csv'"
    assert "nowhere" not in told[0]


SECRET = "Ole Nordmann, 030251"


@pytest.mark.parametrize("spoil", [
    lambda table: table.assign(age=[SECRET, *table.age.tolist()[1:]]),
    lambda table: table.assign(age=[f"{SECRET}-{row}" for row in range(len(table))]),
    lambda table: table.assign(days=[SECRET, *table.days.tolist()[1:]]),
    lambda table: table.assign(age=table.age.map(lambda age: f"{age} {SECRET} and much more that messages cut off")),
])  # fmt: skip
@pytest.mark.parametrize("file", [False, True])
def test_no_error_on_ranks_shows_a_cell(tables, spoil, file, tmp_path):
    tables[1] = spoil(tables[1])
    if file:
        tables[1].to_csv(tmp_path / "own.csv", index=False)
        tables[1] = str(tmp_path / "own.csv")
    told = errors_of(tables, "days", categories=["ward"])
    assert all(told)
    assert not any("Nordmann" in text or "0302" in text for text in told)


def test_an_unreadable_file_is_told_without_its_lines(tables, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(f"age,ward,days\n3,A,4\n{SECRET},A,4,5\n")
    tables[1] = str(path)
    told = errors_of(tables, "days", categories=["ward"])
    assert "Nordmann" not in "".join(told)
    assert "in a process without ranks, says why" in told[1]
    with pytest.raises(ValueError, match="line"):  # the remedy
        own([str(path)], "days", categories=["ward"])


def test_kinds_that_differ_are_refused_by_name_on_all(tables):
    coded = [table.assign(ward=table.ward.map({"A": 0, "B": 1, "C": 2})) for table in tables]
    mixed = [tables[0].astype({"ward": "category"}), *coded[1:]]
    told = errors_of(mixed, "days")
    words = "column 'ward' is categories at some owners, and numbers at owners 1, 2, 3: name it in categories at all of them"
    assert told == [f"ValueError: {words}"] * 4
    mixed = [*coded[:3], coded[3].assign(days=coded[3].days.map({day: f"d{day}" for day in coded[3].days}))]
    told = errors_of(mixed, "days")
    assert told[0] == (
        "ValueError: the target 'days' must be classes or numbers at all owners; got 'numbers' at owners 0, 1, 2, 'classes' at "
        "owner 3: classification=True makes them classes"
    )
    told = together(4, lambda ranks: errors_of_target(ranks, coded[ranks.me], ["days", "age", "days", "days"][ranks.me]))
    assert "target must be the same column at all owners; got 'days' at owners 0, 2, 3, 'age' at owner 1" in told[0]
    assert len(set(told)) == 1


def errors_of_target(ranks, table, target):
    with pytest.raises(ValueError, match="target") as error:
        own(table, target, engine=OnThreads(ranks))
    return str(error.value)


@pytest.mark.parametrize(("data", "settings", "error"), [
    ([], {}, "data must be a table, or a list of tables with one for each owner; got none"),
    (3, {}, "data must be a data frame, or the path of a file; got 3"),
    ("a.npz", {},
     r"data must be a file that ends in .csv, .tsv, .txt, .data, .parquet, .feather, .svm, .svmlight, .*; got 'a.npz'"),
    (pd.DataFrame({"days": []}), {}, "data has no rows"),
    (pd.DataFrame({"days": [1.0, 2.0]}), {}, "data has no features besides the target"),
    (pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "days"]), {}, "columns of data must have names of their own"),
    (pd.DataFrame({"a": [1.0, np.nan], "days": 1.0}), {}, r"data has missing values in 'a' \(1\) of 2 rows"),
    (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"categories": "a"}, "categories must be a list of columns"),
    (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"classification": 1.5}, "classification must be one of"),
    (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"engine": "mpi"}, "engine must be an engine, such as"),
])  # fmt: skip
def test_bad_arguments_are_named(data, settings, error):
    with pytest.raises((ValueError, TypeError), match=error):
        own(data, "days", **settings)
