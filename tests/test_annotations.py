"""Every public signature is annotated: what ``__all__`` of the packages names, with the public methods and properties."""

import functools
import importlib
import inspect
import pkgutil

import consensus
import topologies

OURS = ("consensus", "topologies")


def rooms(package):
    """The package, its public packages, and the modules that it exports by name, as ``consensus.step_sizes``."""
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        exported = found.name.removeprefix(f"{package.__name__}.") in package.__all__
        if (found.ispkg or exported) and "._" not in found.name:
            yield importlib.import_module(found.name)


def ours(value):
    return getattr(value, "__module__", None) is not None and value.__module__.partition(".")[0] in OURS


def public():
    """The functions behind all public names, of classes those behind their methods and properties, each by its own name."""
    for room in (*rooms(consensus), *rooms(topologies)):
        names = getattr(room, "__all__", [name for name, value in vars(room).items() if ours(value)])
        for value in (getattr(room, name) for name in names if not name.startswith("_")):
            if inspect.isfunction(value):
                yield value, False
            elif inspect.isclass(value) and ours(value):
                yield from methods(value)


def methods(kind):
    """Those of a class that are its own or of a class of ours, each with whether its first parameter is the object."""
    for base in filter(ours, kind.__mro__):
        for name, member in vars(base).items():
            if name.startswith("_") and name not in ("__init__", "__call__", "__getitem__"):
                continue
            if isinstance(member, property):
                member = member.fget
            elif isinstance(member, functools.cached_property):
                member = member.func
            function = getattr(member, "__func__", member)  # of a class method or a static one
            if inspect.isfunction(function) and function.__module__ == base.__module__ and written(function):
                yield function, not isinstance(member, staticmethod)


def written(function):
    """Whether someone wrote it in a file: not so what dataclasses and protocols make by themselves."""
    return function.__code__.co_filename == inspect.getsourcefile(inspect.getmodule(function))


def missing(function, method):
    """What of its signature is not annotated."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[method:]
    names = [parameter.name for parameter in parameters if parameter.annotation is parameter.empty]
    return names + ["return"] * (signature.return_annotation is signature.empty)


def test_every_public_signature_is_annotated():
    found = {f"{function.__module__}.{function.__qualname__}": missing(function, method) for function, method in public()}
    assert len(found) > 400
    assert {name: left_out for name, left_out in found.items() if left_out} == {}


def test_what_is_left_out_is_seen():
    def sum_of(a: int, b=0):
        return a + b

    class Own:
        def method(self, a, *rest: int) -> None: ...

    assert missing(sum_of, False) == ["b", "return"]
    assert missing(Own.method, True) == ["a"]


def test_signatures_show_the_names_that_were_written_not_what_they_stand_for():
    """``help(consensus.solve)`` began with 1,848 characters, most of them what NumPy's ``ArrayLike`` is made of."""
    shown = {f"{function.__module__}.{function.__qualname__}": str(inspect.signature(function)) for function, _ in public()}
    assert [name for name, signature in shown.items() if "numpy._typing" in signature] == []
    assert len(shown["consensus.solve.solve"]) < 1000
    assert max(map(len, shown.values())) < 1000
