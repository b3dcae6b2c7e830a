"""Sparse features of linear models: the results of dense ones, and nothing that is ever made dense."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import consensus
import topologies
from consensus._arrays.sparse import SparseRows
from consensus.data import LazyShards, load_shards, own, save_shards
from consensus.datasets import folds, load, split
from consensus.local import CVXPYSolver, Exact
from consensus.privacy import Private
from consensus.problems import LazyProblem
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.every_solver import OTHERWISE, SOLVERS
from tests.helpers.owners_on_threads import OnThreads, on_ranks
from tests.helpers.ranks_on_threads import together
from tests.helpers.refusals import refusals
from tests.helpers.turns import with_slow

RNG = np.random.default_rng(0)
X = sp.coo_array(sp.random_array((60, 9), density=0.3, random_state=RNG).toarray())  # with indices of 32 bits
D = X.toarray()
Y, CODES, BINARY = RNG.standard_normal(60), RNG.integers(0, 3, 60), (RNG.random(60) > 0.5).astype(float)
SIZES = [10, 25, 5, 20]
RING = topologies.ring(4)
TABLE = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
LOSSES = {
    "squared": (consensus.SquaredLoss(), 1, Y),
    "logistic": (consensus.LogisticLoss(), 1, BINARY),
    "cross entropy": (consensus.CrossEntropy(), 3, CODES),
    "Huber": (consensus.Huber(), 1, Y),
}
LOCAL = {
    name for name, solver in SOLVERS.items() if "PartialLinearization" in repr(solver)
}  # inner solves to 1e-8 of a residual
LOCAL |= {"DADMM", "NewtonTracking"}


def problem(features, loss="squared", bias=True, regularizer=None, **given):
    kind, outputs, y = LOSSES[loss]
    shards = consensus.partition(features, y, agents=4, scheme="sizes", sizes=SIZES, **given)
    r = consensus.L2(0.1) if regularizer is None else regularizer
    return consensus.Problem(consensus.Linear(9, outputs=outputs, bias=bias), kind, shards, r)


def close(found, right, tolerance=1e-12):
    assert_allclose(found, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_costs_gradients_and_bounds_are_those_of_dense_features(loss, bias):
    sparse, dense = problem(X, loss, bias), problem(D, loss, bias)
    w = RNG.standard_normal((4, dense.parameters))
    batch = consensus.Minibatches(4).at(dense, 3)
    close(sparse.value(w), dense.value(w))
    for found, right in zip(sparse.value_and_gradient(w), dense.value_and_gradient(w), strict=True):
        close(found, right)
    close(sparse.gradient(w, batch), dense.gradient(w, batch))
    close(sparse.sampled(batch).value(w), dense.sampled(batch).value(w))
    close(sparse.average_gradient(w), dense.average_gradient(w))
    close(sparse.descended(w, 0.3, w, batch), dense.descended(w, 0.3, w, batch))
    close(sparse.lipschitz(), dense.lipschitz())
    rows, right = sparse.linearize(w, slice(1, 3)), dense.linearize(w, slice(1, 3))
    v, weights = RNG.standard_normal((2, dense.parameters)), RNG.random((2, 25, dense.model.outputs))
    close(rows[1].jvp(v), right[1].jvp(v))
    close(rows[1].vjp(weights), right[1].vjp(weights))
    close(rows[1].jvp(np.stack([v, 2 * v], axis=1)), right[1].jvp(np.stack([v, 2 * v], axis=1)))
    close(rows[1].vjp(np.stack([weights, -weights], axis=1)), right[1].vjp(np.stack([weights, -weights], axis=1)))
    weights[0, 10:] = 0  # no curvature on padding
    close(rows[1].diagonal(weights), right[1].diagonal(weights))


@pytest.mark.slow
def test_least_and_largest_curvature_whatever_their_order():
    wide = sp.random_array((1300, 1200), density=0.01, random_state=RNG, format="csr")
    for features, m in ((wide, 1200), (wide[:, :700], 700)):
        shards = consensus.partition(features, np.arange(features.shape[0]) % 2.0, agents=1)
        sparse = consensus.Problem(consensus.Linear(m, bias=False), consensus.SquaredLoss(), shards, reduction="sum")
        singular = np.linalg.svd(features.toarray(), compute_uv=False)
        assert_allclose(sparse.lipschitz(), singular[0] ** 2, rtol=1e-10)
    assert_allclose(sparse.strong_convexity(), singular[-1] ** 2, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", with_slow(SOLVERS, *OTHERWISE))
def test_every_solver_runs_as_on_dense_features_or_is_refused(name):
    network = {
        "attacked": topologies.complete(4),
        "DAPG": topologies.Static(RING, weights=topologies.lazy(topologies.metropolis)),
    }.get(name, RING)
    sparse, dense = problem(X), problem(D)
    try:
        right = consensus.solve(dense, network, SOLVERS[name], rounds=5, record_every=5)
    except ValueError as error:  # such as low ranks of a column
        assert "LowRank" in str(error) or name == "D2"  # noqa: PT017
        return
    if "Blocks" in repr(SOLVERS[name]):
        with pytest.raises(TypeError, match=r"needs SparseLinear\.jacobian, which is missing: use the surrogate unsplit"):
            consensus.solve(sparse, network, SOLVERS[name], rounds=5)
        return
    found = consensus.solve(sparse, network, SOLVERS[name], rounds=5, record_every=5)
    close(found.w, right.w, 1e-7 if name in LOCAL else 1e-12)


@pytest.mark.parametrize("solver", [
    NEXT(FullLinearization(5.0), 0.2),
    *(pytest.param(solver, marks=pytest.mark.slow) for solver in (None, NEXT(PartialLinearization(0.5), 0.2))),
])  # fmt: skip
def test_nonsmooth_regularizers(solver):
    runs = [
        consensus.solve(
            problem(features, "logistic", regularizer=consensus.L1(0.01)), RING, solver, rounds=100, record_every=100
        )
        for features in (X, D)
    ]
    close(runs[0].w, runs[1].w, 1e-6)


@pytest.mark.parametrize("engine", ["stacked", "processes"])
def test_engines_have_equal_bits(engine, forked):
    sparse, dense = problem(X, "logistic"), problem(D, "logistic")
    options = {"rounds": 6, "record_every": 3, "metrics_on": 4}
    found = consensus.solve(sparse, RING, DGD(0.1, batch=3), engine=engine, test=(X, BINARY), **options)
    stacked = consensus.solve(sparse, RING, DGD(0.1, batch=3), test=(X.tocsc(), BINARY), **options)
    right = consensus.solve(dense, RING, DGD(0.1, batch=3), test=(D, BINARY), **options)
    assert_array_equal(found.w, stacked.w)
    for column in ("objective", "stationarity", "test_error"):
        assert_array_equal(found.history[column], stacked.history[column])
        close(found.history[column], right.history[column])


def test_checkpoints_know_sparse_data(tmp_path):
    run = (RING, GradientTracking(0.1))
    whole = consensus.solve(problem(X), *run, rounds=6, record_every=2)
    consensus.solve(problem(X), *run, rounds=4, record_every=2, checkpoint=tmp_path / "run")
    assert_array_equal(consensus.solve(problem(X), *run, rounds=6, record_every=2, resume=tmp_path / "run").w, whole.w)
    other = X.tocsr()
    other.data[0] += 1
    with pytest.raises(ValueError, match="data"):
        consensus.solve(problem(other), *run, rounds=6, record_every=2, resume=tmp_path / "run")


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array])
def test_all_formats_and_dtypes_are_taken(kind):
    w = RNG.standard_normal((4, 10))
    close(problem(kind(D)).gradient(w), problem(D).gradient(w))
    assert problem(kind(D.astype(np.float32))).dtype == np.float32
    whole = (D > 0.5).astype(np.int8)
    close(problem(kind(whole)).gradient(w), problem(whole).gradient(w), 1e-6)
    close(consensus.Linear(9).predict(w[0], kind(D)), consensus.Linear(9).predict(w[0], D))


def test_stored_zeros_and_duplicates_count_as_what_they_mean():
    doubled = sp.csr_array(([1.0, 2.0, 0.0], [3, 3, 5], [0, 3]), shape=(1, 9))
    shards = consensus.partition(sp.vstack([doubled, sp.csr_array((1, 9))]), [1.0, 2.0], agents=1, scheme="sizes", sizes=[2])
    assert shards.features.matrix.nnz == 1
    assert sorted(shards.features.matrix.data.tolist()) == [3.0]


def test_lists_weights_and_groups():
    rows = X.tocsr()
    parts = [(rows[:20], Y[:20], np.arange(20.0)), (rows[20:], Y[20:])]
    dense = [(D[:20], Y[:20], np.arange(20.0)), (D[20:], Y[20:])]
    w = RNG.standard_normal((2, 10))
    made = [
        consensus.Problem(consensus.Linear(9), consensus.SquaredLoss(), consensus.Shards.from_list(p)) for p in (parts, dense)
    ]
    close(made[0].gradient(w), made[1].gradient(w))
    groups, weights = np.array(["a", "b", "c"])[np.arange(60) % 3], RNG.random(60)
    shards = [consensus.partition(features, Y, groups=groups, sample_weight=weights) for features in (X, D)]
    assert_array_equal(shards[0].indices, shards[1].indices)
    assert_array_equal(shards[0].features.of_agent(1).toarray(), shards[1].features[1])
    assert shards[0].restrict([2]).features.shape == (1, 20, 9)


def test_folders_of_shards(tmp_path):
    sparse = problem(X, sample_weight=1 + RNG.random(60))
    save_shards(sparse.shards, tmp_path)
    again = load_shards(tmp_path)
    assert_array_equal(again.features.matrix.toarray(), sparse.shards.features.matrix.toarray())
    assert consensus.Problem(consensus.Linear(9), consensus.SquaredLoss(), again).digests() == sparse.digests()
    assert load_shards(tmp_path, agents=[3]).features.shape == (1, 25, 9)
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps(index | {"sparse": 3}))
    with pytest.raises(ValueError, match="must hold sparse features whose columns rise in each row, below 3"):
        load_shards(tmp_path)


def test_splits_scale_without_centring():
    parts = split(X, BINARY.astype(int), classification=True, seed=1)
    dense = split(D, BINARY.astype(int), classification=True, seed=1)
    rows = np.flatnonzero([(row == D).all(axis=1).any() for row in D])
    assert len(rows) == 60
    assert sp.issparse(parts.X)
    scale = StandardScaler(with_mean=False).fit(dense.X_scaler.inverse_transform(dense.X)).scale_
    assert_allclose(parts.X_scaler.scale_, scale, rtol=1e-12)
    assert_allclose(parts.X_test.toarray(), dense.X_scaler.inverse_transform(dense.X_test) / scale, atol=1e-12)
    assert [sp.issparse(fold.X_test) for fold in folds(X, Y, 3)] == [True] * 3
    frame = consensus.partition(parts.X, parts.y, agents=3)
    logistic = consensus.Problem(consensus.Linear(9), consensus.LogisticLoss(), frame)
    result = consensus.solve(logistic, topologies.ring(3), rounds=3)
    predictor = result.predictor(parts.pipeline)
    assert_allclose(predictor.outputs(X), predictor.outputs(D), rtol=1e-12)
    with pytest.raises(TypeError, match=r"data must be dense.*data\.toarray\(\)"):
        result.predictor(dense.pipeline).predict(X)


def test_predictors_are_saved_and_predict_from_any_format(tmp_path):
    parts = split(X, Y)
    shards = consensus.partition(parts.X, parts.y, agents=4)
    linear = consensus.Problem(consensus.Linear(9), consensus.SquaredLoss(), shards)
    predictor = consensus.solve(linear, RING, rounds=3).predictor(parts.pipeline)
    predictor.save(tmp_path / "linear.predictor")
    again = consensus.load(tmp_path / "linear.predictor")
    assert_array_equal(again.predict(X.tocsc()), predictor.predict(X.tocsr()))
    assert_allclose(again.predict(X), predictor.predict(D), rtol=1e-12)
    with pytest.raises(ValueError, match=r"data must have shape \(samples, 9\)"):
        again.predict(X.tocsr()[:, :5])


def test_models_that_need_dense_features_take_what_the_message_says():
    with pytest.raises(TypeError, match=r"X\.toarray\(\), which takes .* MB, or take consensus\.Linear\(9\)"):
        consensus.Problem(consensus.MLP([9, 3, 1]), consensus.SquaredLoss(), problem(X).shards)
    shards = consensus.partition(X.toarray(), Y, agents=4)
    assert consensus.Problem(consensus.MLP([9, 3, 1]), consensus.SquaredLoss(), shards).agents == 4
    with pytest.raises(TypeError, match="X of test must be dense"):
        consensus.solve(
            consensus.Problem(consensus.MLP([9, 3, 1]), consensus.SquaredLoss(), shards), RING, DGD(0.1), rounds=1, test=(X, Y)
        )
    lazy = LazyProblem(consensus.Linear(9), consensus.SquaredLoss(), LazyShards.from_list([(D, Y)] * 4))
    found, right = (consensus.solve(lazy, RING, DGD(0.1), rounds=2, test=(features, Y)) for features in (X, D))
    close(found.history["test_error"], right.history["test_error"])


LARGE = """
import re, sys, resource, numpy as np, scipy.sparse as sp, consensus, topologies
from sklearn.datasets import dump_svmlight_file
samples, features, stored = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_AS, (12 << 30,) * 2)  # an array of the dense size is an error, whether it is used or not
rng = np.random.default_rng(0)
columns = np.sort(rng.integers(0, features, (samples, stored), np.int32), axis=1).ravel()
rows = np.arange(samples + 1, dtype=np.int32) * stored
X = sp.csr_array((rng.standard_normal(samples * stored), columns, rows), shape=(samples, features))
y = rng.integers(0, 2, samples)
files = [sys.argv[1] + f"/{owner}.svm" for owner in (0, 1)]
for owner in (0, 1):
    dump_svmlight_file(X[owner::2], y[owner::2], files[owner], zero_based=False)
solver = consensus.solvers.GradientTracking(0.1, batch=16)

def run(shards, test, pipeline, solver=solver):
    problem = consensus.Problem(consensus.Linear(features), consensus.LogisticLoss(), shards, consensus.L2(1e-3))
    result = consensus.solve(problem, topologies.complete(2), solver, rounds=2, test=test, record_every=2)
    result.predictor(pipeline).predict(X[:100])
    return problem

parts = consensus.datasets.split(X.astype(np.float32), y, classification=True)
problem = run(consensus.partition(parts.X, parts.y, agents=2), (parts.X_test, parts.y_test), parts.pipeline)
problem.lipschitz()
del problem
owned = consensus.data.own(files, classification=True, features=features, test_size=0.2)
run(owned.shards, owned.test, owned.pipeline, consensus.privacy.Private(consensus.solvers.DGD(0.1, batch=16), 1.0, 0.1))
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("shape", "most"), [
    pytest.param((500, 400_000, 20), 0.8, marks=pytest.mark.slow),  # 1.6 GB if dense
    pytest.param((2_000, 20_000_000, 50), 6.0, marks=pytest.mark.slow),  # 320 GB, of which both agents' parameters take 0.3
])  # fmt: skip
def test_nothing_is_made_dense(shape, most, tmp_path):
    command = [sys.executable, "-c", LARGE, tmp_path, *map(str, shape)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout.splitlines()[-1]) < most  # GB


def test_the_rows_of_a_block():
    rows = SparseRows.filled([X.tocsr()[:5], X.tocsr()[5:14]], 9)
    dense = np.zeros((2, 9, 9))
    dense[0, :5], dense[1] = D[:5], D[5:14]
    W, U = RNG.standard_normal((2, 9, 3)), RNG.standard_normal((2, 4, 9, 3))
    places = np.array([[0, 4, 8], [2, 2, 1]])
    assert rows.shape == dense.shape
    close(rows @ W, dense @ W)
    close(rows.swapaxes(1, 2) @ W, dense.swapaxes(1, 2) @ W)
    close(rows[:, None] @ U, dense[:, None] @ U)
    close(rows[1:2] @ W, dense[1:2] @ W)
    close(rows[:, 2:7] @ W, dense[:, 2:7] @ W)
    close(rows[[1, 0]] @ W, dense[[1, 0]] @ W)
    close(rows.norms(), np.linalg.norm(dense, axis=2))
    out = np.zeros((2, 9, 3), np.float32)
    assert np.matmul(rows.swapaxes(1, 2), W, out=out) is out
    close(out, dense.swapaxes(1, 2) @ W, 1e-6)
    for wrong in (lambda: dense @ rows, lambda: np.multiply(rows, 2), lambda: np.add.reduce(rows), lambda: np.isnan(rows)):
        with pytest.raises(TypeError):
            wrong()
    close(rows.taken(places) @ W, np.stack([dense[agent, own] for agent, own in enumerate(places)]) @ W)
    close(rows.apart() @ np.repeat(W, 9, axis=0), (dense @ W).reshape(18, 1, 3))


def svmlight(**settings):
    text = io.BytesIO()
    dump_svmlight_file(X.tocsr(), 2 * BINARY - 1, text, zero_based=False, **settings)
    return text.getvalue()


@pytest.mark.parametrize(
    ("name", "opener"), [("a.svm", open), ("a.svmlight.gz", gzip.open), ("a.LIBSVM.bz2", bz2.open), ("a.svm.xz", lzma.open)]
)
def test_files_of_svmlight(tmp_path, name, opener):
    with opener(tmp_path / name, "wb") as file:
        file.write(svmlight())
    data = load(tmp_path / name)
    right, y = load_svmlight_file(io.BytesIO(svmlight()))
    assert_array_equal(data.X.toarray(), right.toarray())
    assert_array_equal(data.y, y)
    assert data.classes is None
    data = load(tmp_path / name, classification=True, features=12)
    assert data.X.shape == (60, 12)
    assert data.classes == (-1, 1)
    assert_array_equal(data.y, BINARY)
    parts = split(data)
    logistic = consensus.Problem(
        consensus.Linear(12), consensus.LogisticLoss(), consensus.partition(parts.X, parts.y, agents=4)
    )
    predicted = consensus.solve(logistic, RING, rounds=2).predictor(parts.pipeline).predict(data.X)
    assert set(predicted.tolist()) <= {-1, 1}


def test_groups_of_svmlight(tmp_path):
    (tmp_path / "a.svm").write_bytes(svmlight(query_id=np.arange(60) // 20))
    data = load(tmp_path / "a.svm", groups="qid")
    assert_array_equal(data.groups, np.arange(60) // 20)
    assert consensus.partition(data).sizes.tolist() == [20, 20, 20]
    with pytest.warns(UserWarning, match="groups='qid' reads it"):
        load(tmp_path / "a.svm")


@pytest.mark.parametrize(("text", "given", "message"), [
    ("1 1:2\n1 1:2 3:x\n", {}, "line 2 of .*index:value.*got '3:x'"),
    ("yes 1:2\n", {}, "line 1 of .*begin with a finite number, the target; got 'yes'"),
    ("1,2 1:2\n", {}, "line 1 of .*labels 1,2"),
    ("1 3:1 2:1\n", {}, "indices that rise.*got '2:1'"),
    ("1 1:nan\n", {}, "finite values; got '1:nan'"),
    ("# nothing\n", {}, "at least one sample"),
    ("1\n0\n", {}, "features= their number"),
    ("1 5:2\n", {"features": 3}, "features of .*at least 5"),
    ("1 5:2\n", {"sep": ";"}, "takes classification, features .* got sep=';'"),
    ("1 5:2\n", {"groups": "qid"}, "has none: leave groups out"),
    ("1 5:2\n", {"groups": "patient"}, "must be 'qid'"),
])  # fmt: skip
def test_wrong_files_of_svmlight(tmp_path, text, given, message):
    (tmp_path / "a.svm").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a.svm", **given)
    for suffix in (".gz", ".bz2", ".xz"):
        (tmp_path / f"a.svm{suffix}").write_bytes(b"no archive")
        with pytest.raises(ValueError, match="cannot be unpacked"):
            load(tmp_path / f"a.svm{suffix}")
    with pytest.raises(FileNotFoundError, match="name must be a file that exists"):
        load(tmp_path / "b.svm")


def test_indices_from_zero_are_said(tmp_path):
    (tmp_path / "a.svm").write_text("1 0:2 3:1\n")
    with pytest.warns(UserWarning, match="counted from 0"):
        assert load(tmp_path / "a.svm").X.toarray().tolist() == [[2.0, 0.0, 0.0, 1.0]]


@pytest.fixture
def files(tmp_path):
    """Three owners' files, of 20, 25 and 15 rows."""
    for owner, rows in enumerate((slice(20), slice(20, 45), slice(45, 60))):
        dump_svmlight_file(X.tocsr()[rows], 2 * BINARY[rows] - 1, str(tmp_path / f"{owner}.svm"), zero_based=False)
    return [str(tmp_path / f"{owner}.svm") for owner in range(3)]


def test_owners_agree_on_scales_as_scikit_learn_on_all_rows(files, capsys):
    owned = own(files, classification=True)
    said = capsys.readouterr().out
    assert "the largest index of a feature, and whether there is a feature 0; the target is classes" in said
    assert "a sum over these rows for each feature" in said
    scaler = StandardScaler(with_mean=False).fit(X.tocsr())
    assert_allclose(owned.pipeline.scale, scaler.scale_, rtol=1e-13)
    assert_array_equal(owned.pipeline.mean, np.zeros(9))
    assert owned.shards.classes == owned.pipeline.classes == (-1, 1)
    assert_array_equal(owned.shards.targets[1, :25, 0], BINARY[20:45])
    assert_allclose(owned.shards.features.of_agent(1).toarray(), scaler.transform(X.tocsr()[20:45]).toarray(), rtol=1e-13)
    assert_allclose(owned.pipeline.transform(X).toarray(), scaler.transform(X.tocsr()).toarray(), rtol=1e-13)
    numbers = own(files)
    assert_allclose(numbers.pipeline.shift, (2 * BINARY - 1).mean(), rtol=1e-13)
    assert_allclose(numbers.pipeline.spread, (2 * BINARY - 1).std(), rtol=1e-13)
    assert int(owned.revealed.set_index("exchange").numbers["sums of features"]) == 27


def test_each_rank_of_owners_has_the_bits_of_one_process(files):
    settings = {"classification": True, "test_size": 0.2, "features": 11}
    alone, ranks = own(files, **settings), on_ranks(files, None, **settings)
    for owner, owned in enumerate(ranks):
        for found, right in ((owned.shards, alone.shards), (owned.test, alone.test)):
            assert found.features.shape == (1, right.features.shape[1], 11)
            for mine, all_of_them in zip(found.features.arrays, right.restrict([owner]).features.arrays, strict=True):
                assert_array_equal(mine, all_of_them)
            assert_array_equal(found.targets, right.targets[[owner]])
        assert_array_equal(owned.pipeline.scale, alone.pipeline.scale)


@pytest.mark.slow
def test_owned_files_train_test_and_predict(files):
    owned = own(files, classification=True, test_size=0.2)
    linear = consensus.Problem(consensus.Linear(9), consensus.LogisticLoss(), owned.shards, consensus.L2(0.1))
    result = consensus.solve(linear, topologies.ring(3), rounds=100, test=owned.test)
    predictor = result.predictor(owned.pipeline)
    with pytest.raises(TypeError, match="pass consensus") as error:
        predictor.predict(files[0])
    new = eval(str(error.value).split("pass ")[1], {"consensus": consensus})  # the remedy
    assert_array_equal(predictor.predict(new), predictor.predict(X.tocsr()[:20]))
    right = LogisticRegression(C=1 / (0.1 * owned.shards.samples), tol=1e-10, fit_intercept=False)  # ours has the bias in x
    rows = sp.vstack([part[:size] for part, size in zip(owned.shards.features, owned.shards.sizes, strict=True)])
    labels = np.concatenate([part[:size, 0] for part, size in zip(owned.shards.targets, owned.shards.sizes, strict=True)])
    right.fit(sp.hstack([rows, np.ones((rows.shape[0], 1))], format="csr"), labels)
    assert_allclose(predictor.w, right.coef_[0], atol=1e-3)


def test_owners_count_features_alike(files, tmp_path):
    (tmp_path / "zero.svm").write_text("1 0:2 3:1\n-1 1:2\n")
    with pytest.warns(UserWarning, match=r"owner 1 has a feature 0, so features are counted from 0.*all owners"):
        owned = own([files[0], tmp_path / "zero.svm"])
    assert owned.shards.features.shape[2] == 10
    scale = owned.pipeline.scale
    assert_allclose(owned.shards.features.of_agent(0).toarray()[:, 1:] * scale[1:], X.tocsr()[:20].toarray(), rtol=1e-13)
    assert_allclose(owned.shards.features.of_agent(1).toarray()[0] * scale, [2, 0, 0, 1, 0, 0, 0, 0, 0, 0], rtol=1e-13)
    (tmp_path / "query.svm").write_text("".join(f"1 qid:{row // 2} 1:{row}\n" for row in range(8)))
    owned = own([tmp_path / "query.svm"], groups="qid", test_size=0.3)
    assert_array_equal(owned.test.indices[0] // 2, np.repeat(owned.test.indices[0, ::2] // 2, 2))


@pytest.mark.parametrize(("data", "settings", "error", "message"), [
    (lambda files: files, {"target": 0}, ValueError, r"takes classification, features .* got target=0"),
    (lambda files: files, {"features": 5}, ValueError, "features of the file of owner 0 must be at least 9"),
    (lambda files: files, {"features": ["a"]}, TypeError, "must be their number"),
    (lambda files: files, {"missing": "mean"}, ValueError, "got missing='mean'"),
    (lambda files: files, {"groups": "qid", "test_size": 0.5}, ValueError, "which has none"),
    (lambda files: [files[0], TABLE], {}, ValueError, r"files of svmlight; those of owner 0 are svmlight"),
    (lambda files: [TABLE], {}, ValueError, "target must be a column of data"),
    (lambda files: [TABLE], {"target": "a", "features": 3}, TypeError, "features must be a list of columns"),
    (lambda files: [files[0] + ".none.svm"], {}, FileNotFoundError, "exists"),
])  # fmt: skip
def test_what_owners_get_wrong_is_refused(files, data, settings, error, message):
    with pytest.raises(error, match=message):
        own(data(files), **settings)


def test_tables_and_svmlight_do_not_mix(files):
    told = together(2, lambda ranks: refused([files[0], TABLE][ranks.me], [None, "a"][ranks.me], OnThreads(ranks)))
    assert told[0] == told[1]
    assert "all owners must have tables, or all files of svmlight; those of owner 0 are svmlight" in told[0]


def refused(data, target, engine):
    with pytest.raises(ValueError, match="all owners") as error:
        own(data, target, engine=engine)
    return str(error.value)


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("loss", ["logistic", "cross entropy"])
def test_clipped_gradients_are_those_of_dense_features(loss, batch):
    runs = []
    for features in (X, D):
        solver = Private(DGD(0.1, batch=batch), clip=0.2, noise=0.1)
        runs.append(consensus.solve(problem(features, loss), RING, solver, rounds=3).w)
    close(runs[0], runs[1])


test_refusals = refusals(
    (lambda: consensus.Problem(consensus.MLP([9, 3, 1]), consensus.SquaredLoss(), problem(X).shards), TypeError, "takes dense"),
    (lambda: LazyShards.from_list([(X.tocsr(), Y)]), TypeError, "toarray"),
    (lambda: consensus.solve(problem(X), RING, NEXT(Blocks(PartialLinearization(1.0), 2), 0.2), rounds=1), TypeError,
     "unsplit"),
    (lambda: consensus.solve(problem(X), RING, NEXT(PartialLinearization(1.0), 0.2, Exact("dual")), rounds=1), TypeError,
     "'auto'"),
    (lambda: consensus.solve(problem(X), RING, NEXT(PartialLinearization(1.0), 0.2, CVXPYSolver()), rounds=1), TypeError,
     "Exact"),
    (lambda: consensus.Shards.from_list([(X.tocsr()[:9], Y[:9]), (D[9:], Y[9:])]), TypeError, "of all agents"),
    (lambda: consensus.partition(X.tocsr() * np.inf, Y, agents=4), ValueError, r"X\[\d+, \d+\] is -?(inf|nan)"),
    (lambda: consensus.partition(X.tocsr() * 1j, Y, agents=4), ValueError, "real numbers"),
    (lambda: consensus.partition(X, Y[:5], agents=4), ValueError, "X has 60 rows"),
    (lambda: consensus.Linear(9).predict(np.zeros(10), X.tocsr()[:, :4]), ValueError, r"\(samples, 9\)"),
)  # fmt: skip
