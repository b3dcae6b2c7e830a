"""A file of settings, and their lines in it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from consensus import _checks

_NO_PATHS = ("kind", "label")
Key: TypeAlias = tuple[str | int, ...]  # such as ("solver", 0, "step_size")
DEEPEST = 50  # brackets in brackets: settings need a handful, and Python's calls end somewhere
HEADER = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(#.*)?$")


class ConfigError(ValueError):
    """Settings that cannot be run; the message names the file and the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from consensus.cli import Config, ConfigError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.toml")
    ...     _ = path.write_text("[dta]")
    ...     config = Config.read(path)
    >>> try:
    ...     config.table((), ["run", "data"])
    ... except ConfigError as error:
    ...     print(error)
    run.toml, line 1: 'dta' is no table; did you mean data?
    """


@dataclass(frozen=True)
class Config:
    r"""Settings, read from TOML.

    Parameters
    ----------
    path : Path
        Path of the file.
    values : dict
        What is in it; it may be changed.
    lines : dict
        The line of every key that stands on one of its own.
    allow : tuple of str
        Packages whose classes a ``kind`` may name, as ``"mypackage.module:Class"``; none by default, as that imports them. And
        folders: see :meth:`read`.
    start : dict
        Where ranks meet, as the command says: a file of settings cannot, because PyTorch trusts whoever waits there.

    Examples
    --------
    >>> import tempfile
    >>> from consensus.cli import Config
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "run.toml")
    ...     _ = path.write_text('[[solver]]\nkind = "DGD"\nstep_size = {kind = "Constant", value = 1}\n')
    ...     config = Config.read(path)
    >>> config.at(("solver", 0, "step_size", "value"))
    1
    >>> print(config.error(("solver", 0, "step_size", "value"), "too long"))
    run.toml, line 3: too long
    """

    path: Path
    values: dict[str, Any]
    lines: dict[Key, int]
    allow: tuple[str, ...] = ()
    start: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str], allow: Sequence[str] = ()) -> Config:
        """Read the settings of a file; :class:`ConfigError` if it is missing, or no TOML.

        Parameters
        ----------
        path : path
            The file.
        allow : sequence of str
            Packages whose classes the file may name, and folders whose files it may: others must be in the working folder or in
            that of the file, also at the end of links.
        """
        path = _checks.path("path", path)
        try:
            text = path.read_text(encoding="utf-8")
            values = tomllib.loads(text)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:  # it names the line
            raise ConfigError(f"{path.name} is no TOML: {error}") from error
        except RecursionError:
            values = None
        if values is None or _depth(values) > DEEPEST:
            raise ConfigError(f"{path.name} has more than {DEEPEST} tables or lists inside each other")
        found = cls(path, values, _lines(text, values), tuple(allow))
        folders = [Path.cwd(), Path(path.parent), *(Path(one).expanduser() for one in allow)]
        inside = [folder.resolve() for folder in folders if folder.is_dir()]
        for key, value in _texts(values):
            place = None if key[-1] in _NO_PATHS else _place(value)
            if place and not any(place.is_relative_to(folder) for folder in inside):
                where = f"{value!r} is outside of the working folder and of that of the file"
                raise found.error(key, f"{where}: if you trust the file, give --allow {place.parent}")
        return found

    def at(self, key: Key, otherwise: Any = None) -> Any:  # noqa: ANN401  # TOML holds any
        """Return the value at ``key``, or ``otherwise``.

        Parameters
        ----------
        key : tuple of str and int
            The names of tables and the indices of lists.
        otherwise : object
            The result if there is no such key.

        Returns
        -------
        object
            The value.
        """
        found: Any = self.values
        for part in key:
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                return otherwise
        return found

    def table(self, key: Key, allowed: Iterable[str]) -> dict[str, Any]:
        """Return the table at ``key``; :class:`ConfigError` for keys that are not ``allowed``.

        Parameters
        ----------
        key : tuple of str and int
            The place of the table.
        allowed : iterable of str
            The names that it may have.

        Returns
        -------
        dict
            The table, empty if there is none.
        """
        found = self.at(key, {})
        if not isinstance(found, dict):
            raise self.error(key, f"[{named(key)}] must be a table of settings; got {found!r}")
        for name in found:
            self.one_of((*key, name), name, allowed, f"setting of [{named(key)}]" if key else "table")
        return found

    def one_of(self, key: Key, name: object, allowed: Iterable[str], what: str) -> None:
        """Raise :class:`ConfigError` unless ``name`` is ``allowed``.

        Parameters
        ----------
        key : tuple of str and int
            The place of the name.
        name : object
            The name in the file.
        allowed : iterable of str
            The names that may stand there.
        what : str
            What errors call such a name.
        """
        names = sorted(allowed)
        if name not in names:
            close = get_close_matches(str(name), names, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            raise self.error(key, f"{name!r} is no {what}; {hint}")

    def error(self, key: Key, message: object) -> ConfigError:
        """Return an error about the value at ``key``, with its line.

        Parameters
        ----------
        key : tuple of str and int
            The place of the value.
        message : object
            The rest of the error's text.

        Returns
        -------
        ConfigError
            To be raised.
        """
        known = (key[:end] for end in range(len(key), 0, -1))
        line = next((f", line {self.lines[part]}" for part in known if part in self.lines), "")
        return ConfigError(f"{self.path.name}{line}: {message}")


def named(key: Key) -> str:
    """Return ``key`` as TOML writes it, without numbers."""
    return ".".join(part for part in key if isinstance(part, str))


def _texts(value: object, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Yield the texts in a value, and where they are."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict | list):
        for part, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*key, part))


def _place(text: str) -> Path | None:
    """Return where a text leads if it is a path, links followed; None for a sign, such as a separator, and what is no path."""
    try:
        return Path(text).expanduser().resolve() if len(text) > 1 or text == "~" else None
    except (OSError, RuntimeError, ValueError):  # too long, of no user, with a zero
        return None


def _depth(values: dict[str, Any]) -> int:
    """Return the depth of nested tables and lists, without recursion."""
    depth = 0
    level: list[Any] = [values]
    while level := [part for parts in level for part in (parts.values() if isinstance(parts, dict) else parts)]:
        level = [part for part in level if isinstance(part, dict | list)]
        depth += 1
    return depth


def _lines(text: str, values: dict[str, Any]) -> dict[Key, int]:
    """Return the line of every key: headers and ``key =`` are found in ``text`` and compared with ``values``."""
    found: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    here: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = HEADER.match(line)
        parts = _parts(header["name"] if header else line.partition("=")[0]) if header or "=" in line else ()
        if not parts:
            continue
        if header:
            if line.lstrip().startswith("[["):
                counts[parts] = counts.get(parts, -1) + 1
            here = ()
            for end in range(1, len(parts) + 1):  # a part of an array of tables is in its last one so far
                here += (parts[end - 1], counts[parts[:end]]) if parts[:end] in counts else (parts[end - 1],)
            key = here
        else:
            key = (*here, *parts)
        if Config(Path(), values, {}).at(key) is not None:  # no line of a longer text that only looks like one
            for end in range(1, len(key) + 1):
                found.setdefault(key[:end], number)
    return found


def _parts(name: str) -> tuple[str, ...]:
    """Split ``a."b.c"`` into its parts; none if it is no name."""
    try:
        found: Any = tomllib.loads(f"{name} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    parts = []
    while isinstance(found, dict):
        (part,) = found
        found = found[part]
        parts.append(part)
    return tuple(parts)
