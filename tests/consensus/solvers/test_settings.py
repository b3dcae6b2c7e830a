"""Settings of every solver: plain fields, as ``dataclasses.replace`` and ``repr`` have them."""

import importlib
import inspect
import re
import sys
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import consensus
from consensus import compression, directions, solvers, step_sizes, surrogates
from consensus.solvers import DGD, NEXT, GradientTracking, Needs, Solver, table
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.every_solver import SOLVERS

FULL = FullLinearization(1.0)
REQUIRED = {
    "surrogate": FULL,
    "compressor": compression.Quantize(4),
    "solver": GradientTracking(0.1, order="cta"),
    "exchanges": 2,
    "own": ("1",),
    "step_size": 0.25,
}
#: Settings as users give them, and as they are kept.
GIVEN = {
    "step_size": [(1, 1.0), (np.float64(0.5), 0.5), (Diminishing(0.5, 0.01), Diminishing(0.5, 0.01))],
    "batch": [(64, consensus.Minibatches(64)), (consensus.Minibatches(8, seed=3),) * 2],
    **dict.fromkeys(("averaging", "beta", "convexity", "damping", "dual", "gamma", "gap"), ((np.float64(0.5), 0.5),)),
    **dict.fromkeys(("momentum", "outer", "penalty", "probability", "relaxation", "scale"), ((np.float32(0.5), 0.5),)),
    **dict.fromkeys(("columns", "exchanges", "local_steps", "memory", "period", "rank", "seed"), ((np.int64(3), 3),)),
}
ROOMS = (consensus, compression, directions, solvers, step_sizes, surrogates)
SCOPE = {name: getattr(module, name) for module in ROOMS for name in dir(module)} | {"FULL": FULL}
KINDS = [getattr(solvers, row.name) for row in solvers.table().rows]


def settings(kind):
    return [field.name for field in fields(kind) if field.init]


def made(kind, **given):
    return kind(**{name: REQUIRED[name] for name in settings(kind) if name in REQUIRED} | given)


def same(one, other):
    return one == other and repr(one) == repr(other) and hash(one) == hash(other)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_the_arguments_in_their_order_and_the_text_gives_the_solver_back(kind):
    assert settings(kind) == list(inspect.signature(kind).parameters)
    assert "__init__" in vars(kind)  # the dataclass's: an IDE shows the fields
    assert inspect.getsource(kind).count("def __init__") == 0
    solver = made(kind)
    assert same(eval(repr(solver), SCOPE), solver)
    assert f"{kind.__name__}(" in repr(solver)


@pytest.mark.parametrize("kind", KINDS)
def test_one_setting_is_replaced_and_the_others_stay(kind):
    solver = made(kind, **{"batch": 8} if kind in (NEXT, solvers.SONATA) else {})  # whose averages are of batches
    assert same(replace(solver), solver)
    for name in set(settings(kind)) & set(GIVEN):
        for given, kept in GIVEN[name]:
            other = replace(solver, **{name: given})
            assert {key: getattr(other, key) for key in settings(kind)} == (
                {key: getattr(solver, key) for key in settings(kind)} | {name: kept}
            )
            assert repr(getattr(other, name)) == repr(kept)
            assert same(eval(repr(other), SCOPE), other)
            assert same(replace(other, **{name: getattr(solver, name)}), solver)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "step_size" in settings(kind)])
def test_a_step_size_may_be_left_out_where_theory_has_one(kind):
    if kind.stable_step is not solvers.Solver.stable_step:
        assert made(kind, step_size=None).step_size is None
        assert inspect.signature(kind).parameters["step_size"].default is None
    else:
        with pytest.raises(TypeError, match=r"^step_size must be a number or a rule"):
            made(kind, step_size=None)
    for odd in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^step_size must be a finite number > 0"):
            made(kind, step_size=odd)
    for odd in ("0.1", True, [0.1]):
        with pytest.raises(TypeError, match=r"^step_size must be a number or a rule"):
            made(kind, step_size=odd)


#: Calls that are refused, by how the message begins; a name alone by ``must be``.
REFUSED = {
    "DADMM(0)": "penalty",
    "DLM(penalty=-1)": "penalty",
    "DiNNO(penalty=0.0)": "penalty",
    "DiNNO(local_steps=0)": "local_steps",
    "LTADMM(local_steps=0)": "local_steps",
    "LTADMM(penalty=0.0)": "penalty",
    "ATG(gamma=1.5)": "gamma",
    "ATG(penalty=0)": "penalty",
    "ATG(relaxation=1)": "relaxation",
    "AccGT(convexity=0)": "convexity",
    "OPAPC(convexity=0)": "convexity",
    "OPAPC(dual=0)": "dual",
    "OPAPC(momentum=1.5)": r"momentum must be a finite number > 0 and <= 1; got 1\.5",
    "NetworkGIANT(0.1, damping=-0.1)": "damping",
    "NewtonTracking(damping=0)": "damping",
    "KGT(0.1, local_steps=0)": "local_steps",
    "KGT(0.1, scale=0.0)": "scale",
    "LED(0.1, local_steps=1.5)": "local_steps",
    "ProxSkip(0.1, probability=0.0)": "probability",
    "ProxSkip(0.1, seed=-1)": "seed",
    "Gossip(DGD(0.1), 0)": "exchanges must be a whole number >= 1; got 0",
    "Gossip(DGD(0.05), 10**30)": "exchanges must be a whole number >= 1 and <= 100000",
    "Gossip(DGD(0.1), 2, gap=1.5)": r"gap must be a finite number > 0 and < 1; got 1\.5",
    "NEXT(FULL, 1.5)": r"step_size must be .* <= 1; got 1\.5",
    "NEXT(1.0, 0.5)": "surrogate must be one",
    "NEXT(FULL, 0.5, local=3)": "local",
    "NEXT(FULL, 0.5, tolerance=1.0)": "tolerance",
    "NEXT(FULL, 0.5, batch=3, averaging=1.5)": "averaging",
    "NEXT(FULL, 0.5, averaging=0.5)": "averaging is of gradients from batches",
    "FullLinearization(-1.0)": r"tau must be a finite number > 0; got -1\.0",
    "PartialLinearization(-0.1)": r"tau must be a finite number >= 0; got -0\.1",
    "PartialLinearization(0.1, 'global')": ".*'local', 'network'; got 'global'",
    "GradientTracking(0.1, order='both')": ".*'atc', 'cta'; got 'both'",
}


@pytest.mark.parametrize("call", REFUSED)
def test_settings_out_of_range_are_named(call):
    match = REFUSED[call] if " " in REFUSED[call] or "*" in REFUSED[call] else f"{REFUSED[call]} must"
    with pytest.raises((ValueError, TypeError), match=f"^{match}"):
        eval(call, SCOPE)


@dataclass(frozen=True)
class Noted(DGD):
    """A user's method, whose fields have other metadata or are set later."""

    note: str = field(default="", metadata={"help": "any text"})
    later: int = field(init=False)


def test_fields_without_bounds_are_left_alone():
    assert Noted(0.1, note="mine").note == "mine"
    assert not hasattr(Noted(0.1), "later")


def test_a_surrogate_that_is_not_strongly_convex_is_refused():
    shards = consensus.partition(np.eye(4), np.ones(4), agents=2)
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
    with pytest.raises(ValueError, match="tau must be > 0 with L2"):
        NEXT(PartialLinearization(0.0), 0.1).check(problem)


# What the table of solvers says of each, and how it prints.

OURS = [solver for name, solver in SOLVERS.items() if name != "attacked"]
WORDS = {  # regularizer, cost, network and exchanges a round in the table
    ("smooth", "convex", "symmetric, static", "1"): "ATG DLM DiNNO ExactDiffusion EXTRA OPAPC WangElia",
    ("smooth", "convex", "symmetric, static", "depends"): "ProxSkip",
    ("smooth", "convex, of a model", "symmetric, static", "1"): "NewtonTracking",
    ("smooth", "convex, of a model", "symmetric, static", "2"): "NetworkGIANT",
    ("smooth", "convex", "doubly stochastic", "1"): "AccGT",
    ("smooth", "nonconvex", "symmetric, static", "1"): "LED LTADMM",
    ("smooth", "nonconvex", "symmetric, static", "2"): "AutoGT",
    ("smooth", "nonconvex", "doubly stochastic", "1"): "DGD",
    ("smooth", "nonconvex", "doubly stochastic", "2"): "GradientTracking",
    ("smooth", "nonconvex", "doubly stochastic, static", "1"): "KGT",
    ("smooth", "nonconvex", "column stochastic", "1"): "PushDIGing PushPull",
    ("prox", "convex, of a model", "symmetric, static", "1"): "DADMM",
    ("prox", "convex", "symmetric, static", "1"): "NIDS PGEXTRA",
    ("prox", "convex", "symmetric, static", "found"): "DATOS",
    ("prox", "nonconvex", "doubly stochastic", "1"): "NEXT",
    ("prox", "nonconvex", "doubly stochastic", "2"): "ProxGT",
    ("prox", "nonconvex", "column stochastic", "1"): "SONATA",
}


def test_the_needs_of_every_exact_method():
    said = {row.name: (row.regularizer, row.cost, row.network, row.exchanges) for row in table().rows}
    expected = {name: words for words, names in WORDS.items() for name in names.split()}
    assert {name: said[name] for name in expected} == expected
    assert GradientTracking(0.1, order="cta").exchanges_a_round == 1


def test_all_exported_solvers_are_listed():
    listed = [getattr(solvers, name) for name in solvers.__all__]
    exported = {one for one in listed if inspect.isclass(one) and issubclass(one, Solver)}
    assert {row.name for row in table().rows} == {kind.__name__ for kind in exported - {Solver}}


def test_every_row_is_complete():
    for row in table(*OURS).rows[-len(OURS) :]:
        assert all(row._asdict()[name] for name in row._fields if name != "settings"), row
        assert re.fullmatch(r"[A-Z][A-Za-z ,.]+ (19|20)\d\d", row.reference)


def test_the_table_prints_in_120_columns_with_every_word_in_place():
    shown = table(*OURS)
    lines = repr(shown).splitlines()
    assert max(map(len, lines)) <= 120
    starts = [match.start() for match in re.finditer(r"-+", lines[1])]
    assert len(starts) == len(shown.rows[0]) == 9
    rows, body = [], lines[2:]
    for line in body:
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            rows.append(cells)
        else:  # goes on
            rows[-1] = [f"{before} {more}".strip() for before, more in zip(rows[-1], cells, strict=True)]
    assert [tuple(cells) for cells in rows] == [tuple(row) for row in shown.rows]


def test_the_table_in_markdown_html_and_pandas():

    class Piped(DGD):
        """Sends odd words."""

        sends = "a|b <c>"

    shown = table(Piped)
    fields = shown.rows[0]._fields
    lines = shown.to_markdown().splitlines()
    assert len(lines) == len(shown.rows) + 2
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {10}
    page = ElementTree.fromstring(shown._repr_html_())
    assert [[cell.text or "" for cell in line] for line in page.iter("tr")] == [list(row) for row in (fields, *shown.rows)]
    frame = shown.to_frame()
    assert tuple(frame.columns) == fields
    assert tuple(frame.iloc[-1]) == shown.rows[-1]


def test_what_is_no_solver_is_not_listed():
    for odd in (3, "DGD", int, None):
        with pytest.raises(TypeError, match="each of more must be a Solver"):
            table(odd)


def install(folder, name, points, **files):
    """Leave files and a distribution's metadata in ``folder``, as pip does."""
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text)
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{line}\n" for group, line in points))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_package_of_the_page_is_listed(site):
    page = (Path(__file__).parents[3] / "docs" / "extend.md").read_text()
    (project,) = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL))
    (points,) = project["project"]["entry-points"].values()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0].partition("\n\ndata = ")[0]
    (check,) = re.findall(r"```py\n(from consensus\.testing.*?)```", page, flags=re.DOTALL)
    assert project["tool"]["setuptools"]["py-modules"] == ["heavyball"]
    lines = [(group, f"{name} = {value}") for group in project["project"]["entry-points"] for name, value in points.items()]
    before = table().rows
    install(site, project["project"]["name"], lines, heavyball=code, test_heavyball=check)
    (new,) = set(table().rows) - set(before)
    assert (new.name, new.regularizer, new.exchanges, new.sends) == ("HeavyBall", "smooth", "1", "w")
    importlib.import_module("test_heavyball").test_the_laws_of_solvers()
    assert table().rows[-1] == new  # of installed packages before those that are given
    assert table(DGD(0.1)).rows[-2] == new


def test_what_packages_name_wrongly_is_left_out_with_a_warning(site):
    wrong = {"one": "gone:Solver", "two": "numbers_of:three", "three": "broken", "four": "consensus.solvers:Solver"}
    points = [("consensus.solvers", "\n".join(f"{name} = {value}" for name, value in wrong.items()))]
    before = table().rows
    install(site, "odd-solvers", points, numbers_of="three = 3", broken="1 / 0")
    with pytest.warns(UserWarning, match="odd-solvers") as caught:
        assert table().rows == before
    said = sorted(str(one.message) for one in caught)
    assert said == sorted(
        [
            "'gone:Solver', the solver 'one' of the package odd-solvers, cannot be imported: ModuleNotFoundError: No module "
            "named 'gone'",
            "'numbers_of:three', the solver 'two' of the package odd-solvers, is no class of solvers: derive it from "
            "consensus.solvers.Solver",
            "'broken', the solver 'three' of the package odd-solvers, cannot be imported: ZeroDivisionError: division by zero",
            "'consensus.solvers:Solver', the solver 'four' of the package odd-solvers, is no class of solvers: derive it from "
            "consensus.solvers.Solver",
        ]
    )


def test_a_class_of_ours_that_a_package_names_is_listed_once(site):
    before = table().rows
    install(site, "again", [("consensus.solvers", "DGD = consensus.solvers:DGD")])
    assert table().rows == before


def test_a_class_whose_needs_depend_on_settings_says_so():
    (row,) = (row for row in table().rows if row.name == "Gossip")
    assert set(row[2:8]) == {"depends"}
    assert row.settings == "solver, exchanges, [gap]"


def test_a_class_with_a_property_for_its_needs_alone():
    class Mine(DGD):
        @property
        def needs(self):
            return Needs(static=True)

    assert table(Mine).rows[-1][2:8] == ("depends",) * 4 + ("1", "w")
    assert table(Mine(0.1)).rows[-1].network == "doubly stochastic, static"
