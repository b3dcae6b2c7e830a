"""What is kept of compiled kernels: files that are whole or made anew, by any number of processes."""

import os
import subprocess
import sys

import numpy as np
import pytest

from consensus import kernels

pytestmark = pytest.mark.skipif(not kernels.compiles(), reason="nothing is compiled without llvmlite, or with CONSENSUS_FAST=0")
FIRST = "import sys, numpy as np; from consensus import kernels; x = np.ones(3); y = kernels.tanh_sum(x, x); "
SHOW = FIRST + "print('consensus.kernels.loops' in sys.modules, y.tobytes().hex())"


def start(code, **variables):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | variables, **pipes)


def printed(process):
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return said.strip()


def run(code, **variables):
    return printed(start(code, **variables))


def expected():
    return kernels.tanh_sum(np.ones(3), np.ones(3)).tobytes().hex()


def test_what_is_known_when_the_code_runs_decides_nothing_while_it_is_written():
    from consensus.kernels.instructions import text

    with pytest.raises(TypeError, match="use where, when or loop"):
        text("f", lambda addresses, lengths, steps: 1 if lengths[0] > 3 else 2)


@pytest.mark.slow
def test_importing_the_package_imports_neither_a_compiler_nor_what_is_slow_to_import():
    slow = "llvmlite", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "pandas"
    assert run(f"import sys, consensus; print([name for name in {slow} if name in sys.modules])") == "[]"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder into which two processes at once have put a kernel, and what they said."""
    folder = tmp_path_factory.mktemp("kernels")
    both = [start(SHOW, NUMBA_CACHE_DIR=str(folder)) for _ in range(2)]
    return folder, [printed(process) for process in both]


@pytest.mark.slow
def test_two_processes_at_once_keep_one_file(filled):
    folder, said = filled
    assert [line.split()[1] for line in said] == [expected()] * 2
    assert len(list((folder / "consensus").iterdir())) == 1


@pytest.mark.slow
def test_a_kernel_that_is_kept_is_loaded_without_compiling(filled):
    assert run(SHOW, NUMBA_CACHE_DIR=str(filled[0])) == f"False {expected()}"


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["truncated", "flipped", "emptied"])
def test_a_file_that_is_not_whole_is_made_anew(filled, harm, monkeypatch):
    folder, _ = filled
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    (path,) = (folder / "consensus").iterdir()
    whole = path.read_bytes()
    flipped = whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]
    path.write_bytes({"truncated": whole[:-100], "flipped": flipped, "emptied": b""}[harm])
    from consensus.kernels import compiled

    for _ in range(2):
        made = compiled.ufunc("tanh_sum", 2, None, np.dtype(float))
        assert made(np.ones(3), np.ones(3)).tobytes().hex() == expected()
        monkeypatch.setattr("consensus.kernels.loops.machine_code", None)  # the second time the file is whole again


@pytest.mark.parametrize("harm", ["none", "a file others may write to", "a folder others may write to", "another owner"])
def test_only_what_this_user_alone_can_have_written_is_loaded(harm, tmp_path, monkeypatch, caplog):
    from consensus.kernels import compiled, loops

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiled._warn.cache_clear()
    compile_, compiled_names = loops.machine_code, []
    monkeypatch.setattr(loops, "machine_code", lambda *given: compiled_names.append(given[0]) or compile_(*given))
    before = os.umask(0)  # the files must be safe whatever it is
    try:
        compiled.ufunc("tanh_slope", 1, None, np.dtype(float))
    finally:
        os.umask(before)
    (path,) = (tmp_path / "consensus").iterdir()
    if harm.startswith("a "):
        (path if "file" in harm else path.parent).chmod(0o722)
    elif harm == "another owner":
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    made = compiled.ufunc("tanh_slope", 1, None, np.dtype(float))
    assert made(np.array([0.5])) == 0.75
    assert compiled_names == ["tanh_slope"] * (1 if harm == "none" else 2)
    assert ("others may write to it" in caplog.text) == (harm in ("a folder others may write to", "another owner"))


def test_without_a_home_nothing_is_kept(monkeypatch, caplog):
    from consensus.kernels import compiled

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it gives where there is no home
    compiled._warn.cache_clear()
    for _ in range(2):
        assert compiled.ufunc("tanh_slope", 1, None, np.dtype(float))(np.array([0.5])) == 0.75
    assert caplog.text.count("set NUMBA_CACHE_DIR") == 1


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_to_costs_time_only(tmp_path):
    (tmp_path / "file").touch()
    assert run(SHOW, NUMBA_CACHE_DIR=str(tmp_path / "file")) == f"True {expected()}"


@pytest.mark.slow
def test_a_compiler_that_does_not_work_is_named(tmp_path):
    (tmp_path / "llvmlite.py").write_text("raise ImportError('no LLVM for this system')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); " + SHOW
    process = start(code, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert errors.strip().endswith("set CONSENSUS_FAST=0 to do without (no LLVM for this system)")


@pytest.mark.slow
@pytest.mark.parametrize("missing", [True, False])
def test_without_llvmlite_or_by_the_switch_everything_is_left_to_numpy(missing):
    blocked = "import sys; sys.modules['llvmlite'] = None; " if missing else ""
    code = blocked + FIRST + "print(kernels.compiles(), bool(sys.modules.get('llvmlite')), (y == np.tanh(x + x)).all())"
    assert run(code, CONSENSUS_FAST="1" if missing else "0") == "False False True"
