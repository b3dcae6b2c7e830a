"""The command ``consensus-opt``: runs from a file of settings, without a line of Python."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import consensus
from consensus.cli.config import Config, ConfigError
from consensus.cli.info import info
from consensus.cli.run import run

__all__ = ["Config", "ConfigError", "info", "main", "run"]

UNFINISHED, STOPPED = 3, 130  # exit codes: a run diverged or failed; ctrl-C, as shells have it


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``consensus-opt``.

    The process ends with 0 if all runs ended well, 1 if the settings cannot be run, 2 if the arguments are wrong, 3 if a run
    diverged or failed, and 130 on ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(prog="consensus-opt", description=consensus.__doc__)
    parser.add_argument("--version", action="version", version=consensus.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser(
        "run", help="let agents train a model as a file says", description=(run.__doc__ or "").partition("\n")[0]
    )
    runs.add_argument("config", type=Path, metavar="config.toml", help="see docs/command.md")
    runs.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="write the state of every solver's run there")
    runs.add_argument("--resume", type=Path, metavar="FOLDER", help="go on from the checkpoints in there")
    commands.add_parser("info", help="print versions, cores, MPI and accelerators")
    options = parser.parse_args(arguments)
    if options.command == "info":
        print(info())
        return
    try:
        config = Config.read(options.config)
        results = run(config, options.checkpoint, options.resume)
    except ConfigError as error:  # the user's file, not our code: no traceback
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        again = f": go on with --resume {options.checkpoint}" if options.checkpoint else ""
        print(f"\nstopped by the user{again}", file=sys.stderr)
        sys.exit(STOPPED)
    if len(results) < max(1, len(config.at(("solver",), []))):
        sys.exit(UNFINISHED)
