"""Every solver on every schedule and problem: equal bits on all engines, or refused on all in the same words.

As a script, what comes out on some engines: python -m tests.campaign.combinations file count seed engine ...
"""

import hashlib
import itertools
import json
import multiprocessing
import random
import sys
import tempfile
import warnings
from pathlib import Path

from tqdm import tqdm

from tests.campaign.outcome import Outcome
from tests.campaign.started import Started

JOBS = {("stacked", "processes"): None, ("mpi",): 3}  # engines of one job, and on how many ranks
ENDING = 1500.0  # seconds for the tables of a job
ROUNDS = 5
SIZES = [2, 30, 7, 21, 1, 20, 9]


def search(count, seed=0):
    """``count`` of the combinations, drawn at random; all of them if there are as many."""
    said, findings, names = {}, [], chosen(count, seed)
    with tempfile.TemporaryDirectory() as folder:
        for engines, ranks in tqdm(JOBS.items(), desc="combinations", disable=None):
            path = Path(folder, engines[0])
            run = Started(folder, "tests.campaign.combinations", path, count, seed, *engines, ranks=ranks)
            code = run.wait(ENDING)
            run.end()
            if code != 0:
                return Outcome(len(names), [f"{', '.join(engines)}: ended with {code}: {run.said()[-500:]}"])
            said |= json.loads(path.read_text())
    for name in names:
        here = {engine: said[engine][name] for engine in said}
        if len(set(here.values())) > 1 or not here["stacked"].startswith(("bits", "ValueError", "TypeError")):
            findings.append(f"{name}: {here}")
    run = sum(text.startswith("bits") for text in said["stacked"].values())
    return Outcome(len(names), findings, f"{run} run, {len(names) - run} refused")


def chosen(count, seed):
    """The names of ``count`` combinations."""
    names = list(table())
    return names if count >= len(names) else random.Random(seed).sample(names, count)


def table():
    """``{"solver, schedule or problem": (problem, schedule, solver)}``; 51 solvers, 19 schedules, 12 problems."""
    import engine_cases
    import networkx as nx
    from every_solver import SOLVERS

    import consensus
    import topologies

    agents, graph = engine_cases.AGENTS, engine_cases.GRAPH
    circle = nx.DiGraph([(k, (k + 1) % agents) for k in range(agents)] + [(0, 3), (5, 2), (6, 1)])
    push, static = topologies.Static(circle, weights=topologies.push), topologies.Static(graph)
    contacts = [(k % agents, (k * k + k + 1) % agents) for k in range(30) if k % agents != (k * k + k + 1) % agents]
    schedules = {
        "static": static,
        "max degree": topologies.Static(graph, weights=topologies.max_degree),
        "laplacian": topologies.Static(graph, weights=topologies.laplacian),
        "lazy": topologies.Static(graph, weights=topologies.lazy(topologies.metropolis)),
        "fastest": topologies.Static(graph, weights=topologies.fastest),
        "sinkhorn": topologies.Static(graph, weights=topologies.sinkhorn),
        "from a matrix": topologies.schedule_from_matrix(topologies.metropolis(topologies.path(agents))),
        "push": push,
        "pull": topologies.Static(circle, weights=topologies.pull),
        "periodic": engine_cases.NETWORKS["periodic"],
        "random edges": engine_cases.NETWORKS["random"],
        "matchings": topologies.Matchings(agents, seed=1),
        "one peer": topologies.OnePeerExponential(agents),
        "links fail": topologies.LinkFailure(static, 0.3, seed=2),
        "arcs fail": topologies.LinkFailure(push, 0.3, seed=2, symmetric=False),
        "agents fail": topologies.AgentFailure(static, [(2, 1, 3), (5, 0, 4)]),
        "mobile": topologies.Mobile(agents, 0.5, 0.1, seed=0),
        "temporal": topologies.Temporal(list(range(len(contacts))), contacts, window=6.0),
        "sequence": topologies.Sequence(lambda round: topologies.path(agents) if round % 2 else graph, agents),
    }
    problem = engine_cases.problem("squared", consensus.L2(0.02))
    cases = {f"{a}, {b}": (problem, schedules[b], SOLVERS[a]) for a, b in itertools.product(SOLVERS, schedules)}
    problems, few = every_problem(), list(SOLVERS)[::8]  # processes that use JAX begin afresh, in seconds
    pairs = [(a, b) for a, b in itertools.product(SOLVERS, problems) if "JAX" not in b or a in few]
    return cases | {f"{a}, {b}": (problems[b], push if a == "Push-DIGing" else static, SOLVERS[a]) for a, b in pairs}


def every_problem():
    """Problems by name: all losses in both precisions, models of PyTorch and JAX; shards of very unequal sizes."""
    import frameworks
    import numpy as np

    import consensus

    rng, (inputs, hidden, classes) = np.random.default_rng(0), frameworks.WIDTHS
    X, targets = rng.standard_normal((sum(SIZES), inputs)), rng.standard_normal((sum(SIZES), classes))
    losses = {
        "squared": (consensus.SquaredLoss(), targets),
        "Huber": (consensus.Huber(0.5), targets),
        "logistic": (consensus.LogisticLoss(), (targets > 0).astype(float)),
        "cross-entropy": (consensus.CrossEntropy(), targets.argmax(axis=1)),
    }
    models = {"MLP": consensus.MLP([inputs, hidden, classes]), "PyTorch": frameworks.torch_mlp(), "JAX": frameworks.jax_mlp()}
    problems = {}
    for (name, model), (kind, (loss, y)), dtype in itertools.product(models.items(), losses.items(), ("float32", "float64")):
        if name == "MLP" or kind == "cross-entropy":
            shards = consensus.partition(X.astype(dtype), y, len(SIZES), "sizes", sizes=SIZES)
            problems[f"{name}, {kind}, {dtype}"] = consensus.Problem(model, loss, shards, consensus.L2(0.02))
    return problems


def outcome(engine, problem, schedule, solver):
    """A digest of all that a run gives, or how it was refused."""
    import consensus

    try:
        result = consensus.solve(problem, schedule, solver, rounds=ROUNDS, engine=engine, agent_objectives=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    digest = hashlib.sha256(result.w.tobytes())
    for name in result.history:
        digest.update(b"" if name == "seconds" else result.history[name].tobytes())
    return f"bits {digest.hexdigest()}"


START = {}  # how worker processes begin


def main(path, count, seed, *engines):
    warnings.simplefilter("ignore")
    from consensus.engines import MPI, Processes, Stacked

    if "processes" in engines:  # which begin as copies of this one, in milliseconds: they are started hundreds of times
        contexts = {method: multiprocessing.get_context(method) for method in ("fork", "spawn")}
        multiprocessing.get_context = lambda method=None: contexts[START["method"]]
    made = {name: {"stacked": Stacked, "processes": lambda: Processes(2), "mpi": MPI}[name]() for name in engines}
    cases, names = table(), chosen(count, seed)
    said = {engine: {} for engine in engines}
    for engine, name in itertools.product(engines, names):
        START["method"] = "spawn" if "JAX" in name else "fork"  # copies of a process cannot use JAX
        said[engine][name] = outcome(made[engine], *cases[name])
    if all(getattr(engine, "root", True) for engine in made.values()):
        path.write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:4]), *sys.argv[4:])
