"""Start scripts, with or without MPI, that can be found and ended again with all that they started."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from tests.helpers.engine_harness import KIND, MARK, MPIEXEC, Traces, assert_same, environment, living, read, write

__all__ = ["Started", "assert_same", "read", "write"]

ROOT = Path(__file__).parents[2]

GRACE = 60.0  # seconds in which the processes of an ended run must end


class Started:
    """``python -m module arguments...``, on ``ranks`` of an ``engine`` if given; its output is a file in ``folder``."""

    def __init__(self, folder, module, *arguments, ranks=None, engine="mpi"):
        self.mark, self.log = uuid.uuid4().hex, Path(folder, "stderr")
        self.traces = Traces(self.mark)
        command = [sys.executable, "-m", module, *map(str, arguments)]
        if ranks and engine == "mpi":
            command = [str(MPIEXEC), "-n", str(ranks), sys.executable, "-m", "mpi4py", *command[1:]]
        elif ranks:
            torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
            command = [sys.executable, *torchrun, *command[1:]]
        variables = environment(**{MARK: self.mark, KIND: engine, "OMP_NUM_THREADS": "1"})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, cwd=ROOT, start_new_session=True)

    def output(self):
        return self.log.read_text(errors="replace")

    def processes(self):
        """The ids of the run's processes, the one that was started first."""
        return [self.process.pid, *sorted(set(living(self.mark, helpers=False)) - {self.process.pid})]

    def wait(self, seconds):
        """The exit code; None if it is still running after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def left(self, shared=True):
        """What the run has left behind, in words: processes, which are ended, and shared memory if ``shared``."""
        deadline = time.monotonic() + GRACE
        while (processes := living(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.end()
        memory = sorted(self.traces.left()) if shared else ()
        words = [f"{len(processes)} processes"] if processes else []
        return [*words, f"shared memory {', '.join(memory)}"] if memory else words

    def end(self):
        for process in living(self.mark):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
