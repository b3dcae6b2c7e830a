"""Names of other libraries that pages link to, from docs/inventories/*.txt: the build reads nothing from a network."""

import zlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

LISTS = Path(__file__).parents[1] / "inventories"
HEADER = "# Sphinx inventory version 2\n# Project: {}\n# Version: \n# The remainder of this file is compressed using zlib.\n"


def write(app: Sphinx, config: Config) -> None:
    """Write each list, whose first line is the address, as an inventory, and tell intersphinx."""
    folder = Path(app.outdir).parent / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    config.intersphinx_mapping = {}
    for file in sorted(LISTS.glob("*.txt")):
        address, *lines = file.read_text().splitlines()
        names = "".join(f"{name} {role} 1 {page} -\n" for name, role, page in map(str.split, lines))
        path = folder / f"{file.stem}.inv"
        path.write_bytes(HEADER.format(file.stem).encode() + zlib.compress(names.encode()))
        config.intersphinx_mapping[file.stem] = (address, str(path))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the inventories before intersphinx reads its settings."""
    app.connect("config-inited", write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
