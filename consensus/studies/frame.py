"""Tables of a study."""

from __future__ import annotations

import html
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas

from consensus import _extras
from consensus.studies.grid import plain


class StudyTable(pandas.DataFrame):  # type: ignore[misc]  # pandas has no types
    """A pandas frame; its LaTeX and Markdown have a caption: what it shows, of how many seeds, with which interval."""

    @property
    def _constructor(self) -> type[StudyTable]:
        return StudyTable

    @classmethod
    def of(cls, rows: list[dict[str, Any]], index: list[str], caption: str) -> StudyTable:
        """Return the table of rows, with the ``index`` columns first; lists, arrays and the like as texts."""
        rows = [{name: value if isinstance(value, Hashable) else plain(value) for name, value in row.items()} for row in rows]
        frame = pandas.DataFrame(rows)
        made = cls(frame.set_index(index) if len(frame) else frame)
        made.attrs["caption"] = caption
        return made

    @property
    def caption(self) -> str:
        """Text above the table."""
        return str(self.attrs.get("caption", ""))

    def __repr__(self) -> str:
        return f"{self.caption}\n{super().__repr__()}" if self.caption else str(super().__repr__())

    def _repr_html_(self) -> str | None:
        shown = super()._repr_html_()
        return f"<p>{html.escape(self.caption)}</p>{shown}" if self.caption and shown else shown

    def to_latex(self, buf: Any = None, **options: Any) -> Any:  # noqa: ANN401
        _extras.module("jinja2", "to_latex() of a study's table", "studies")
        caption = self.caption
        for sign in "\\&%$#_{}":
            caption = caption.replace(sign, rf"\{sign}" if sign != "\\" else r"\textbackslash ")
        text = super().to_latex(**({"escape": True, "caption": caption or None} | options))
        if options.get("escape", True):  # pandas leaves signs that other encodings of fonts show as others
            lines = (
                line if line.startswith(r"\begin") else line.replace("<", "$<$").replace(">", "$>$")
                for line in text.split("\n")
            )
            text = "\n".join(lines)
        return _written(text, buf)

    def to_markdown(self, buf: Any = None, **options: Any) -> Any:  # noqa: ANN401
        _extras.module("tabulate", "to_markdown() of a study's table", "studies")
        flat = self.reset_index()
        flat.columns = [", ".join(filter(None, map(str, one))) if isinstance(one, tuple) else str(one) for one in flat.columns]
        text = pandas.DataFrame(flat).to_markdown(**({"index": False, "disable_numparse": True} | options))
        return _written(f"{self.caption}\n\n{text}" if self.caption else text, buf)


def _written(text: str, buf: Any) -> str | None:  # noqa: ANN401  # None, a path or a file
    """Return the text, or write it to where pandas would."""
    if buf is None:
        return text
    if hasattr(buf, "write"):
        buf.write(text)
    else:
        Path(buf).write_text(text)
    return None
