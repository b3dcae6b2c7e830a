"""Bounds of settings, in the metadata of their fields."""

from dataclasses import Field, fields
from typing import Any

from consensus import _checks

_BOUNDS = ("least", "above", "most", "below")


def within(setting: Field[Any], value: Any, name: str) -> Any:  # noqa: ANN401  # of a setting
    """Return ``value`` as the number or whole number of its field's bounds, as it is where there are none.

    None stays None if it is the default. Raise ``ValueError`` out of bounds.
    """
    if "count" in setting.metadata:
        return _checks.count(name, value, least=setting.metadata["count"])
    bounds = {bound: setting.metadata[bound] for bound in _BOUNDS if bound in setting.metadata}
    if not bounds or (value is None and setting.default is None):
        return value
    return _checks.number(name, value, **bounds)


def check_fields(owner: Any) -> None:  # noqa: ANN401  # a frozen dataclass, whose fields are set to what is checked
    """Raise an error if a field of ``owner`` is out of the bounds in its metadata, or no flag where its default is one."""
    for setting in fields(owner):
        name = f"{setting.name} of {type(owner).__name__}"
        value = within(setting, getattr(owner, setting.name), name)
        if isinstance(setting.default, bool):
            value = _checks.flag(name, value)
        object.__setattr__(owner, setting.name, value)
