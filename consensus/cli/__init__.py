"""The command ``consensus-opt``: runs from a file of settings, without a line of Python."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import consensus
from consensus import _checks
from consensus.cli.config import Config, ConfigError
from consensus.cli.log import logged
from consensus.cli.peer import peer
from consensus.cli.run import all_done, run
from consensus.cli.study import study
from consensus.cli.submit import UNFINISHED, submit
from consensus.cli.versions import info
from consensus.errors import WorkerError
from consensus.peers.certificates import fingerprint, keys

__all__ = ["Config", "ConfigError", "info", "main", "peer", "run", "study", "submit"]

STOPPED = 130  # exit code: ctrl-C, as shells have it
_PATH = partial(_checks.path, "path")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``consensus-opt``.

    The process ends with 0 if all runs ended well or a job was submitted, 1 if the settings cannot be run or submitted, 2 if
    the arguments are wrong, 3 if a run diverged or failed, and 130 on ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.

    Examples
    --------
    >>> from consensus.cli import main
    >>> try:
    ...     main(["run", "missing.toml"])
    ... except SystemExit as end:
    ...     print(end.code)
    error: cannot read missing.toml: No such file or directory
    """
    parser = argparse.ArgumentParser(prog="consensus-opt", description=consensus.__doc__)
    parser.add_argument("--version", action="version", version=consensus.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser(
        "run", help="let agents train a model as a file says", description=(run.__doc__ or "").partition("\n")[0]
    )
    runs.add_argument("config", type=_PATH, metavar="config.toml", help="see docs/command.md")
    runs.add_argument("--checkpoint", type=_PATH, metavar="FOLDER", help="write the state of every solver's run there")
    runs.add_argument("--resume", type=_PATH, metavar="FOLDER", help="go on from the checkpoints in there")
    studies = commands.add_parser("study", help="compare the solvers of a file over cases and seeds, each tuned fairly")
    studies.add_argument("config", type=_PATH, metavar="study.toml", help="see docs/command.md")
    studies.add_argument("--workers", type=int, default=1, metavar="N", help="runs at once, each in a process; default 1")
    studies.add_argument("--live", action="store_true", help="draw the figure every few seconds")
    studies.add_argument("--folder", type=_PATH, metavar="FOLDER", help="of the runs and the report, instead of the file's")
    jobs = commands.add_parser("submit", help="let SLURM run a file", description=(submit.__doc__ or "").partition("\n")[0])
    jobs.add_argument("config", type=_PATH, metavar="config.toml", help="see docs/command.md")
    jobs.add_argument("--checkpoint", type=_PATH, metavar="FOLDER", help="default: checkpoints, in the folder of the results")
    jobs.add_argument("--cluster", choices=("slurm", "local"), default="slurm", help="local: a job on this machine")
    for name, default, what in (
        ("nodes", 1, "machines"),
        ("tasks-per-node", 1, "ranks on each"),
        ("cpus-per-task", 1, "cores of a rank"),
        ("time", 60, "minutes, after which the job is queued again and goes on"),
    ):
        jobs.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{what}; default {default}")
    jobs.add_argument("--partition", metavar="NAME", help="of SLURM; its default one otherwise")
    for command in (runs, studies, jobs):
        command.add_argument(
            "--allow",
            action="append",
            default=[],
            metavar="NAME",
            help='a package: import its classes, kind = "package.module:Class"; or a folder: read and write its files',
        )
    made = commands.add_parser("keys", help="make the key and the certificate of a peer")
    made.add_argument("name", metavar="NAME", help="of the peer: see docs/peers.md")
    peers = commands.add_parser("peer", help="take part in a run of organisations, or check whether it can begin")
    peers.add_argument("config", type=_PATH, metavar="run.toml", help="the same file everywhere: see docs/peers.md")
    peers.add_argument("--me", required=True, metavar="NAME", help="which of its peers this one is")
    peers.add_argument("--check", action="store_true", help="only look for what is wrong, and who can mend it")
    peers.add_argument("--resume", action="store_true", help="all peers had ended, and go on from their checkpoints")
    commands.add_parser("info", help="print versions, cores, MPI and accelerators")
    options = parser.parse_args(arguments)
    if options.command == "info":
        print(info())
        return
    if options.command == "study":
        _study(options)
        return
    if options.command == "submit":
        _submit(options)
        return
    if options.command == "keys":
        _keys(options.name)
        return
    if options.command == "peer":
        _peer(options)
        return
    try:
        config = Config.read(options.config, options.allow)
        with logged():
            results = run(config, options.checkpoint, options.resume)
    except ConfigError as error:  # the user's file, not our code: no traceback
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        written = options.checkpoint and any(options.checkpoint.glob("*.ckpt"))
        again = f": go on with --resume {options.checkpoint}" if written else ""
        print(f"\nstopped by the user{again}", file=sys.stderr)
        sys.exit(STOPPED)
    if not all_done(config, results):
        sys.exit(UNFINISHED)


def _study(options: argparse.Namespace) -> None:
    try:
        with logged(once=True):
            done = study(Config.read(options.config, options.allow), options.workers, live=options.live, folder=options.folder)
            tables = [done.table(), done.grids()]
            report = done.report()
    except ValueError as error:  # the user's file, not our code: no traceback
        sys.exit(f"error: {error}")
    except KeyboardInterrupt as stopped:
        print(f"\n{stopped or 'stopped by the user'}", file=sys.stderr)
        sys.exit(STOPPED)
    for table in tables:
        if len(table):
            print(f"{table.caption}\n\n{table.to_string()}\n")
    print(f"The report is {report}, and every run a file beside it.")


def _keys(name: str) -> None:
    try:
        key, certificate = keys(name)
    except (ValueError, OSError, ImportError) as error:  # of the user or the folder, not our code: no traceback
        sys.exit(f"error: {error}")
    digest = fingerprint(certificate.read_bytes()).hex()
    print(f"{key} stays here; {certificate} goes to the other peers, who compare its fingerprint with yours:\n{digest}")


def _peer(options: argparse.Namespace) -> None:
    try:
        if options.check:
            from consensus.peers import check

            findings = []
            for finding in check(options.config, options.me):
                findings.append(finding)
                print(finding, flush=True)
            sys.exit(0 if all(finding.right for finding in findings) else 1)
        with logged():
            result = peer(Config.read(options.config), options.me, options.resume)
    except (ConfigError, ImportError) as error:  # the user's file, not our code: no traceback
        sys.exit(f"error: {error}")
    except WorkerError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("\nstopped by the user: the same command goes on, as long as the others wait", file=sys.stderr)
        sys.exit(STOPPED)
    last = result.history.last()
    print(f"{result.reason}; objective {last['objective']:.6g} in round {last['round']}")


def _submit(options: argparse.Namespace) -> None:
    asked = {name: value for name, value in vars(options).items() if name not in ("command", "config", "allow")}
    try:
        job = submit(Config.read(options.config, options.allow), **asked)
    except (ValueError, ImportError) as error:  # the user's file or cluster, not our code: no traceback
        sys.exit(f"error: {error}")
    print(f"job {job.job_id}: its output goes to {job.paths.stdout}")
