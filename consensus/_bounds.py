"""Bounds of settings, in the metadata of their fields."""

from dataclasses import Field
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
