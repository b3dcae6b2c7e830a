"""Start scripts, with or without MPI, that can be found and ended again with all that they started."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in (ROOT, ROOT / "tests" / "helpers"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from engine_harness import MARK, MPIEXEC, Traces, assert_same, environment, living, read, write  # noqa: E402

__all__ = ["Started", "assert_same", "read", "write"]

GRACE = 60.0  # seconds for what belongs to an ended run to end


class Started:
    """``python -m module arguments...``, on ``ranks`` MPI ranks if given; its standard error is a file."""

    def __init__(self, folder, module, *arguments, ranks=None):
        self.mark, self.traces = uuid.uuid4().hex, Traces()
        self.log = Path(folder, "stderr")
        command = [sys.executable, "-m", module, *map(str, arguments)]
        if ranks:
            command = [str(MPIEXEC), "-n", str(ranks), sys.executable, "-m", "mpi4py", *command[1:]]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=environment(**{MARK: self.mark, "OMP_NUM_THREADS": "1"}),
                cwd=ROOT,
                start_new_session=True,
            )

    def said(self):
        return self.log.read_text(errors="replace")

    def others(self, word=b"tests.campaign"):
        """The ids of the workers or ranks: processes of the run, except the one that was started."""
        found = []
        for process in sorted(set(living(self.mark, helpers=False)) - {self.process.pid}):
            try:
                if word in Path(f"/proc/{process}/cmdline").read_bytes():
                    found.append(process)
            except OSError:
                continue
        return found

    def wait(self, seconds):
        """The exit code; None if it is still running after ``seconds``."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def left(self, shared=True):
        """What is still there some time after the end, in words; it is ended."""
        deadline = time.monotonic() + GRACE
        while (processes := living(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.end()
        # Open MPI's own segments are other jobs'.
        memory = [name for name in self.traces.left() if not name.startswith("sm_segment")] if shared else ()
        words = [f"{len(processes)} processes"] if processes else []
        return [*words, f"shared memory {', '.join(sorted(memory))}"] if memory else words

    def end(self):
        for process in living(self.mark):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
