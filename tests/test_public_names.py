"""The public names and the parameters of what can be called: they change on purpose, with this list."""

import importlib.util
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = Path(__file__).with_name("public_names.txt")


def described(name, value):
    """A name, and its parameters in order: ``*`` before those by name alone, ``=`` after those with a default."""
    plain = inspect.isclass(value) and issubclass(value, BaseException) and not inspect.isfunction(value.__init__)
    if plain or not (inspect.isclass(value) or inspect.isroutine(inspect.unwrap(value))):
        return name
    parameters = inspect.signature(value).parameters.values()
    shown, named = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not named:
            shown, named = [*shown, "*"], True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        named = named or p.kind is p.VAR_POSITIONAL
        shown.append(f"{star}{p.name}{'=' if p.default is not p.empty else ''}")
    return f"{name}({', '.join(shown)})"


def found():
    spec = importlib.util.spec_from_file_location("public", ROOT / "docs" / "_extensions" / "public.py")
    public = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(public)
    lines = set()
    for name in set(public.shortest().values()):
        value = public.exported_value(name)
        lines.add(described(name, value))
        if inspect.isclass(value):
            for attribute, member in inspect.getmembers(value, callable):
                ours = (getattr(member, "__module__", None) or "").split(".")[0] in ("consensus", "topologies")
                if not attribute.startswith("_") and ours:
                    lines.add(described(f"{name}.{attribute}", member))
    return sorted(lines)


def test_the_public_names_are_those_listed():
    """To change them on purpose: ``python tests/test_public_names.py``, and look at what git shows."""
    for package in ("torch", "jax"):
        pytest.importorskip(package)
    lines, listed = found(), LISTED.read_text().splitlines()
    assert sorted(set(listed) - set(lines)) == [], "gone, or with other parameters"
    assert sorted(set(lines) - set(listed)) == [], "new, or with other parameters"


def test_former_spellings_are_kept():
    """British spellings of names, of before 0.1.0; :mod:`consensus.centralised` is one, too."""
    import consensus.centralised
    from consensus import centralized, compression, plotting, solvers

    for name in centralized.__all__:
        assert getattr(consensus.centralised, name) is getattr(centralized, name)
    assert solvers.Personalised is solvers.Personalized
    assert compression.Quantised is compression.Quantized
    assert plotting.COLOURS is plotting.COLORS


if __name__ == "__main__":
    LISTED.write_text("\n".join(found()) + "\n")
