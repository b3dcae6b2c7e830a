"""Ten agents train one neural network over a changing sparse graph: NEXT against gradient tracking and DGD.

The settings are those of demo.toml beside this file, but for what the options say.
"""

import argparse
import sys
from pathlib import Path

from consensus import datasets
from consensus.cli import Config, ConfigError, run
from consensus.solve import ENGINES

SETTINGS = Path(__file__).with_suffix(".toml")


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.demo", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of every solver")
    parser.add_argument("--agents", type=int, default=10, help="agents in the network")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the shards, the graphs and the start")
    parser.add_argument("--dataset", choices=datasets.NAMES, default="diabetes", help="regression or classification data")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="stacked", help="where the agents run")
    parser.add_argument("--output", type=Path, default=Path("results/demo"), help="folder for the figure and histories")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    config = Config.read(SETTINGS)
    config.values["run"] |= {"rounds": options.rounds, "seed": options.seed}
    config.values["data"] |= {"name": options.dataset, "agents": options.agents}
    config.values["engine"] = {"kind": options.engine}
    config.values["output"] = {"folder": str(options.output)}
    try:
        run(config)
    except ConfigError as error:  # a wrong option: no need for a traceback
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
