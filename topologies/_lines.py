"""Lines of text files, cut into fields: edges and contacts, separated by a sign or by white space, with quotes and comments."""

import csv
import gzip
import itertools
import math
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from topologies._checks import shown

SIGNS = {",": "a comma", ";": "a semicolon", "\t": "a tab", " ": "white space"}
_TIMES = """t time times timestamp timestamps ts unixts unixtime epoch date datetime dates when second seconds sec secs begin
start starttime tstart begintime"""
_FROM = (
    """i u from source src a node1 nodeid1 user1 id1 idi agent1 person1 sender tail fromnodeid fromnode fromid ni nodei v1 p1"""
)
_TO = """j v to target dst dest destination b node2 nodeid2 user2 id2 idj agent2 person2 receiver recipient head tonodeid tonode
toid nj nodej v2 p2"""
_OTHER = """w weight weights rating value count duration distance dist rssi day hour minute idx index row line no nr number"""
TIMES, FROM, TO, OTHER = (frozenset(names.split()) for names in (_TIMES, _FROM, _TO, _OTHER))
MISSING = ("nan", "na", "n/a", "<na>", "null", "none", "nat")  # in lower case
ENDS = frozenset(["end", "stop", "until", "endtime", "stoptime", "tend", "finish"])


def plain(name: str) -> str:
    """Return a name of a column in lower case, letters and digits alone, as in the sets above."""
    return re.sub(r"[\W_]", "", name.lower())


def is_number(field: str) -> bool:
    """Return whether a field is a number, or nan or inf."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def iso(text: str) -> datetime | None:
    """Return the date of a text in ISO 8601, or None."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def integers(names: list[str]) -> bool:
    """Return whether all names are whole numbers as `int` writes them."""
    return all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in names)


def whole(names: Collection[str]) -> dict[str, str]:
    """Return names with decimals or exponents as `int` writes them, such as 1.0 and 1e+00, if all names are whole numbers."""
    values = {name: float(name) for name in names if is_number(name)}
    if len(values) < len(names) or not all(value.is_integer() and abs(value) < 2.0**53 for value in values.values()):
        return {}
    return {name: str(int(value)) for name, value in values.items() if not name.removeprefix("-").isdecimal()}


def sign(names: Iterable[str]) -> str | None:
    """Return the first name without letters and digits, such as ->; None if there is none."""
    return next((name for name in names if name and not any(one.isalnum() or one > "\x7f" for one in name)), None)


def no_name(column: Sequence[str]) -> tuple[int, str] | None:
    """Return the place of the first field of a column that is no name, and why; None if there is none."""
    names = list(dict.fromkeys(column))
    if found := sign(names):
        return column.index(found), f"{found!r} has neither letters nor digits, and is no name"
    if all(name[:1] in ("(", "[") for name in names):
        return 0, f"{names[0]!r} is a part of a pair, and no name"
    if all(map(is_number, names)):
        for name in names:
            if math.isfinite(float(name)) and not float(name).is_integer():
                return column.index(name), f"{name}, in a column of numbers, is no name"
    return None


class Lines:
    """The lines of a text file that are neither empty nor comments, as lists of fields, read once.

    A comment is a line that begins with ``%``, and text after ``#``, except between quotes. The first line says which of comma,
    semicolon and tab separates the fields: the one that gives at least `least` of them, and white space if there is none. Then
    a date and a time of day are one field.

    Attributes
    ----------
    number, text, above : int, str, str
        Number of the line that was read last, counted from 1, its text, and the last comment above the first line.
    sep : str or None
        The sign that separates fields; a blank for white space.
    """

    def __init__(self, path: str | os.PathLike[str], least: int, sep: str | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be the path of a text file, got {path!r}")
        if sep is not None and sep not in SIGNS:
            raise ValueError(f"sep must be one of {', '.join(map(repr, SIGNS))}, or None; got {sep!r}")
        self.path, self.least, self.sep = os.path.expanduser(os.fspath(path)), least, sep
        self.number, self.text, self.above = 0, "", ""

    def error(self, why: object) -> ValueError:
        """Return the error of the line that was read last."""
        return ValueError(f"{self.path}, line {self.number}, {shown(self.text)}: {why}")

    def __iter__(self) -> Iterator[list[str]]:
        try:
            with (gzip.open if str(self.path).endswith(".gz") else open)(self.path, "rt", encoding="utf-8-sig") as file:
                yield from self._fields(self._bare(file))
        except FileNotFoundError:
            raise
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path} is not UTF-8 text ({error})") from None
        except (OSError, EOFError, zlib.error) as error:  # a directory, a damaged gzip file, no permission
            raise ValueError(f"{self.path} cannot be read ({error})") from error

    def split(self, text: str) -> list[str]:
        """Return the fields of a comment, which may name the columns."""
        try:
            return self._cut(text[1:].strip(), self.sep or " ")
        except ValueError:
            return []

    def _bare(self, file: Iterator[str]) -> Iterator[str]:
        """Yield lines without comments and blanks around them."""
        begun = False
        for number, line in enumerate(file, 1):
            bare = line.strip()
            if bare[:1] in ("#", "%"):
                self.above = self.above if begun else bare
                continue
            if "#" in bare:
                parts = bare.split('"')  # those at odd places are quoted
                for k in range(0, len(parts), 2):
                    if "#" in parts[k]:
                        bare = '"'.join([*parts[:k], parts[k].partition("#")[0]]).strip()
                        break
            if bare:
                begun, self.number, self.text = True, number, line.rstrip()
                yield bare

    def _fields(self, lines: Iterator[str]) -> Iterator[list[str]]:
        for line in lines:
            self.sep = self.sep or self._separator(line)
            yield self._cut(line, self.sep)

    def _separator(self, line: str) -> str:
        likely = [sep for sep in ",;\t" if sep in line and self._suits(line, sep)]
        if len(likely) > 1:
            signs = " or ".join(SIGNS[sep] for sep in likely)
            raise self.error(f"its fields may be separated by {signs}; pass sep={likely[0]!r} or sep={likely[1]!r}")
        return likely[0] if likely else " "

    def _suits(self, line: str, sep: str) -> bool:
        try:
            return len(self._cut(line, sep)) >= self.least
        except ValueError:  # quotes end elsewhere
            return False

    def _cut(self, line: str, sep: str) -> list[str]:
        if '"' in line:
            return self._quoted(line, sep)
        if sep != " ":
            return [field.strip() for field in line.split(sep)]
        fields = line.split()
        if ":" in line:
            for k, (day, clock) in enumerate(itertools.pairwise(fields)):
                if ":" in clock and not is_number(day) and iso(day) and iso(f"{day} {clock}"):
                    return [*fields[:k], f"{day} {clock}", *fields[k + 2 :]]
        return fields

    def _quoted(self, line: str, sep: str) -> list[str]:
        """Return the fields of a line with quotes, as csv has them; blanks may stand around quotes."""
        if sep == " ":
            line = line.replace("\t", " ")
        else:
            line = re.sub(rf'"\s+(?={re.escape(sep)}|$)', '"', line)
        try:
            (fields,) = csv.reader([line], delimiter=sep, skipinitialspace=True, strict=True)
        except csv.Error as error:
            raise self.error(f"its quotes are not closed where they should be ({error})") from None
        return [field.strip() for field in fields]
