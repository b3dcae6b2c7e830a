"""A slow link between two network namespaces: packets pass through this process, late, at a limited rate, or not at all.

usage: slow_link.py delay bandwidth loss pid address pid address
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

NAME = "link0"  # of the interface in both namespaces
_CREATE, _PACKETS = 0x400454CA, 0x1001  # TUNSETIFF; IFF_TUN | IFF_NO_PI
_MOST = 65_000  # bytes of a packet
_NETWORKS = 0x40000000  # CLONE_NEWNET


def tunnel(pid: int, address: str) -> int:
    """Make an interface in the network namespace of a process; return the descriptor on which its packets are read."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net") as namespace:
        if libc.setns(namespace.fileno(), _NETWORKS):
            raise OSError(ctypes.get_errno(), f"the network of process {pid} cannot be entered")
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _CREATE, struct.pack("16sH22x", NAME.encode(), _PACKETS))
    for command in (
        ["addr", "add", f"{address}/24", "dev", NAME],
        ["link", "set", NAME, "mtu", str(_MOST), "txqueuelen", "10000", "up"],
    ):
        subprocess.run(["ip", *command], check=True)
    return descriptor


def forward(ends: tuple[int, int], delay: float, bandwidth: float, loss: float) -> None:
    """Pass packets on until the process ends.

    Parameters
    ----------
    ends : (int, int)
        Descriptors of the two interfaces.
    delay : float
        Seconds from one end to the other.
    bandwidth : float
        Bytes a second, each way.
    loss : float
        Probability that a packet is lost.
    """
    draws = random.Random(0)
    other = dict(zip(ends, ends[::-1], strict=True))
    free = dict.fromkeys(ends, 0.0)  # when the link can take the next packet
    underway: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait = max(0.0, underway[0][0] - time.monotonic()) if underway else None
        for end in select.select(ends, [], [], wait)[0]:
            packet, now = os.read(end, 2 * _MOST), time.monotonic()
            if draws.random() < loss:
                continue
            free[end] = max(free[end], now) + len(packet) / bandwidth
            number += 1
            heapq.heappush(underway, (free[end] + delay, number, other[end], packet))
        while underway and underway[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(underway)
            os.write(to, packet)


if __name__ == "__main__":
    delay, bandwidth, loss = map(float, sys.argv[1:4])
    first, second = (tunnel(int(pid), address) for pid, address in zip(sys.argv[4::2], sys.argv[5::2], strict=True))
    print("ready", flush=True)
    forward((first, second), delay, bandwidth, loss)
