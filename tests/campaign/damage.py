"""Damage files of every format that the package reads: each is read as it was, or named in an error."""

import json
import random
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tests.campaign import calls, files
from tests.campaign.outcome import Outcome

# A checkpoint whose numbers were changed on purpose may be read, and then the run may diverge.
ENDS = ("result", "ValueError", "FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError")
ENDS += ("DivergenceError",)
CELLS = ("", "nan", "inf", "-1e999", "text", "é", "0x10", "1_000", '"', "1e5 ", "\x00", "=1+1", "9" * 400, "True", "-", "²")
FILES = (b"", b"\0" * 100, b"\n\n\n", b"PK\x03\x04", b"\x1f\x8b\x08", b"null", b"[]", b"\xff\xfe\xff", b"a,b\n")
FILES += (bytes(range(256)),)


def _flipped(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    return bytes(data)


def _at(change):
    """Damage at a random place: ``change(data, first, end)``."""

    def damaged(data, rng):
        first = rng.randrange(len(data))
        return change(data, first, min(first + rng.randrange(1, 200), len(data)))

    return damaged


BYTES = {
    "flipped": _flipped,
    "truncated": _at(lambda data, first, end: data[:first]),
    "zeroed": _at(lambda data, first, end: data[:first] + bytes(end - first) + data[end:]),
    "cut out": _at(lambda data, first, end: data[:first] + data[end:]),
    "doubled": _at(lambda data, first, end: data + data[first:]),
}


def _cells(data, rng):
    """Another text in one cell, or one cell more or less in a line."""
    lines = data.decode().split("\n")
    row = rng.randrange(len(lines) - 1)
    cells = lines[row].replace(";", ",").split(",")
    at = rng.randrange(len(cells))
    cells[at : at + 1] = rng.choice((*3 * [[rng.choice(CELLS)]], [], [cells[at], "1"]))
    lines[row] = (";" if ";" in data.decode() else ",").join(cells)
    return "\n".join(lines).encode()


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
    array, how = arrays[name], "JSON"
    if name == "about":
        arrays[name] = np.frombuffer(_json(array.tobytes(), rng), np.uint8)
    else:
        changed = {
            "objects": array.astype(object),
            "text": array.astype(str),
            "complex": array + 1j,
            "NaN": np.full(array.shape, np.nan),
            "an axis more": array[..., None] if array.ndim else np.zeros(3),
            "a row less": array[:-1] if array.ndim else np.float64(0.5),
            "empty": np.array([]),
        }
        how = rng.choice(list(changed))
        arrays[name] = changed[how]
    if rng.random() < 0.2:
        how = "gone"
        del arrays[name]
    np.savez(path.with_suffix(".new"), **arrays)
    path.with_suffix(".new.npz").replace(path)
    return f"{name}: {how}"


def damaged(name, path, rng):
    """Damage a good file of the format ``name``; how, and whether it must be an error to read it now."""
    text, arrays = path.suffix in (".csv", ".json"), path.suffix in (".npz", ".ckpt")
    kind = rng.choice(("bytes", "bytes", "bytes", "contents", "contents", "whole", "folder", "gone"))
    if kind == "contents" and arrays:
        how = _arrays(path, rng)
        # What a checkpoint's columns should be only its writer knows; text is classes.
        return how, name != "checkpoint" and how != "y: text"
    if kind in ("folder", "gone"):
        path.unlink()
        if kind == "folder":
            path.mkdir()
        return kind, True
    if kind == "whole":
        path.write_bytes(rng.choice(FILES))
        return kind, True
    if kind == "contents" and text:
        how, change = kind, _json if path.suffix == ".json" else _cells
    else:
        how, change = rng.choice((*BYTES.items(), *list(BYTES.items())[:2]))  # the first two more often
    path.write_bytes(change(path.read_bytes(), rng))
    return how, False


def flipped_bit(name, path, rng):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return "a bit", False


def search(count, seed=0):
    """Read ``count`` damaged files, in equal parts of all formats."""
    return _search([list(files.FORMATS)[number % len(files.FORMATS)] for number in range(count)], damaged, seed)


def search_bits(count, seed=0):
    """Resume from ``count`` checkpoints with one bit flipped: an error, or the run goes on to the same bits."""
    return _search(["checkpoint"] * count, flipped_bit, seed)


def _search(names, damage, seed):
    rng, findings = random.Random(seed), {}
    with calls.evaluator() as evaluate:
        for number, name in enumerate(tqdm(names, desc="files", disable=None)):
            with tempfile.TemporaryDirectory(prefix=f"case{number}") as folder:
                how, altered = damage(name, files.write(name, folder), rng)
                text = f"files.read({name!r}, {folder!r}, {altered=}, sealed={': ' not in how})"
                answer = evaluate(calls.Call(name, text, (Path(folder).name,)))
            wrong = answer.finding or ("" if answer.kind in ENDS else f"{answer.kind} instead of a ValueError")
            if wrong:
                place = answer.where or "outside"
                findings.setdefault((name, answer.kind, place), f"{place} | {name}, {how} | {wrong}")
    return Outcome(len(names), sorted(findings.values()))
