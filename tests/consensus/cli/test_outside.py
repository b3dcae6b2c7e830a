"""A file of settings names no file outside of its folder and the working one, unless the command allows the folder."""

import re

import numpy as np
import pytest

from consensus.cli import Config, ConfigError, main

X = np.random.default_rng(0).standard_normal((12, 3))
RUN = '[run]\nrounds = 2\n[network]\ngraph = "ring"\n'


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The working folder, that of the file, and one outside, which has a table."""
    for name in ("here", "files", "outside"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    np.savetxt(tmp_path / "outside" / "data.csv", X, delimiter=",", header="a,b,c", comments="")
    (tmp_path / "here" / "link.csv").symlink_to(tmp_path / "outside" / "data.csv")
    (tmp_path / "files" / "linked").symlink_to(tmp_path / "outside")
    return tmp_path


def settings(places, data="data.csv", folder="out"):
    path = places / "files" / "run.toml"
    path.write_text(f'{RUN}[data]\nname = "{data}"\ntarget = "c"\nagents = 3\n[output]\nfolder = "{folder}"\n')
    return path


@pytest.mark.parametrize(
    "outside",
    [
        {"data": "{}/outside/data.csv"},
        {"data": "../outside/data.csv"},
        {"data": "~/data.csv"},
        {"data": "link.csv"},
        {"folder": "{}/outside/out"},
        {"folder": "../outside"},
        {"folder": "~"},
        {"folder": "../files/linked/out"},
    ],
)
def test_what_is_outside_is_refused_before_anything_is_read_or_written(places, outside):
    path = settings(places, **{name: text.format(places) for name, text in outside.items()})
    before = sorted(places.rglob("*"))
    with pytest.raises(SystemExit, match=r"error: run\.toml, line \d+: .* is outside of the working folder and of that of"):
        main(["run", str(path)])
    assert sorted(places.rglob("*")) == before
    with pytest.raises(ConfigError) as caught:
        Config.read(path)
    (allowed,) = re.findall("give --allow (.*)", str(caught.value))
    Config.read(path, [allowed])  # the remedy


def test_an_allowed_folder_is_read_and_written(places):
    path = settings(places, "~/data.csv", (places / "outside" / "out").as_posix())
    main(["run", str(path), "--allow", "~"])
    assert (places / "outside" / "out" / "auto.npz").exists()


def test_what_is_inside_is_no_concern(places):
    path = settings(places, "here.csv", (places / "files" / "out").as_posix())
    path.write_text(
        path.read_text() + '[model]\n[[solver]]\nkind = "DGD"\nlabel = "/a/b"\nodd = ["/", "n/a", "", "~nobody-here/x"]\n'
    )
    assert Config.read(path).at(("solver", 0, "label")) == "/a/b"
