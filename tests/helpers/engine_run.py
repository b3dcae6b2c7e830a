"""A run to be hit: usage engine_run.py folder workers pause [rounds between observations]."""

import json
import signal
import sys
from pathlib import Path

import consensus
from consensus.engines import Processes
from tests.helpers import engine_cases
from tests.helpers.engine_harness import write


def main(folder, workers, pause, *observed):
    try:
        result = engine_cases.slow(pause, *2 * observed).run(
            engine=Processes(workers, timeout=2.0), checkpoint=folder / "run.ckpt"
        )
    except consensus.Interrupted as error:
        print(json.dumps(str(error)))
        result = error.result
    write(folder / "result.npz", result)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs are born ignoring
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:]))
