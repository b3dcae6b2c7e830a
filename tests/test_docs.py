"""The examples of the documentation, run as they stand: those of a page one after the other, as a reader does."""

import doctest
import re
from pathlib import Path

import pytest

import consensus
from tests.helpers.turns import with_slow

ELSEWHERE = ("callbacks",)  # its loggers are not installed here: tests/extensions/test_callback.py runs it with stand-ins
NEEDS = {
    "models": ("torch", "jax", "safetensors"),
    "directions": ("torch",),
    "gpu": ("torch",),
    "losses": ("torch",),
    "privacy": ("cryptography",),
    "statistics": ("cryptography",),
}
PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
EXAMPLES = {
    page.stem: re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for page in PAGES
    if page.stem not in ELSEWHERE
}


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("page", [page for page, examples in EXAMPLES.items() if examples])
def test_examples_run(page, tmp_path, monkeypatch):
    for package in NEEDS.get(page, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {}
    for example in EXAMPLES[page]:
        names.pop("result", None)
        exec(example, names)
        if "result" in names:
            objective = names["result"].history["objective"]
            assert objective[-1] < 0.9 * objective[0]


@pytest.mark.parametrize("stem", with_slow([page.stem for page in PAGES if "```pycon" in page.read_text()], "estimators"))
def test_examples_give_what_they_show(stem, tmp_path, monkeypatch):
    for package in NEEDS.get(stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(
        str(PAGES[0].parent / f"{stem}.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 3
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_the_page_of_a_laptop(page):
    blocks = re.findall(r"```(?:python|pycon|py|sh|toml|yaml)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    wide = [line for block in blocks for line in block.splitlines() if len(line) > 110]
    assert [line for line in wide if not re.match(r'[A-Z]\w+Error: |"""', line)] == []


def test_the_readme_counts_the_solvers_of_the_table_and_the_contents_list_them():
    rows, top = consensus.solvers.table().rows, PAGES[0].parents[1]
    assert re.findall(r"(\d+) solvers", (top / "README.md").read_text()) == [str(len(rows))]
    listed = (top / "docs" / "contents.md").read_text()
    assert not [row.name for row in rows if not re.search(rf"`{row.name}\b", listed)]


def test_public_names_without_an_example_are_found(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(PAGES[0].parent / "_extensions")
    import public

    from consensus.kernels import Kernel

    def shown():
        """>>> shown()"""

    def bare():
        """Text about an example."""

    class Bare(consensus.DivergenceError):  # whose base class has one
        pass

    values = {"shown": shown, "bare": bare, "Bare": Bare, "kernel": Kernel(bare), "number": 3}
    assert public.without_example(values) == {"bare", "Bare", "kernel"}


@pytest.mark.slow
def test_exceptions_to_examples_are_named_and_not_more(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(PAGES[0].parent / "_extensions")
    import public

    monkeypatch.setattr(public, "WITHOUT_EXAMPLE", {"consensus.solve"})
    assert public.faults() == {
        "without an example in the docstring": ["consensus.cli.submit"],
        "with an example, and in WITHOUT_EXAMPLE of docs/_extensions/public.py": ["consensus.solve"],
    }


def test_links_lead_somewhere():
    for page in [*PAGES, PAGES[0].parents[1] / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            file = link.replace("examples/index.rst", "gallery/GALLERY_HEADER.rst")  # of which `make docs` makes it
            assert link.startswith("http") or (page.parent / file).exists(), f"{page.name}: {link}"


def test_contributing_names_every_check_and_files_that_are_there():
    top = PAGES[0].parents[1]
    text = (top / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"check_\w+", text)) == {name for name in consensus.testing.__all__ if name.startswith("check_")}
    for path in re.findall(r"`((?:consensus|docs|experiments|tests|topologies)/[\w/]+\.(?:py|md|c))`", text):
        assert (top / path).exists(), path
