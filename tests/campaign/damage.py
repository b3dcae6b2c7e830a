"""Damage files of every format that the package reads: each is read as it was, or refused by its name."""

import json
import random
import tempfile
from pathlib import Path

import numpy as np

from tests.campaign import calls
from tests.campaign.files import FORMATS
from tests.campaign.outcome import Outcome

REFUSALS = ("result", "ValueError", "FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError")
# A checkpoint whose numbers were changed on purpose may be read, and then blow up.
REFUSALS += ("DivergenceError",)


def _truncated(data, rng):
    return data[: rng.randrange(len(data))]


def _flipped(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    return bytes(data)


def _zeroed(data, rng):
    first = rng.randrange(len(data))
    length = min(rng.randrange(1, 200), len(data) - first)
    return data[:first] + bytes(length) + data[first + length :]


def _cut_out(data, rng):
    first = rng.randrange(len(data))
    return data[:first] + data[first + rng.randrange(1, 200) :]


def _doubled(data, rng):
    return data + data[rng.randrange(len(data)) :]


def _cells(data, rng):
    """Another text in one cell, or one cell more or less in a line."""
    lines = data.decode().split("\n")
    row = rng.randrange(len(lines) - 1)
    cells = lines[row].replace(";", ",").split(",")
    odd = ("", "nan", "inf", "-1e999", "text", "é", "0x10", "1_000", '"', "1e5 ", "\x00", "=1+1", "9" * 400, "True", "-", "²")
    at = rng.randrange(len(cells))
    cells[at : at + 1] = rng.choice(([rng.choice(odd)], [rng.choice(odd)], [rng.choice(odd)], [], [cells[at], "1"]))
    lines[row] = (";" if ";" in data.decode() else ",").join(cells)
    return "\n".join(lines).encode()


BYTES = (_truncated, _truncated, _flipped, _flipped, _zeroed, _cut_out, _doubled)
WHOLE = (
    b"",
    b"\0" * 100,
    b"\n\n\n",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"null",
    b"[]",
    b"\xff\xfe\xff",
    b"a,b\n",
    bytes(range(256)),
)


def _json(text, rng):
    """One key of a JSON object left out, or with another value."""
    content = json.loads(text)
    key = rng.choice(list(content))
    odd = (None, -1, 0, 1.5, 10**30, "text", [], {}, True, content[key] + 1 if isinstance(content[key], int) else "text")
    content[key] = rng.choice(odd)
    if rng.random() < 0.3:
        del content[key]
    return json.dumps(content).encode()


def _arrays(path, rng):
    """One array of an npz file left out, or replaced by one of another kind or shape; which and how."""
    with np.load(path) as file:
        arrays = dict(file)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    how = "JSON"
    if name == "about":
        arrays[name] = np.frombuffer(_json(array.tobytes(), rng), np.uint8)
    else:
        makers = {
            "objects": lambda: array.astype(object),
            "text": lambda: array.astype(str),
            "complex": lambda: array + 1j,
            "NaN": lambda: np.full(array.shape, np.nan),
            "an axis more": lambda: array[..., None] if array.ndim else np.zeros(3),
            "a row less": lambda: array[:-1] if array.ndim else np.float64(0.5),
            "empty": lambda: np.array([]),
        }
        how = rng.choice(list(makers))
        arrays[name] = makers[how]()
    if rng.random() < 0.2:
        how = "gone"
        del arrays[name]
    np.savez(path.with_suffix(".new"), **arrays)
    path.with_suffix(".new.npz").replace(path)
    return f"{name}: {how}"


def damaged(name, folder, rng):
    """Write a good file of the format ``name`` into a folder and damage it; how, and whether it must be refused now."""
    form = FORMATS[name]
    form.write(folder)
    path = folder / form.name
    text, arrays = path.suffix in (".csv", ".json"), path.suffix in (".npz", ".ckpt")
    kind = rng.choice(("bytes", "bytes", "bytes", "contents", "contents", "whole", "folder", "gone"))
    if kind == "contents" and arrays:
        how = _arrays(path, rng)
        # What a checkpoint's columns should be only its writer knows; text is classes.
        return how, name != "checkpoint" and how != "y: text"
    if kind == "contents" and text:
        data = path.read_bytes()
        path.write_bytes(_json(data.decode(), rng) if path.suffix == ".json" else _cells(data, rng))
        return kind, False
    if kind in ("folder", "gone"):
        path.unlink()
        if kind == "folder":
            path.mkdir()
        return kind, True
    if kind == "whole":
        path.write_bytes(rng.choice(WHOLE))
        return kind, True
    how = rng.choice(BYTES)
    path.write_bytes(how(path.read_bytes(), rng))
    return how.__name__.strip("_"), False


def search(count, seed=0, workers=2):
    """Read ``count`` damaged files, in equal parts of all formats."""
    rng = random.Random(seed)
    names = [list(FORMATS)[number % len(FORMATS)] for number in range(count)]
    return _search([(name, lambda folder, name=name: damaged(name, folder, rng)) for name in names], workers)


def search_bits(count, seed=0, workers=2):
    """Resume from ``count`` checkpoints with one bit flipped: they are refused, or the run goes on to the same bits."""
    rng = random.Random(seed)

    def flip(folder):
        form = FORMATS["checkpoint"]
        form.write(folder)
        data = bytearray((folder / form.name).read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (folder / form.name).write_bytes(data)
        return "a bit", False

    return _search([("checkpoint", flip)] * count, workers)


def _search(harms, workers):
    findings, asked = {}, []
    with tempfile.TemporaryDirectory() as top:
        for number, (name, harm) in enumerate(harms):
            folder = Path(top, f"case{number}")
            folder.mkdir()
            how, altered = harm(folder)
            text = f"files.read({name!r}, {str(folder)!r}, {altered=}, sealed={': ' not in how})"
            asked.append(calls.Call(f"{name}, {how}", text, (), (folder.name,)))
        for call, answer in calls.run(asked, workers, bar="files"):
            wrong = answer.finding or ("" if answer.kind in REFUSALS else f"{answer.kind} instead of a ValueError")
            if wrong:
                place = answer.where or "outside"
                findings.setdefault((call.door.split(", ")[0], answer.kind, place), f"{place} | {call.door} | {wrong}")
    return Outcome(len(asked), sorted(findings.values()))
