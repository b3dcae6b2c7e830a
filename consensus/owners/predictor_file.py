"""Files of predictors: parameters, scalers, columns, classes, and the settings of the model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from consensus import _checks
from consensus.checkpoints import storage
from consensus.models import MLP, Linear, Model, ResNet
from consensus.tables.frames import Columns
from consensus.tables.pipeline import Pipeline

FORMAT = "predictor 2"
_SCALERS = ("mean", "scale", "shift", "spread")
_SETTINGS: dict[str, tuple[type[Model], tuple[str, ...]]] = {
    "Linear": (Linear, ("features", "outputs", "bias")),
    "MLP": (MLP, ("widths", "activation")),
    "ResNet": (ResNet, ("features", "width", "layers", "outputs", "step", "activation")),
}


def write(path: Path, model: Model, w: np.ndarray, pipeline: Pipeline) -> None:
    """Write what a predictor is made of; a class that is no text, number or boolean raises a ``TypeError``."""
    odd = [one for one in pipeline.classes or () if not isinstance(one, str | bool | int | float)]
    if odd:
        raise TypeError(f"classes must be text, numbers or booleans to be saved; got {_checks.shown(odd[0])}")
    about = {
        "format": FORMAT,
        "model": _described(model),
        "columns": None if pipeline.columns is None else pipeline.columns.to_dict(),
        "target": pipeline.target,
        "classes": pipeline.classes,
    }
    storage.write(path, {"w": w, **{name: np.asarray(getattr(pipeline, name)) for name in _SCALERS}}, about)


def read(path: str | os.PathLike[str], given: Model | None) -> tuple[Model, np.ndarray, Pipeline]:
    """Return what a predictor is made of; ``given`` is the model, if the file has no settings of one."""
    arrays, about = storage.read(path, "predictor", FORMAT)
    with storage.understood(path, "predictor"):
        columns, classes = about["columns"], about["classes"]
        if columns is not None:
            columns = Columns.from_dict(columns)
        mean, scale, shift, spread = (arrays[name] for name in _SCALERS)
        labels = None if classes is None else tuple(classes)
        target = tuple(about["target"]) if isinstance(about["target"], list) else about["target"]
        pipeline = Pipeline(columns, mean, scale, target, shift, spread, labels)
        w, described = _checks.floats("w", arrays["w"]), about["model"]
        name, settings, parameters = described["class"], described.get("settings"), described["parameters"]
        if w.shape != (parameters,) or not np.isfinite(w).all():
            raise ValueError(f"w must be {parameters} finite numbers; got {_checks.shown(w)}")
        own = None if settings is None else _SETTINGS[name][0](**_bounded(settings, w.size))
        if own is not None and own.parameters != w.size:
            raise ValueError(f"{own} has {own.parameters} parameters, and w {w.size}")
    if given is not None:
        return _fitting(path, described, given), w, pipeline
    if own is None:
        raise TypeError(
            f"{path} has the parameters of a model of the class {name}, and no file has its code: give the model as "
            f"consensus.load(path, model=model), made as for training, with {parameters} parameters"
        )
    return own, w, pipeline


def _bounded(settings: dict[str, Any], parameters: int) -> dict[str, Any]:
    """Return the settings of a model; raise ``ValueError``, before it is made, if so many layers have more parameters."""
    for name, value in settings.items():
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) > parameters + 1 or any(isinstance(one, int) and one > parameters for one in numbers):
            raise ValueError(f"{name} must fit to {parameters} parameters; got {_checks.shown(value)}")
    return settings


def _described(model: Model) -> dict[str, Any]:
    """Return what a file says of a model: its class, the settings of a native one, and the shapes of its parameters."""
    name = type(model).__name__
    about: dict[str, Any] = {"class": name, "parameters": int(model.parameters)}
    layout = getattr(model, "layout", None)
    if layout is not None:
        about["layout"] = [[part.name, list(part.shape)] for part in layout]
    kind, settings = _SETTINGS.get(name, (None, ()))
    if type(model) is kind:
        values = {setting: getattr(model, setting) for setting in settings}
        about["settings"] = {setting: list(value) if isinstance(value, tuple) else value for setting, value in values.items()}
    return about


def _fitting(path: object, described: dict[str, Any], given: Model) -> Model:
    """Return the ``given`` model if it is as ``described`` in the file; raise ``ValueError`` otherwise."""
    found = _described(_checks.offers("model", given, ("parameters", "predict"), "the model that was trained"))
    for what in ("class", "parameters", "layout", "settings"):
        if found.get(what) != described.get(what):
            raise ValueError(
                f"model must be the one that {path} was saved with, whose {what} is {_checks.shown(described.get(what))}; got "
                f"{_checks.shown(found.get(what))}"
            )
    return given
