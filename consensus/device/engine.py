"""The engine that holds all agents' rows on a device."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from consensus import _checks
from consensus._arrays.files import interrupted_later
from consensus.communication.states import flatten
from consensus.device.graphs import Rounds, mapped
from consensus.device.network import DeviceNetwork, on_device
from consensus.device.problem import DeviceFunctions, DeviceProblem, Observed, OnDevice, There
from consensus.device.rows import DeviceRows
from consensus.engines.base import Engine
from consensus.engines.protocols import Problem, Solver, State
from consensus.engines.states import Begin
from consensus.errors import DivergenceError, WorkerError
from consensus.frameworks.torch_calls import loaded
from consensus.frameworks.torch_checks import checked_device
from consensus.observe import Gathered, Observer
from consensus.problems.functions import FunctionProblem
from topologies.schedules import ScheduleLike

_LOOKED = 16  # rounds between two looks at whether the iterates are lost: each look waits for the device
_CAPTURED = 1 << 26  # numbers in rows up to which rounds are captured: larger ones are seldom short
_LARGEST = 1e150  # an iterate beyond this is lost
_REMEDY = "take engine='stacked'; docs/gpu.md lists what runs there"


@dataclass(frozen=True)
class Device(Engine):
    """Run all agents on a device, such as a GPU, by the same methods that run on NumPy.

    Rows of all agents are one tensor of PyTorch, which NumPy's operators and functions take: a method's ``step`` is that of
    one process, and its gradients, mixing, directions and proximal steps are on the device. Samples go there once. The host
    draws batches, by seed, agent and round as everywhere. Recorded rows are measured on the device, of which the host
    gets the agents' mean; it gets all iterates for test sets, and where more than their sums is asked for.

    Parameters
    ----------
    device : str
        A device of PyTorch's: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, ....
    graphs : bool or None
        Whether rounds that ask a device for the same are captured, and replayed as one CUDA graph: see Notes. None, the
        default, for a GPU of CUDA, a loss of the package's, and at most 2^26 numbers in the rows of all agents.

    Raises
    ------
    ImportError
        Without PyTorch: ``pip install 'consensus-opt[torch]'``.
    ValueError
        If the device does not exist; in :func:`consensus.solve` if a module computes on another one.
    TypeError
        In :func:`consensus.solve`, before any round: if the model, the loss or the solver has no form on a device.
    WorkerError
        In :func:`consensus.solve`: if the device runs out of memory; its ``history`` is what was recorded until then.

    Notes
    -----
    Equal to one process up to rounding. One device and version give the same bits, unless PyTorch says otherwise of its
    kernels: ``torch.use_deterministic_algorithms(True)``. Checkpoints are those of all engines: a run goes on on another one.
    Iterates that are lost are noticed in recorded rounds, and every 16.

    With ``graphs`` a method's ``step`` is called in every round, but what it asks of the device is noted, and done at once if
    a round before asked for the same; numbers of the host, such as steps, batches and matrices, are those of the round.
    Rounds in which the method looks at numbers of the device are computed call by call. The rows of the state, and what a round
    computes, are in memory a second time. What a module or a loss of one's own does beside its computations on the device is
    done while it is captured, and not again: give ``graphs=False`` if that matters.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.device import Device
    >>> from consensus.solvers import GradientTracking
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 3))
    >>> shards = consensus.partition(X, X @ [1.0, -2.0, 0.5], agents=8)
    >>> problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards)
    >>> options = {"rounds": 100, "record_every": 100}
    >>> there = consensus.solve(problem, topologies.ring(8), GradientTracking(0.1), engine=Device("cpu"), **options)
    >>> here = consensus.solve(problem, topologies.ring(8), GradientTracking(0.1), **options)
    >>> bool(abs(there.w - here.w).max() < 1e-12)
    True
    """

    device: str = "cpu"
    graphs: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", checked_device(loaded(), self.device))
        _checks.choice("graphs", self.graphs, (True, False, None))

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        problem = problem.restrict(slice(0, problem.agents))  # its own count of work
        method = on_device(solver)
        with self._memory("before the first round"):
            there = (DeviceFunctions if type(problem) is FunctionProblem else DeviceProblem)(problem, self.device)
            network = DeviceNetwork(schedule, problem.dtype, self.device)
            self._try(there, network, method, begin)
        observer.attach(cast(Problem, Observed(there)), There())
        recorder, model = observer.recorder, problem.model
        sums = recorder.test is None and recorder.personal is None and recorder.agents.secure is None
        sums = sums and (model is None or model.buffers is None)
        since, seconds = time.perf_counter(), 0.0
        state, step = self._begun(problem, there, method, begin), functools.partial(method.step, there, network)
        rounds_there = Rounds(self.device) if self._captures(there) else None
        try:
            while True:
                due = observer.due(state.round)
                if (due or state.round % _LOOKED == 0) and not float(abs(state.w).max()) < _LARGEST:
                    raise DivergenceError(state.round, solver)
                if due:
                    # They are computed, as they were looked at. They go to the host if more than their sums is measured.
                    w = state.w if sums else _here(state.w)
                    seconds += time.perf_counter() - since
                    own = _here(method.report(state)) if method.history_columns else None
                    counts = network.counts | problem.work.counts | {"traffic": network.traffic}
                    decision = observer.see(Gathered(state.round, w, own, counts, seconds))
                    reason = decision.reason
                    if decision.save or (reason and observer.saver):
                        observer.save(flatten(mapped(state, _here)))
                    if reason or state.round >= rounds:
                        observer.tick(state.round, _here(w))
                        return reason
                    since = time.perf_counter()
                else:
                    observer.tick(state.round)
                with self._memory(f"in round {state.round + 1}"):
                    if rounds_there is None:
                        state = step(state)
                    else:
                        with interrupted_later():  # a captured round writes over the state
                            state = rounds_there.step(step, state)
        except KeyboardInterrupt:
            observer.tick(state.round, _here(state.w))
            raise

    def _captures(self, there: OnDevice) -> bool:
        if self.graphs is not None:
            return self.graphs
        own = there.trusted or type(there) is DeviceFunctions  # whose functions of NumPy are called in every round
        return self.device.startswith("cuda") and own and there.agents * there.parameters <= _CAPTURED

    def _begun(self, problem: Problem, there: Any, solver: Solver, begin: Begin) -> State:  # noqa: ANN401
        if begin.resumed:
            return cast(State, mapped(begin.state(problem, solver), self._there))
        return cast(State, mapped(solver.init(there, self._there(begin.numbers["w"])), self._there))

    def _there(self, value: Any) -> Any:  # noqa: ANN401  # numbers of the host stay there
        array = isinstance(value, np.ndarray) and value.ndim and value.dtype.kind == "f"
        return DeviceRows(loaded().tensor(value, device=self.device)) if array else value

    @contextmanager
    def _memory(self, when: str) -> Iterator[None]:
        """Raise a ``WorkerError``, which gets the history so far, if the device has too little memory."""
        try:
            yield
        except loaded().cuda.OutOfMemoryError as error:
            raise WorkerError(
                f"the device {self.device!r} ran out of memory {when}: take smaller batches, features and start in float32, "
                f"fewer agents, or engine='stacked' ({str(error).partition('. ')[0]})"
            ) from error

    def _try(self, there: OnDevice, network: DeviceNetwork, solver: Any, begin: Begin) -> None:  # noqa: ANN401
        """Raise ``TypeError`` if a first round of the solver asks for what a device does not have."""
        own, trial = there.apart(), DeviceNetwork(network.schedule, network.dtype, self.device)
        try:
            with warnings.catch_warnings(action="ignore"):  # the run has them, too
                state = mapped(solver.init(own, self._there(begin.numbers["w"])), self._there)
                state = solver.step(own, trial, state)
                fits = isinstance(state.w, DeviceRows)
                if not own.trusted:
                    own.value(state.w)  # of which rows are
        except (DivergenceError, loaded().cuda.OutOfMemoryError):
            raise
        except Exception as error:
            raise TypeError(f"{type(solver).__name__} does not run on a device ({error}): {_REMEDY}") from error
        if not fits:
            raise TypeError(f"{type(solver).__name__} does not run on a device: {_REMEDY}")


def _here(value: Any) -> Any:  # noqa: ANN401
    return value.host() if isinstance(value, DeviceRows) else value
