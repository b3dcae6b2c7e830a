"""Rows of a device as whole multiples of units, rounded and weighed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus.communication.runs import _MOST, RUN, WIDTH
from consensus.device.rows import DeviceRows, times_power_of_two
from consensus.frameworks.torch_calls import loaded

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rounded:
    """The rows that :class:`consensus.compression.Runs` of these numbers stand for, and the sizes (agents,) of its messages.

    Both are on the device: the host is asked for nothing, and codes are not sent anywhere.
    """

    rows: DeviceRows
    bytes: Tensor

    @classmethod
    def nearest(cls, rows: Tensor, unit: Tensor) -> Rounded:
        """Round as :meth:`consensus.compression.Runs.nearest` does; but a unit that is not positive makes NaN."""
        torch, info = loaded(), np.finfo(str(rows.dtype).removeprefix("torch."))
        parts = rows.reshape(*unit.shape, -1)
        largest = parts.abs().amax(2)
        known = largest.isfinite() & unit.isfinite() & (unit > 0)
        needed = torch.where(known, largest, 0).frexp().exponent - min(_MOST, info.nmant - 1)
        mantissa, exponent = torch.where(known, unit, 1).frexp()
        exponent = torch.maximum(exponent - 1, torch.where(largest > 0, needed, info.minexp).clamp(min=info.minexp))
        used = times_power_of_two(2 * mantissa, exponent.clamp(max=info.maxexp - 1))
        codes = torch.where(known[..., None], (parts / used[..., None]).round(), 0)
        used = torch.where(known, used, torch.nan)
        moduli = torch.nn.functional.pad(codes.abs(), (0, -codes.shape[2] % RUN)).reshape(*unit.shape, -1, RUN)
        widths = torch.where(moduli.amax(3) > 0, moduli.amax(3).frexp().exponent + 1, 0).long()
        unused = widths[..., -1] * (-codes.shape[2] % RUN)
        lengths = (widths.sum(2) * RUN - unused + WIDTH * widths.shape[2] + 7) // 8
        of_units = torch.where((used.frexp().mantissa == 0.5) | ~known, 2, used.element_size())
        return cls(DeviceRows((codes * used[..., None]).reshape(rows.shape)), (lengths + of_units).sum(1))

    def unpack(self) -> DeviceRows:
        return self.rows
