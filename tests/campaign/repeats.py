"""Many runs in a row in one process: memory, descriptors and threads do not grow.

As a script, the figures after every run: python -m tests.campaign.repeats file count
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
SLACK = 6 << 20  # bytes that the memory of a process may waver by


def search(count, seed=0):
    """What grew between a third of ``count`` runs, when all is loaded, and the last; nothing here is left to chance."""
    with tempfile.TemporaryDirectory() as folder:
        run = Started(folder, "tests.campaign.repeats", Path(folder, "figures"), count)
        code = run.wait(ENDING)
        left = run.left()
        if code != 0:
            return Outcome(count, [f"ended with {code}: {run.said()[-500:]}"])
        figures = json.loads(Path(folder, "figures").read_text())
    findings = [f"left {text}" for text in left]
    early, late = figures[count // 3], figures[-1]
    for name in ("descriptors", "threads", "children", "shared memory"):
        if late[name] > early[name]:
            findings.append(f"{name} grew from {early[name]} to {late[name]} over {count - count // 3} runs")
    grown = late["bytes"] - early["bytes"]
    if grown > SLACK:
        findings.append(f"memory grew by {grown >> 10} KiB over {count - count // 3} runs")
    return Outcome(count, findings, f"{late['bytes'] >> 20} MiB, {grown >> 10} KiB more than after {count // 3} runs")


def figures():
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
    import engine_cases

    from consensus.engines import Processes

    cases, seen = list(engine_cases.saved().values()), []
    checkpoint = path.with_name("run.ckpt")
    for number in tqdm(range(count), desc="runs in a row", disable=None):
        case = cases[number % len(cases)]
        engine = Processes(2) if number % 4 == 3 else "stacked"
        case.run(engine=engine, rounds=8, checkpoint=checkpoint)
        case.run(engine="stacked", resume=checkpoint)
        seen.append(figures())
    path.write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
