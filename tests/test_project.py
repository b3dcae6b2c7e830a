"""What strangers meet first: metadata, workflows, templates."""

import re
import tomllib
from pathlib import Path

import pytest

import consensus

TOP = Path(__file__).parents[1]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
FORMS = [*sorted((TOP / ".github").rglob("*.yml")), TOP / ".readthedocs.yaml", TOP / "CITATION.cff"]
HOSTED = pytest.mark.skipif(not FORMS[0].is_file(), reason="a copy without the files for code hosts")


def read(path):
    return pytest.importorskip("yaml").safe_load(path.read_text())


def test_one_version_is_named_everywhere():
    cited = read(TOP / "CITATION.cff")
    assert (PROJECT["version"], cited["version"]) == (consensus.__version__,) * 2
    assert cited["license"] == PROJECT["license"]
    assert cited["title"].startswith("consensus")
    assert cited["authors"] == [{"name": author["name"]} for author in PROJECT["authors"]]
    assert f"## {consensus.__version__} (" in (TOP / "CHANGELOG.md").read_text()
    assert f"## {consensus.__version__}\n" in (TOP / "docs" / "releases.md").read_text()


def test_the_extra_all_has_every_extra_of_users():
    extras = PROJECT["optional-dependencies"]
    (all_of,) = extras["all"]
    named = re.fullmatch(r"consensus-opt\[(.*)\]", all_of)[1].split(",")
    assert named == sorted(extras.keys() - {"all", "test", "docs", "dev"})
    page = (TOP / "docs" / "install.md").read_text()
    assert all(f"| `{extra}` |" in page for extra in ["all", *named])


@HOSTED
@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_can_be_read_and_their_commands_are_there(path):
    assert isinstance(read(path), dict)
    targets = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:run:|-) make ([a-z-]+)", path.read_text())) <= targets
    for name in re.findall(r"\b(?:tests|docs)/[\w/]+\.\w+", path.read_text()):
        assert (TOP / name).exists(), name


@HOSTED
def test_the_tests_run_on_every_system_and_python_that_are_declared():
    jobs = read(TOP / ".github" / "workflows" / "ci.yml")["jobs"]
    pythons = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == jobs["windows"]["strategy"]["matrix"]["python"] == pythons
    systems = {name.partition("-")[0] for name in [*jobs["tests"]["strategy"]["matrix"]["os"], jobs["windows"]["runs-on"]]}
    assert systems == {"ubuntu", "macos", "windows"}
    assert {"lint", "docs"} <= jobs.keys()


@HOSTED
@pytest.mark.parametrize("form", ["ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/idea.yml", "pull_request_template.md"])
def test_templates_ask_for_the_versions(form):
    assert "consensus.show_versions()" in (TOP / ".github" / form).read_text()


@pytest.mark.parametrize("page", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (TOP / page).read_text()):
        assert link.startswith("https://") or (TOP / link).exists(), link
