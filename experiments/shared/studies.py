"""Scripts that are a study: their options, and its tables."""

import argparse
from pathlib import Path


def options(about, arguments=None, quick=None, **numbers):
    """The folder for the output, and whole ``numbers`` by name: as the user gives them, or as they are here or in ``quick``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder; what is there is not run again")
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    if quick:
        parser.add_argument("--quick", action="store_true", help="a tiny version, to see that everything works")
        if parser.parse_args(arguments).quick:
            parser.set_defaults(output=Path("results", "quick"), **quick)
    return parser.parse_args(arguments)


def shown(study):
    """The study, after it was run and its tables printed, that of grids if there are any."""
    found = study.run()
    for table in filter(len, (found.table(), found.grids())):
        print(table.to_markdown())
    return found
