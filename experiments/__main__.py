"""List the experiments, one line each, or run all of them."""

import ast
import importlib
import sys
from pathlib import Path

USAGE = """\
Run one with `python -m NAME`; `python -m NAME --help` shows its options.
`python -m experiments all` runs those marked with *, and takes the options that they share: --quick, --output, ...
"""


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    scripts = list(found(Path(__file__).parent))
    if arguments and arguments[0] == "all":
        return run_all([module for module, _, shared in scripts if shared], arguments[1:])
    if arguments:
        sys.exit(f"error: {arguments[0]!r} is none of the commands: 'all', or nothing for a list of the experiments")
    width = max(len(module) for module, _, _ in scripts)
    print(USAGE)
    for module, line, shared in scripts:
        print(f"{'*' if shared else ' '} {module:{width}}  {line}")


def run_all(modules, arguments):
    """Run experiments one after another, all with the same options; with data sets named, those that can take them."""
    named = any(argument.startswith("--dataset") for argument in arguments)
    for number, name in enumerate(modules, 1):
        module = importlib.import_module(name)
        left_out = named and getattr(module, "OWN_DATA", False)
        print(f"[{number}/{len(modules)}] {name}{', left out: it makes its own data' if left_out else ''}", flush=True)
        if not left_out:
            module.main(arguments)


def found(folder):
    """The scripts: module, the first line of the docstring, and whether it writes a folder of figures and tables."""
    packages = folder.glob("*/__main__.py")  # the script of a folder is run by the folder's name
    for script in sorted([*packages, *(path for path in folder.glob("**/*.py") if not path.name.startswith("_"))]):
        tree = ast.parse(script.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            parts = script.relative_to(folder).with_suffix("").parts
            module = ".".join((folder.name, *(part for part in parts if part != "__main__")))
            imported = {
                (node.module, name.name) for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names
            }
            shared = ("experiments.shared.studies", "Folder") in imported
            yield module, (ast.get_docstring(tree) or "").splitlines()[0], shared


if __name__ == "__main__":
    main()
