"""The package as others install it: from an sdist, with a C compiler and without."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("build")]
ROOT = Path(__file__).parents[1]
SHOW = """
import logging, pathlib, numpy as np
logging.basicConfig(level="INFO", format="%(message)s")
import consensus, topologies
from consensus import kernels
assert kernels.__file__.startswith({folder!r}), kernels.__file__
x = np.linspace(-3, 3, 99)
assert abs(kernels.tanh_sum(x, x) - np.tanh(2 * x)).max() < 1e-15
print('kernels:', kernels.level(), *(path.name for path in pathlib.Path(kernels.__file__).parent.glob("_kernels*")))
"""


def run(*command, **variables):
    given = {"env": os.environ | variables, "cwd": variables.get("PWD"), "timeout": 600}
    done = subprocess.run(command, capture_output=True, text=True, **given)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("build")
    for name in ("consensus", "topologies"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    run(sys.executable, "-c", "from setuptools.build_meta import build_sdist; build_sdist('dist')", PWD=str(folder))
    (path,) = (folder / "dist").iterdir()
    return path


def test_the_sdist_has_what_the_kernels_are_built_of(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "consensus/kernels/_kernels.c", "consensus/py.typed", "topologies/py.typed"} <= names


@pytest.mark.parametrize("compiler", [shutil.which("cc"), "false"])
def test_it_installs_with_a_compiler_and_without(sdist, compiler, tmp_path):
    if compiler is None:
        pytest.skip("no C compiler")
    folder = str(tmp_path / "installed")
    options = "--quiet", "--no-deps", "--no-build-isolation", "--no-index"
    run(sys.executable, "-m", "pip", "install", *options, "--target", folder, str(sdist), CC=compiler)
    code = SHOW.format(folder=folder)
    said = run(sys.executable, "-c", code, PWD=str(tmp_path), PYTHONPATH=folder, CONSENSUS_FAST="1").splitlines()
    if compiler == "false":
        assert said[0].startswith("NumPy computes the kernels, as none are compiled")
        assert said[1:] == ["kernels: None"]
    else:
        assert said in [[f"kernels: {level} _kernels.abi3.so"] for level in ("avx512", "avx2", "baseline")]
