"""All solvers in a table: what each needs, and what it sends."""

import functools
import inspect
import itertools
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from consensus import _checks, solvers
from consensus._elsewhere import homes
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs, needs_of

if TYPE_CHECKING:
    import pandas

WIDTH = 120  # of a terminal
_GAP, _WORD = "  ", 24  # between columns; characters of a word that is not broken
_ENTRY = re.compile(r'\s*(?P<authors>[^";]+?), "[^"]+",?[^;]*?\b(?P<year>(?:19|20)\d\d)\b')
_PLAIN = str | int | float | None  # settings that are shown; of others their class is
_OPEN = "depends"  # on settings: it is known of objects only


class Row(NamedTuple):
    """A solver in words.

    ``reference`` is the first entry under *References* in its docstring, ``Authors, "Title", where, year``. ``regularizer``,
    ``cost`` and ``network`` are of its :class:`Needs`, ``directed`` the weights of :mod:`topologies` for directed graphs.
    ``sends`` lists vectors of P numbers; a mass is one, masses are A. ``settings`` has optional ones in brackets, and the
    source of a step or penalty that is not given: L_i are the agents' Lipschitz constants, L the largest, mu their mean modulus
    of convexity, lmin the least eigenvalue of W.
    """

    name: str
    reference: str
    regularizer: str
    cost: str
    network: str
    directed: str
    exchanges: str
    sends: str
    settings: str


@dataclass(frozen=True, repr=False)
class Table:
    """Rows that print aligned in a terminal, and as a table in notebooks.

    Attributes
    ----------
    rows : tuple of Row
    """

    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        widths = _widths([Row._fields, *self.rows])
        lines = [line for row in self.rows for line in _lines(row, widths)]
        return "\n".join([*_lines(Row._fields, widths), _GAP.join("-" * width for width in widths), *lines])

    def to_markdown(self) -> str:
        """Return a table in GitHub's Markdown."""
        lines = [Row._fields, ["---"] * len(Row._fields), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self.rows, columns=Row._fields)

    def _repr_html_(self) -> str:
        import pandas

        with pandas.option_context("display.max_colwidth", None):
            return str(self.to_frame().to_html(index=False))


def table(*more: Solver | type[Solver]) -> Table:
    """All solvers that :mod:`consensus.solvers` exports, those of installed packages, and ``more``: what each needs and sends.

    Packages name solvers by entry points of the group ``consensus.solvers``, which are imported here; those of the last run of
    pip are seen by a new process.

    Parameters
    ----------
    *more : Solver, or a class of them
        Solvers of one's own; or objects, whose needs depend on their settings.

    Returns
    -------
    Table
        It has ``rows``, ``to_markdown()`` and ``to_frame()``, and prints itself.

    Raises
    ------
    TypeError
        If one of ``more`` is no solver.

    Warns
    -----
    UserWarning
        If an installed package names what cannot be imported or is no solver; it is left out.

    Examples
    --------
    >>> from consensus.solvers import GradientTracking, Gossip
    >>> from consensus.solvers import table
    >>> from consensus.overview import Table
    >>> accelerated = Gossip(GradientTracking(0.1, order="cta"), exchanges=3, gap=0.2)
    >>> rows = {row.name: row for row in table(accelerated).rows}  # print(table()) prints all
    >>> Table((rows["Gossip"], rows["PushPull"], rows["SONATA"]))
    name      reference       regularizer  cost       network            directed  exchanges  sends  settings
    --------  --------------  -----------  ---------  -----------------  --------  ---------  -----  -----------------------
    Gossip    Scaman et al.   smooth       nonconvex  symmetric, static  no        3          w, y   GradientTracking,
              2017                                                                                   exchanges=3, gap=0.2
    PushPull  Pu et al. 2021  smooth       nonconvex  column stochastic  push      1          w, y   step_size; give a step
    SONATA    Scutari, Sun    prox         nonconvex  column stochastic  push      1          mass,  surrogate, step_size,
              2019                                                                            w, y   [local], [tolerance],
                                                                                                     [batch], [averaging];
                                                                                                     give a step
    """
    names = sorted(homes("consensus.solvers"), key=str.lower)
    found = dict.fromkeys(getattr(solvers, name) for name in names)  # each once: some have a former spelling, too
    known = [one for one in found if inspect.isclass(one) and issubclass(one, Solver) and not inspect.isabstract(one)]
    for one in more:
        if not (inspect.isclass(one) and issubclass(one, Solver)):
            _checks.solver(one, "each of more")
    known += [one for one in _of_packages() if one not in known]
    return Table(tuple(_row(one) for one in (*known, *more)))


def _of_packages() -> list[type[Solver]]:
    """Return the classes that installed packages name, by package and name."""
    found = []
    for point in sorted(metadata.entry_points(group="consensus.solvers"), key=lambda point: (_package(point), point.name)):
        try:
            one = point.load()
        except Exception as error:  # whatever another package's code raises
            problem = f"cannot be imported: {type(error).__name__}: {error}"
        else:
            if inspect.isclass(one) and issubclass(one, Solver) and not inspect.isabstract(one):
                found.append(one)
                continue
            problem = "is no class of solvers: derive it from consensus.solvers.Solver"
        warnings.warn(f"{point.value!r}, the solver {point.name!r} of the package {_package(point)}, {problem}", stacklevel=3)
    return found


def _package(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def _row(solver: Solver | type[Solver]) -> Row:
    def said(name: str, otherwise: object) -> Any:  # noqa: ANN401  # an attribute of any kind
        value = getattr(solver, name, otherwise)
        return _OPEN if isinstance(value, property) else value

    kind = solver if inspect.isclass(solver) else type(solver)
    needs = None if said("needs", Needs()) == _OPEN else needs_of(solver)
    needed = (_OPEN,) * 4 if needs is None else _words(needs)
    count = said("exchanges_a_round", None)
    if count is None:
        count = "found" if needs and needs.counts_exchanges else ""
    return Row(kind.__name__, _reference(kind), *needed, str(count), said("sends", ""), _settings(solver))


def _words(needs: Needs) -> tuple[str, str, str, str]:
    cost = ("convex" if needs.convex else "nonconvex") + (", of a model" if needs.model else "")
    network = "static, undirected" if needs.tree else needs.mixing + (", static" if needs.static else "")
    return needs.regularizer, cost, network, needs.directed or "no"


def _reference(kind: type) -> str:
    """Return authors and year of the first reference, ``Authors, "Title", where, year``, in a class's docstring."""
    _, _, references = (inspect.getdoc(kind) or "").partition("References\n----------\n")
    entry = _ENTRY.match(" ".join(references.split()))
    if not entry:
        return ""
    authors = entry["authors"].split(", ")
    return f"{', '.join(authors) if len(authors) < 3 else f'{authors[0]} et al.'} {entry['year']}"


def _settings(solver: Solver | type[Solver]) -> str:
    if inspect.isclass(solver):
        parameters = inspect.signature(solver).parameters
        names = ", ".join(p.name if p.default is p.empty else f"[{p.name}]" for p in parameters.values())
        asked = "step_size" in parameters and parameters["step_size"].default is inspect.Parameter.empty
        default = "give a step" if asked else getattr(solver, "default", "")
        return f"{names}; {default}" if default and isinstance(default, str) else names
    if not is_dataclass(solver):
        return ""
    values = {field.name: getattr(solver, field.name) for field in fields(solver)}
    return ", ".join(f"{k}={v!r}" if isinstance(v, _PLAIN) else type(v).__name__ for k, v in values.items())


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return widths of the columns with which a line has at most WIDTH characters, if it can, and lines are few."""

    def height(widths: list[int]) -> tuple[int, int]:
        lines = [[len(cell) for cell in _wrapped(row, widths)] for row in rows]
        return sum(map(max, lines)), sum(map(sum, lines))

    columns = list(zip(*rows))
    least = [min(_WORD, max(len(word) for cell in column for word in [*cell.split(), ""])) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH and widths != least:
        narrower = [[*widths[:k], width - 1, *widths[k + 1 :]] for k, width in enumerate(widths) if width > least[k]]
        widths = min(narrower, key=lambda widths: (*height(widths), max(widths)))
    return widths


def _wrapped(row: Sequence[str], widths: list[int]) -> list[tuple[str, ...]]:
    return [_wrap(cell, width) for cell, width in zip(row, widths)]


@functools.lru_cache(maxsize=10_000)
def _wrap(cell: str, width: int) -> tuple[str, ...]:
    return tuple(textwrap.wrap(cell, max(width, 1))) or ("",)


def _lines(row: Sequence[str], widths: list[int]) -> list[str]:
    """Return the lines of a row in a terminal: as many as its longest cell takes."""
    wrapped = itertools.zip_longest(*_wrapped(row, widths), fillvalue="")
    return [_GAP.join(f"{part:<{width}}" for part, width in zip(line, widths)).rstrip() for line in wrapped]
