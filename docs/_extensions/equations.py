"""Indented lines of docstrings are equations: shown as they stand, in a font of equal widths."""

from typing import Any

from sphinx.application import Sphinx


def mark(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put a directive before each block that is indented more than the paragraph above it."""
    marked: list[str] = []
    above = ""  # the last line that is not blank
    for line in lines:
        depth, depth_above = (len(words) - len(words.lstrip()) for words in (line, above))
        begins = above and line.strip() and not marked[-1].strip() and depth > depth_above
        if begins and not above.rstrip().endswith("::") and not above.lstrip().startswith(".."):
            marked += [f"{' ' * depth_above}.. code-block:: none", ""]
        marked.append(line)
        above = line if line.strip() else above
    lines[:] = marked


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before numpydoc, which reads the same lines."""
    app.connect("autodoc-process-docstring", mark, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
