"""Start of ranks of ``torch.distributed``: rank and address from torchrun, SLURM or the user."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from consensus import _checks

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_FIRST_PORT, _PORTS = 20_000, 10_000  # of SLURM's jobs: below those that systems give to connections


class Start(NamedTuple):
    """Arguments of ``torch.distributed.init_process_group``, by which a rank joins the others.

    Attributes
    ----------
    init_method : str
        URL at which ranks meet.
    rank, world_size : int
        The rank, and the number of ranks.
    """

    init_method: str
    rank: int
    world_size: int

    @classmethod
    def of(
        cls, init_method: str | None, rank: int | None, size: int | None, environment: Mapping[str, str] = os.environ
    ) -> Start:
        """Return how this process joins the others.

        Parameters
        ----------
        init_method : str, optional
            As the user gives it; by default the environment says where ranks meet.
        rank, size : int, optional
            As the user gives them; by default from the environment.
        environment : mapping of str to str
            The variables.

        Returns
        -------
        Start
            All three.

        Raises
        ------
        ValueError
            If one of them is missing or out of range.
        """
        if init_method is not None and not (isinstance(init_method, str) and "://" in init_method):
            raise ValueError(
                "init_method must be a URL, such as 'tcp://10.0.0.1:23456' or 'file:///shared/run'; got "
                f"{_checks.shown(init_method)}"
            )
        slurm = "SLURM_PROCID" in environment and "RANK" not in environment
        if init_method is None:
            init_method = _slurm_address(environment) if slurm else _address(environment, rank, size)
        names = ("SLURM_PROCID", "SLURM_NTASKS") if slurm else ("RANK", "WORLD_SIZE")
        if slurm and "SLURM_STEP_NUM_TASKS" in environment:
            names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")  # of this srun, which may start fewer than the job could
        size = _number("size", size, names[1], environment, least=1)
        rank = _number("rank", rank, names[0], environment, least=0)
        if rank >= size:
            raise ValueError(f"rank must be below size, the number of ranks, {size}; got {rank}")
        return cls(init_method, rank, size)


def _number(name: str, given: int | None, variable: str, environment: Mapping[str, str], least: int) -> int:
    if given is not None:
        return _checks.count(name, given, least)
    if variable not in environment:
        raise ValueError(f"{name} must be given beside init_method, as the environment has no {variable}")
    text = environment[variable]
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"the environment's {variable} must be a whole number >= {least}; got {text!r}")
    return int(text)


def _address(environment: Mapping[str, str], rank: int | None, size: int | None) -> str:
    given = {"RANK": rank, "WORLD_SIZE": size}
    missing = [name for name in _TORCHRUN if name not in environment and given.get(name) is None]
    if missing:
        raise ValueError(
            f"the Torch engine finds no other ranks, as the environment has no {', '.join(missing)}: start the script by "
            "torchrun --nproc-per-node 4 script.py or by srun, or give init_method='tcp://host:port', rank=... and size=..."
        )
    return "env://"  # not tcp://: torchrun has a server of its own there


def _slurm_address(environment: Mapping[str, str]) -> str:
    """Return the first machine of this step, and a port that other jobs there do not use."""
    hosts = next(filter(None, map(environment.get, ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"))), None)
    host = environment.get("MASTER_ADDR") or (_first_host(hosts) if hosts else environment.get("SLURM_LAUNCH_NODE_IPADDR"))
    if host is None:
        raise ValueError(
            "SLURM's environment has SLURM_PROCID, but neither SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, SLURM_NODELIST nor "
            "SLURM_LAUNCH_NODE_IPADDR: set MASTER_ADDR to the machine of the first rank"
        )
    if "MASTER_PORT" in environment:
        return f"tcp://{host}:{_number('port', None, 'MASTER_PORT', environment, least=1)}"
    job, step = (int(environment.get(name) or 0) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    return f"tcp://{host}:{_FIRST_PORT + (31 * job + step) % _PORTS}"


def _first_host(hosts: str) -> str:
    """Return the first machine of a list in SLURM's form: ``n03`` of ``n[03-05,9],m1``."""
    first = re.match(r"[^,\[]+(\[(\d+)[^\]]*\])?[^,\[]*", hosts)
    if first is None:
        raise ValueError(f"SLURM's list of machines must begin with a name; got {hosts!r}: set MASTER_ADDR to the first one")
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", first[0])
