"""List the experiments: one line each, the first of its docstring."""

import ast
from pathlib import Path


def main():
    here = Path(__file__).parent
    scripts = sorted(path for path in here.glob("**/*.py") if not path.name.startswith("_"))
    entries = []
    for script in scripts:
        tree = ast.parse(script.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            module = ".".join(("experiments", *script.relative_to(here).with_suffix("").parts))
            entries.append((module, (ast.get_docstring(tree) or "").splitlines()[0]))
    width = max(len(module) for module, _ in entries)
    print("Run one with `python -m NAME`; `python -m NAME --help` shows its options.\n")
    for module, line in entries:
        print(f"  {module:{width}}  {line}")


if __name__ == "__main__":
    main()
