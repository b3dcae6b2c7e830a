"""Many runs in a row in one process: memory, descriptors and threads do not grow.

As a script, what the process holds after every run: python -m tests.campaign.repeats file count
"""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from tests.campaign.outcome import Outcome
from tests.campaign.started import Started

ENDING = 900.0
SLACK = 6 << 20  # bytes by which the memory of a process may vary


def search(count, seed=0):
    """What grew between a third of ``count`` runs, when all is loaded, and the last; nothing here is random."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "holdings")
        run = Started(folder, "tests.campaign.repeats", file, count)
        code = run.wait(ENDING)
        findings = [f"left {text}" for text in run.left()]
        if code != 0:
            return Outcome(count, [f"ended with {code}: {run.output()[-500:]}"])
        rows = json.loads(file.read_text())
    early, late = rows[count // 3], rows[-1]
    grown = {name: late[name] - early[name] for name in late}
    findings += [
        f"{name} grew from {early[name]} to {late[name]} over {count - count // 3} runs"
        for name, more in grown.items()
        if more > (SLACK if name == "bytes" else 0)
    ]
    return Outcome(count, findings, f"{late['bytes'] >> 20} MiB, {grown['bytes'] >> 10} KiB more than after {count // 3} runs")


def holdings():
    """What this process holds."""
    gc.collect()
    tasks = Path("/proc/self/task")
    children = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    return {
        "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir(tasks)),
        "children": len(children),
        "shared memory": Path("/proc/self/maps").read_text().count("/dev/shm/"),
    }


def main(path, count):
    from consensus.engines import Processes
    from tests.helpers import engine_cases

    cases, rows, checkpoint = list(engine_cases.saved().values()), [], path.with_name("run.ckpt")
    for number in tqdm(range(count), desc="runs in a row", disable=None):
        case = cases[number % len(cases)]
        case.run(engine=Processes(2) if number % 4 == 3 else "stacked", rounds=8, checkpoint=checkpoint)
        case.run(engine="stacked", resume=checkpoint)
        rows.append(holdings())
    path.write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
