"""A run to be hit: python -m tests.campaign.child folder engine; goes on from the checkpoint if there is one."""

import signal
import sys
from pathlib import Path

import consensus
from consensus.engines import Processes
from tests.campaign.started import write

PAUSE = 0.002  # seconds a round
STOPPED = 5  # exit code after ctrl-C


def run(engine="stacked", pause=0.0, **options):
    import engine_cases  # whose folder `started` has put on the path

    return engine_cases.slow(pause).run(engine=engine, **options)


def main(folder, engine):
    kind, _, workers = engine.partition(":")
    path = folder / "run.ckpt"
    try:
        engine = Processes(int(workers)) if kind == "processes" else kind
        result = run(engine, PAUSE, checkpoint=path, resume=path if path.exists() else None)
    except consensus.Interrupted:
        sys.exit(STOPPED)
    if kind != "mpi" or consensus.engines.MPI().root:
        write(folder / "result.npz", result)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs are born ignoring
    main(Path(sys.argv[1]), sys.argv[2])
