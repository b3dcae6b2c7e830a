"""Messages on their way as arrays with a row for each agent, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from consensus.engines.protocols import AnyState

Inbox: TypeAlias = list[tuple[Any, ...]]  # a heap of: time, place, number, when it was sent, messages, the row in them
_NUMBERS = ("time", "place", "number", "sent")


def saved(inboxes: list[Inbox], mailbox: AnyState) -> dict[str, np.ndarray]:
    """Return the messages on their way to each agent, in the first places of its row; ``mailbox`` shows their fields."""
    agents, most = len(inboxes), max(map(len, inboxes))
    fields = {"mail.count": np.array([len(inbox) for inbox in inboxes])}
    for at, name in enumerate(_NUMBERS):
        values = fields[f"mail.{name}"] = np.zeros((agents, most), float if name in ("time", "sent") else int)
        for i, inbox in enumerate(inboxes):
            values[i, : len(inbox)] = [entry[at] for entry in inbox]
    for at, (name, known) in enumerate(mailbox._asdict().items()):
        values = fields[f"mail.content.{name}"] = np.zeros((agents, most, *known.shape[2:]), known.dtype)
        for i, inbox in enumerate(inboxes):
            for k, (*_, messages, row) in enumerate(inbox):
                values[i, k] = messages[at][row]
    return fields


def restored(fields: Mapping[str, np.ndarray], mailbox: AnyState) -> list[Inbox]:
    """Return the messages of :func:`saved`."""
    inboxes = []
    for i, count in enumerate(fields["mail.count"].tolist()):
        numbers = [fields[f"mail.{name}"][i, :count].tolist() for name in _NUMBERS]
        messages = type(mailbox)(*(fields[f"mail.content.{name}"][i] for name in mailbox._fields))
        inboxes.append([(*row, messages, k) for k, row in enumerate(zip(*numbers, strict=True))])
    return inboxes
