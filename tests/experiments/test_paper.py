"""The paper: every number in it comes from results, everything it includes is there, and it builds."""

import re
import shutil
import subprocess

import pytest

from experiments import paper, tangent

SOURCE = (paper.PAPER / "paper.tex").read_text()
GENERATED = paper.PAPER / "generated"


def text():
    """What a reader sees: without the preamble, commands that are shown, mathematics and the names of files."""
    body = SOURCE[SOURCE.index(r"\begin{abstract}") :]
    for gone in (
        r"(?s)\\begin\{verbatim\}.*?\\end\{verbatim\}",
        r"(?s)\\begin\{(equation|align)\}.*?\\end\{\1\}",
        r"\$[^$]*\$",
        r"\\(result|cite\w*|citealp|generated|tabulated|turned|ref|texttt)(\[[^]]*\])?\{[^}]*\}",
    ):
        body = re.sub(gone, " ", body)
    return body


def test_no_number_is_typed_by_hand():
    assert re.findall(r"(?<!\w)\d[\w.]*", text()) == []


def test_everything_that_it_names_is_there():
    known = set(re.findall(r"result@([^\\]+)\\endcsname", (GENERATED / "numbers.tex").read_text()))
    assert set(re.findall(r"\\result\{([^}]*)\}", SOURCE)) == known
    for name in re.findall(r"\\generated(?:\[[^]]*\])?\{([^}]*)\}", SOURCE):
        assert (GENERATED / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for name in re.findall(r"\\(?:tabulated|turned)\{([^}]*)\}", SOURCE):
        assert r"\bottomrule" in (GENERATED / f"{name}.tex").read_text()
    cited = {key.strip() for keys in re.findall(r"\\cite\w*\{([^}]*)\}", SOURCE) for key in keys.split(",")}
    bibliography = set(re.findall(r"@\w+\{(\w+),", (paper.PAPER / "references.bib").read_text()))
    assert cited == bibliography


def test_everything_collected_is_shown():
    shown = set(re.findall(r"\\(?:generated|tabulated|turned)(?:\[[^]]*\])?\{([^}]*)\}", SOURCE))
    parts = [*paper.FIGURES.items(), *paper.TABLES.items()]
    wanted = {f"{experiment}-{name}" for experiment, names in parts for name in names}
    assert wanted == shown
    assert {path.stem for path in GENERATED.iterdir()} == wanted | {"numbers"}


def test_numbers_are_those_of_the_tables(tiny, tmp_path):
    results, _ = tiny
    paper.main([str(results), "--output", str(tmp_path)])
    found = dict(re.findall(r"result@([^\\]+)\\endcsname\{(.*)\}", (tmp_path / "numbers.tex").read_text()))
    assert found["agents"] == "6"
    assert found["scale.largest"] == "6"
    assert found["convergence.level"] == r"1\,\%"
    row = next(
        row
        for row in (results / "tangent" / "table.csv").read_text().splitlines()
        if row.startswith(f"diabetes,{tangent.SHOWN},")
    )
    assert found["tangent.diabetes.network"] == f"{float(row.split(',')[2]):.3g}"
    assert (tmp_path / "losses-table.tex").read_bytes() == (results / "losses" / "table.tex").read_bytes()
    assert (tmp_path / "scale-figure.pdf").read_bytes() == (results / "scale" / "figure.pdf").read_bytes()


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(SystemExit, match=r"error: .* is missing; `python -m experiments all --output .*` makes it"):
        paper.main([str(tmp_path), "--output", str(tmp_path / "out")])


@pytest.mark.skipif(shutil.which("latexmk") is None, reason="latexmk is not installed")
def test_it_builds(tmp_path):
    shutil.copytree(paper.PAPER, tmp_path / "paper")
    command = ["latexmk", "-pdf", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path / "paper", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert (tmp_path / "paper" / "paper.pdf").stat().st_size > 100_000
    log = (tmp_path / "paper" / "paper.log").read_text(errors="replace")
    assert "undefined" not in log
    assert [width for width in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log) if float(width) > 10] == []
