"""Runs from files of settings as jobs of SLURM."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consensus import _checks
from consensus.cli.build import attempt
from consensus.cli.config import Config
from consensus.cli.log import logged
from consensus.cli.run import Folder, all_done, begun, check, output, run
from consensus.solve import ENGINES

if TYPE_CHECKING:
    import submitit

UNFINISHED = 3  # exit code: a run diverged or failed
LEAST = 5  # minutes: SLURM's signal comes up to three minutes before the end, and ranks begin with imports
SIGNAL = "USR1@120"  # to the ranks themselves, two minutes before the time is over
SETUP = (
    "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}",
    """trap '[ $? -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"' EXIT""",  # 75: the ranks have written a checkpoint
)
ENGINE: dict[str, Callable[..., object]] = {  # settings of Torch that a file may have
    "cores": _checks.count,
    "strict": _checks.flag,
    "timeout": partial(_checks.number, above=0),
}


def submit(
    config: Config,
    checkpoint: Folder = None,
    cluster: str = "slurm",
    nodes: int = 1,
    tasks_per_node: int = 1,
    time: int = 60,
    cpus_per_task: int = 1,
    partition: str | None = None,
) -> submitit.Job[None]:
    """Submit the run of a TOML file as a job of SLURM, and return at once.

    The job runs what the file says now, on ranks of the engine ``Torch``, whatever engine the file names. When its time is
    nearly over, the ranks write their checkpoints, and the job is queued again and goes on from there, with the bits of a run
    that was never stopped. Needs submitit and PyTorch: ``pip install 'consensus-opt[slurm,torch]'``.

    Parameters
    ----------
    config : Config
        The settings.
    checkpoint : path, optional
        The folder of the checkpoints, on a disk that all nodes share; by default ``checkpoints`` in the folder of the results.
        If there are any, the job goes on from them.
    cluster : str
        ``"slurm"``, or ``"local"`` for a job on this machine, which ends when its time is over.
    nodes, tasks_per_node : int
        Machines, and ranks on each.
    time : int
        Minutes, 5 at least, that the job may take before it is queued again.
    cpus_per_task : int
        Cores of a rank.
    partition : str, optional
        The partition of SLURM; its default one otherwise.

    Returns
    -------
    submitit.Job
        With its ``job_id``, and ``paths.stdout``, the file to which the first rank writes.

    Raises
    ------
    ConfigError
        If settings cannot be run; before anything is submitted.
    ImportError
        If submitit or PyTorch is missing.
    ValueError
        If another argument is out of range, if this machine has no sbatch, or if sbatch refuses the job.
    """
    for name in ("submitit", "torch"):
        if find_spec(name) is None:
            raise ImportError(f"submitting jobs needs {name}: pip install 'consensus-opt[slurm,torch]'")
    import submitit

    _checks.choice("cluster", cluster, ("slurm", "local"))
    for name, number in (("nodes", nodes), ("tasks_per_node", tasks_per_node), ("cpus_per_task", cpus_per_task)):
        _checks.count(name, number)
    _checks.count("time", time, least=LEAST)
    if cluster == "local" and nodes > 1:
        raise ValueError(f"nodes must be 1 with cluster='local'; got {nodes}")
    if cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        raise ValueError(
            "there are no sbatch and srun on this machine: submit from a login node of a cluster with SLURM, or run the job "
            "here with cluster='local' (--cluster local)"
        )
    config = replace(config, values=config.values | {"engine": _engine(config)})
    folder = output(config)
    states = folder / "checkpoints" if checkpoint is None else _checks.path("checkpoint", checkpoint)
    agents, ranks = check(config, states, states if begun(config, states) else None), nodes * tasks_per_node
    if agents < ranks:
        raise config.error(("data", "agents"), f"{agents} agents are too few for {ranks} ranks: submit at most {agents}")

    executor = submitit.AutoExecutor(folder / "jobs", cluster=cluster)
    executor.update_parameters(
        name=config.path.stem,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        timeout_min=time,
        cpus_per_task=cpus_per_task,
        stderr_to_stdout=True,
        slurm_partition=partition,
        slurm_setup=list(SETUP),
        slurm_srun_args=[f"--cpus-per-task={cpus_per_task}"],  # some versions of srun do not take the job's
        slurm_additional_parameters={"signal": SIGNAL, "requeue": True},
    )
    meeting = Path(tempfile.gettempdir(), f"consensus-{uuid.uuid4().hex}") if cluster == "local" else None
    try:
        return executor.submit(_Rank(config, states, meeting))
    except RuntimeError as error:  # submitit's
        raise ValueError(f"sbatch refuses the job: {error}") from error


def _engine(config: Config) -> dict[str, Any]:
    """Return the engine's table for ranks: the file's if its engine is Torch."""
    found = config.at(("engine",))
    kind = found if isinstance(found, str) else config.at(("engine", "kind"), "torch")
    config.one_of(("engine", "kind"), kind, ENGINES, "kind for [engine]")
    if isinstance(found, str):  # a text alone is a kind without settings
        return {"kind": "torch"}
    given = config.table(("engine",), ("kind", *ENGINE)) if kind == "torch" else {}
    for name in given.keys() - {"kind"}:
        attempt(config, ("engine", name), ENGINE[name], name, given[name])
    return {**given, "kind": "torch"}


@dataclass(frozen=True)
class _Rank:
    """Function that each rank of a job calls.

    Parameters
    ----------
    config : Config
        The settings.
    checkpoint : Path
        The folder of the checkpoints.
    meeting : Path, optional
        The file by which ranks on this machine meet; those of SLURM have its variables.
    """

    config: Config
    checkpoint: Path
    meeting: Path | None

    def __call__(self) -> None:
        import submitit

        for number in (signal.SIGTERM, signal.SIGUSR1):  # the engine obeys them, if submitit does not
            signal.signal(number, signal.SIG_DFL)
        signal.signal(
            signal.SIGUSR2, lambda *_: os.kill(os.getpid(), signal.SIGUSR1)
        )  # submitit's own, of jobs on this machine
        config = self.config
        if self.meeting:
            here = submitit.JobEnvironment()
            start = {"init_method": self.meeting.as_uri(), "rank": here.global_rank, "size": here.num_tasks}
            config = replace(config, start=start)
        try:
            with logged():
                results = run(config, self.checkpoint, self.checkpoint if begun(config, self.checkpoint) else None)
        finally:
            if self.meeting:
                self.meeting.unlink(missing_ok=True)
        if not all_done(config, results):
            sys.exit(UNFINISHED)
