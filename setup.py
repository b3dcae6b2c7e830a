"""Builds the compiled kernels (consensus/kernels); everything else about the packages is in pyproject.toml."""

import numpy
from setuptools import Extension, setup

kernels = Extension(
    "consensus.kernels._kernels",
    ["consensus/kernels/_kernels.c"],
    include_dirs=[numpy.get_include()],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    # Nothing that changes results: no contraction, no -ffast-math; errno and traps are of no use here.
    extra_compile_args=["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"],
    optional=True,  # without a compiler the NumPy functions serve
)

setup(ext_modules=[kernels], options={"bdist_wheel": {"py_limited_api": "cp311"}})
