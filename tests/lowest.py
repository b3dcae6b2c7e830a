"""Print, as pip's constraints, the lowest version of everything that pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
for line in sorted(set(asked)):
    if found := re.match(r"([\w.-]+)>=([\w.]+)", line):
        print(f"{found[1]}=={found[2]}")
