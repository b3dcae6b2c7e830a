"""Build the wheel and the sdist into dist/, and run the README's example with each of them in an environment without others."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
SDIST = "import os, sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
QUIET = ("--quiet", "--disable-pip-version-check")


def run(*command, **options):
    subprocess.run(list(map(str, command)), check=True, **options)


def main():
    folder = ROOT / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # Outside of this environment nothing of the checkout may be seen: neither its folder nor what PYTHONPATH names.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    where = (
        "import consensus, pathlib, sys; assert pathlib.Path(consensus.__file__).is_relative_to(sys.prefix), consensus.__file__"
    )
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"  # builds leave files beside their sources
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, source / name)
        run(sys.executable, "-c", SDIST, folder, cwd=source, env=alone)
        run(sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--wheel-dir", folder, source, env=alone)
        empty = Path(place) / "empty"
        venv.create(empty, with_pip=True)
        python = empty / "bin" / "python"
        for package in sorted(folder.iterdir()):
            run(python, "-m", "pip", "install", *QUIET, "--constraint", ROOT / "constraints.txt", package, cwd=place, env=alone)
            print(f"The README's example, with {package.name} alone in an environment:", flush=True)
            run(python, "-c", f"{where}\n{example}", cwd=place, env=alone)
            run(python, "-m", "pip", "uninstall", *QUIET, "--yes", "consensus-opt", cwd=place, env=alone)


if __name__ == "__main__":
    main()
