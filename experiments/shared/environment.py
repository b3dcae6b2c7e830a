"""Environment of a run: versions, machine, commit."""

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import consensus
from consensus._arrays.parallel import cores

PACKAGES = ("numpy", "scipy", "networkx", "matplotlib", "scikit-learn", "threadpoolctl")


def environment(engine):
    """A dictionary for ``environment.json``; ``engine`` is the one that runs."""
    return {**_machine(), "engine": repr(engine)}


@functools.cache
def _machine():
    return {
        "consensus": consensus.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in PACKAGES},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
    }


def _commit():
    """The commit of these files, ``+`` where they differ from it; None where there is no repository or no git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes else "")


def _processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
