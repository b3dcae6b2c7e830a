"""Versions, cores, MPI and accelerators of this machine."""

from __future__ import annotations

import platform
from importlib import metadata

import consensus
from consensus import kernels
from consensus._arrays.parallel import cores

NEEDED = ("numpy", "scipy", "networkx", "cvxpy", "scikit-learn", "matplotlib", "pandas")
OPTIONAL = {"mpi4py": "mpi", "pyarrow": "parquet", "safetensors": "safetensors", "cryptography": "secure"}
OPTIONAL |= {"torch": "torch", "jax": "jax", "submitit": "slurm", "distributed": "dask"}


def show_versions() -> None:
    """Print what a report of a bug should name: versions, cores, MPI and accelerators of this machine.

    It prints no path, no address and nothing of data.

    Examples
    --------
    >>> import contextlib, io, consensus
    >>> with contextlib.redirect_stdout(io.StringIO()) as shown:
    ...     consensus.show_versions()
    >>> shown.getvalue().split()[:2] == ["consensus", consensus.__version__]
    True
    """
    print(info())


def info() -> str:
    """Return versions, cores, MPI and accelerators.

    Returns
    -------
    str
        Aligned lines of text.

    Examples
    --------
    >>> import consensus
    >>> from consensus.cli import info
    >>> lines = dict(line.split(maxsplit=1) for line in info().splitlines())
    >>> lines["consensus"] == consensus.__version__, "numpy" in lines, "cores" in lines
    (True, True, True)
    """
    rows = {"consensus": consensus.__version__, "Python": platform.python_version(), "system": platform.platform()}
    rows |= {"cores": str(cores())} | {name: _version(name) for name in NEEDED}
    rows |= {name: _version(name, extra) for name, extra in OPTIONAL.items()}
    rows |= {"kernels": kernels.level() or "not compiled: NumPy's", "MPI": _mpi(), "GPU, PyTorch": _cuda(), "GPU, JAX": _jax()}
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _version(name: str, extra: str = "") -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"not installed: pip install '{f'consensus-opt[{extra}]' if extra else name}'"


def _mpi() -> str:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py without an MPI library
        return f"none ({error})"
    return MPI.Get_library_version().partition(",")[0].strip("\0\n ")


def _cuda() -> str:
    try:
        import torch
    except ImportError:
        return "none: PyTorch is not installed"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _jax() -> str:
    try:
        import jax
    except ImportError:
        return "none: JAX is not installed"
    return ", ".join(str(device) for device in jax.devices() if device.platform != "cpu") or "none"
