"""Environment of a run: versions, machine, commit."""

import functools
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

import consensus
from consensus._arrays.parallel import cores

PACKAGES = ("numpy", "scipy", "networkx", "matplotlib", "scikit-learn", "threadpoolctl")


@functools.cache
def environment():
    """Versions and machine by name."""
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
    git = ["git", "-C", Path(__file__).parent, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor():
    try:
        named = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        named = None
    return named[1] if named else platform.processor() or platform.machine()


def shown():
    """A line for benchmarks: versions and machine."""
    here = environment()
    return "consensus {consensus}, Python {python}, NumPy {numpy}, {processor}, {cores} cores".format_map(here)
