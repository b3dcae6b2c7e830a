"""One HTML page of a results folder: plots that answer to the pointer, tables, settings; it needs no network."""

import argparse
import sys
from pathlib import Path

from experiments.report.page import page


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="of results, or of one experiment in it; report.html is written there")
    folder = parser.parse_args(arguments).folder
    if not folder.is_dir():
        sys.exit(f"error: there is no folder {folder}")
    folders = experiments_in(folder)
    if not folders:
        sys.exit(f"error: {folder} holds no experiment, a folder with 'runs' in it as `python -m experiments all` writes them")
    target = folder / "report.html"
    try:
        target.write_text(page(folders), encoding="utf-8")
    except OSError as error:
        sys.exit(f"error: cannot write {target} ({error.strerror})")
    print(f"report  {target}")


def experiments_in(folder):
    """The experiments' folders: ``folder`` itself if it is one, otherwise those in it; studies have pages of their own."""
    found = [path for path in (folder, *sorted(folder.iterdir())) if (path / "runs").is_dir()]
    return [path for path in found if not (path / "study.json").exists()]


if __name__ == "__main__":
    main()
