"""The choice of compiled kernels: every level has the same bits, and NumPy replaces what is missing or switched off."""

import importlib
import logging
import subprocess
import sys

import numpy as np
import pytest

from consensus.kernels import kernel
from tests.helpers.every_kernel import KERNELS, arguments, bits, compiled, every_dtype


@compiled
@every_dtype
@pytest.mark.parametrize("name", KERNELS)
def test_every_level_has_the_same_bits(name, dtype):
    module = importlib.import_module("consensus.kernels._kernels")
    assert module.LEVELS[-1] == "baseline"
    assert set(module.ufuncs("baseline")) == set(KERNELS)
    given, like = arguments(name, dtype)
    functions = KERNELS[name], *(module.ufuncs(level)[name] for level in module.LEVELS), KERNELS[name].__wrapped__
    results = [like.copy() for _ in functions]
    for function, result in zip(functions, results, strict=True):
        function(*given, out=result)
    *ours, plain = results
    assert len({bits(result) for result in ours}) == 1
    compared = np.triu if name.startswith("upper") else np.asarray
    np.testing.assert_allclose(compared(ours[0]), compared(plain), rtol=0, atol=3000 * np.finfo(dtype).eps)


@compiled
def test_features_of_the_processor_can_be_disabled(monkeypatch):
    module = importlib.import_module("consensus.kernels._kernels")
    narrower = {"X86_V4 AVX512_ICL": "avx512", "AVX512F": "avx512", "X86_V4,X86_V3": "avx2", "AVX512F AVX2": "avx2"}
    for disabled, level in narrower.items():
        monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", disabled)
        allowed = [name for name in ("avx512", "avx2", "baseline") if name in module.LEVELS]
        below = allowed[allowed.index(level) + 1 :] if level in allowed else allowed
        assert kernel._compiled.__wrapped__()[0] == below[0]
    with pytest.raises(ValueError, match="this processor has no level 'sse9'"):
        module.ufuncs("sse9")


def test_without_the_extension_module_numpy_computes_and_the_log_says_so(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "consensus")
    monkeypatch.delenv(kernel.SWITCH, raising=False)
    monkeypatch.setitem(sys.modules, "consensus.kernels._kernels", None)
    assert kernel._compiled.__wrapped__() == (None, {})
    assert "NumPy computes the kernels, as none are compiled" in caplog.text


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sys.modules['consensus.kernels._kernels'] = None", "os.environ['CONSENSUS_FAST'] = '0'"])
def test_without_them_results_are_those_of_numpy(how):
    code = f"import os, sys, numpy as np; {how}; from consensus import kernels; x = np.ones(3); "
    assert run(code + "print(kernels.level(), (kernels.tanh_sum(x, x) == np.tanh(x + x)).all())") == "None True"


@pytest.mark.slow
def test_importing_the_package_imports_nothing_that_is_slow_to_import():
    slow = "scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "pandas"
    assert run(f"import sys, consensus; print([name for name in {slow} if name in sys.modules])") == "[]"
