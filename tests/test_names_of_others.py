"""Packages of others with the names of ours are noticed, and the message names them and what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
INSTALL = "pip install --force-reinstall --no-deps consensus-opt"


@pytest.fixture
def site(tmp_path):
    """A folder with our packages, as pip leaves them."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in ("consensus", "topologies"):
        (folder / name).symlink_to(TOP / name)
    return folder


def package(folder, name, text="x = 1"):
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)


def said(code, *path, cwd):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONWARNINGS": "default"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=cwd)
    return done.returncode, done.stderr


@pytest.mark.parametrize("text", ["x = 1", "import missing_package", "def __getattr__(name): return name"])
def test_another_topologies_is_an_error_of_consensus(text, site, tmp_path):
    package(tmp_path / "other", "topologies", text)
    code, error = said("import consensus", tmp_path / "other", site, cwd=tmp_path)
    assert code == 1
    last = error.splitlines()[-1]
    assert last.startswith(
        "ImportError: consensus comes with the package topologies in the distribution consensus-opt; Python finds"
    )
    assert f"another topologies, {tmp_path}/other/topologies/__init__.py: " in last
    assert f"pip uninstall --yes topologies, then {INSTALL}" in last


def test_a_script_of_that_name_in_the_folder(site, tmp_path):
    (tmp_path / "topologies.py").write_text("ring = 3")
    code, error = said("import consensus", site, cwd=tmp_path)
    assert code == 1
    assert f"another topologies, {tmp_path / 'topologies.py'}: " in error
    assert "topologies.py: if it is yours, rename it; " in error


def test_ours_without_its_other_half(site, tmp_path):
    code, error = said("import sys; sys.modules['topologies'] = None; import consensus", site, cwd=tmp_path)
    assert code == 1
    assert f"Python finds none: {INSTALL} (or . in its checkout)" in error


def test_one_that_was_written_over_ours(site, tmp_path):
    (site / "topologies").unlink()
    shutil.copytree(TOP / "topologies", site / "topologies")
    (site / "topologies" / "__init__.py").write_text("x = 1")
    code, error = said("import consensus", site, cwd=tmp_path)
    assert code == 1
    assert f"another topologies, {site}/topologies/__init__.py" in error


def test_another_consensus_is_a_warning_of_topologies(site, tmp_path):
    package(tmp_path / "other", "consensus")
    code, warned = said("import topologies; topologies.ring(3)", tmp_path / "other", site, cwd=tmp_path)
    assert code == 0
    assert f"Python finds another consensus, {tmp_path}/other/consensus/__init__.py: " in warned
    assert f"pip uninstall --yes consensus, then {INSTALL}" in warned


@pytest.mark.parametrize(("name", "record"), [("topologies", "topologies/cli.py"), ("consensus", "consensus/old.py")])
@pytest.mark.parametrize("first", ["consensus", "topologies"])
def test_files_of_others_among_ours_are_a_warning(name, record, first, site, tmp_path):
    about = site / f"{name}-0.0.5.dist-info"
    about.mkdir()
    (about / "RECORD").write_text(f"{about.name}/METADATA,,\n{record},sha256=0,3\n")
    code, warned = said(f"import {first}, topologies, consensus", site, cwd=tmp_path)
    assert code == 0
    assert warned.count("UserWarning") == 1
    assert f"{name} 0.0.5, a distribution of others, has files in the folders of consensus-opt in {site}" in warned
    assert f"pip uninstall --yes {name}, then {INSTALL}" in warned


def test_what_is_no_harm_is_no_warning(site, tmp_path):
    """Folders without a package, our own distribution, a folder that differs by a capital where systems tell them apart."""
    (tmp_path / "consensus").mkdir()
    (site / "consensus_opt-0.1.0.dist-info").mkdir()
    if not (site / "Topologies").exists():
        (site / "Consensus").mkdir()
        (site / "consensus-1.2.3.dist-info").mkdir()
        (site / "consensus-1.2.3.dist-info" / "RECORD").write_text("Consensus/Nomis.py,,\n")
    assert said("import consensus, topologies", site, cwd=tmp_path) == (0, "")


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_have_the_right_line(page):
    text = " ".join((TOP / page).read_text().split())
    assert "pip install consensus-opt" in text
    assert "`pip install consensus topologies` gets you two strangers' packages" in text
