"""A small GPT learns the documentation of Python's standard library: the loss by bytes, with many and with few exchanges."""

import ast
import functools
import sysconfig
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.directions import AdamW
from consensus.solvers import DGD, DiLoCo, NoLoCo
from consensus.step_sizes import CosineAnnealing
from experiments.shared.cases import Case
from experiments.shared.curves import after_start, draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import ends, last, setting
from experiments.shared.tuning import Axis, Family

OWN_DATA = True
LENGTH, CHARACTERS = 64, 128  # of a sequence; of ASCII
SEQUENCES, TEST = 2000, 200  # of an agent; of the test set
MEASURED = 40  # sequences of an agent by which the loss is estimated
BATCH, LOCAL_STEPS, RECORDS = 4, 30, 10
WIDTH, BLOCKS, HEADS = 128, 5, 4  # a million parameters
STOCHASTIC, GOSSIP, PAIRS, SERVER = "D-PSGD", "AdamW by gossip", "NoLoCo", "DiLoCo with a server"
FALLING = "cosine"
MEASURE = "loss at the end"


def methods(steps, local):
    """``{name: Family}``: first steps to tune, which fall along half a cosine over the gradients that an agent takes."""
    adam = Axis("first step", (1e-3, 2e-3))
    return {
        STOCHASTIC: Family(
            lambda step: DGD(CosineAnnealing(step, steps), batch=BATCH), (Axis("first step", (0.2, 0.4)),), FALLING
        ),
        GOSSIP: Family(lambda step: DGD(CosineAnnealing(step, steps), batch=BATCH, direction=AdamW()), (adam,), FALLING),
        PAIRS: Family(lambda step: NoLoCo(CosineAnnealing(step, steps), local_steps=local, batch=BATCH), (adam,), FALLING),
        SERVER: Family(lambda step: DiLoCo(CosineAnnealing(step, steps), local_steps=local, batch=BATCH), (adam,), FALLING),
    }


def network(name, agents, seed):
    """A ring; random pairs; with a server, all with all: their average is the server's."""
    if name == PAIRS:
        return topologies.Matchings(agents, seed=seed)
    return topologies.Static(topologies.complete(agents) if name == SERVER else topologies.ring(agents))


def main(arguments=None):
    quick = {"agents": 4, "rounds": 4}
    experiment = Experiment("language", __doc__, arguments, agents=8, repeats=1, rounds=300, quick=quick)
    agents, steps, seeds = experiment.agents, experiment.rounds, experiment.seeds
    size = {"width": 16, "blocks": 1, "heads": 2} if experiment.quick else {"width": WIDTH, "blocks": BLOCKS, "heads": HEADS}
    cases = {seed: texts(agents, seed, 20 if experiment.quick else SEQUENCES, **size) for seed in seeds}
    local = 2 if experiment.quick else LOCAL_STEPS

    def run(name, solver, seed):
        rounds = max(1, steps // local) if name in (PAIRS, SERVER) else steps
        measured = 10 if experiment.quick else MEASURED
        return cases[seed], network(name, agents, seed), solver, {"rounds": rounds, "records": RECORDS, "metrics_on": measured}

    families = {(name,): [family] for name, family in methods(steps, local).items()}
    found = experiment.compare(("solver",), families, run, merits, what="choice of steps")
    repeats = {name: [counted(name, run, agents) for run in runs] for (name, _), runs in found.repeats.items()}
    experiment.figure(figure(repeats))
    columns = {"step": (setting, ""), "loss": ("objective", ".3f"), "wrong": ("test_error", ".3f")}
    columns |= {"worst agent": ("test_error_worst", ".3f"), "MB": (functools.partial(last, column="bytes", unit=1e6), ".4g")}
    shown = {(name,): runs for name, runs in repeats.items()}
    experiment.table(ends(shown, {"solver": ""}, columns | {"exchanges": ("exchanges", ".0f")}))


def merits(found, key, outcomes):
    return {MEASURE: last(outcomes, "objective").middle}


def counted(name, outcome, agents):
    """With a server, every agent sends one message and gets one in an exchange, not one from each other agent."""
    if name != SERVER:
        return outcome
    history = {column: outcome.history[column] for column in outcome.history}
    return outcome._replace(history=history | {"bytes": history["bytes"] * 2 / (agents - 1)})


def texts(agents, seed, sequences, width, blocks, heads):
    """Every agent has the documentation of other modules, in single precision; a sequence's targets are its next characters."""
    parts = np.array_split(documentation(), agents)
    rng, shards, tests = np.random.default_rng(seed), [], []
    for part in parts:
        cut = part[: (len(part) - 1) // LENGTH * LENGTH + 1]
        inputs, following = cut[:-1].reshape(-1, LENGTH), cut[1:].reshape(-1, LENGTH)
        drawn = rng.permutation(len(inputs))[: sequences + TEST // agents]
        shards.append((inputs[drawn[:sequences]].astype(np.float32), following[drawn[:sequences]]))
        tests.append((inputs[drawn[sequences:]].astype(np.float32), following[drawn[sequences:]]))
    model = consensus.models.JAX(gpt(heads), start(seed, width, blocks))
    problem = consensus.Problem(model, consensus.CrossEntropy(), consensus.Shards.from_list(shards))
    return Case(problem, tuple(np.concatenate(part) for part in zip(*tests, strict=True)))


def documentation():
    """The characters of all docstrings, module by module, as numbers below ``CHARACTERS``."""
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted([*root.glob("*.py"), *root.glob("[a-z]*/*.py")]):
        if not {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.relative_to(root).parts):
            nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, DOCUMENTED)]
            found += filter(None, map(ast.get_docstring, nodes))
    return np.frombuffer("\n\n".join(found).encode("ascii", "replace"), np.uint8).astype(np.int64)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def gpt(heads):
    """A decoder with norms before attention and before two layers with GELU, and no biases."""
    import jax
    import jax.numpy as jnp

    def normed(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def attention(x, block):
        samples, length, width = x.shape
        q, k, v = jnp.split((x @ block["qkv"]).reshape(samples, length, heads, 3 * width // heads), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
        scores = jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ block["out"]

    def apply(parameters, characters):
        x = parameters["characters"][characters.astype(int)] + parameters["places"]
        for block in parameters["blocks"]:
            x = x + attention(normed(x), block)
            x = x + jax.nn.gelu(normed(x) @ block["up"]) @ block["down"]
        return normed(x) @ parameters["last"]

    return apply


def start(seed, width, blocks):
    """GPT-2's variances: layers that add to the stream have smaller ones the more there are."""
    normal = np.random.default_rng(seed).standard_normal
    inner = 0.02 / np.sqrt(2 * blocks)
    return {
        "characters": 0.02 * normal((CHARACTERS, width)),
        "places": 0.02 * normal((LENGTH, width)),
        "blocks": [
            {
                "qkv": 0.02 * normal((width, 3 * width)),
                "out": inner * normal((width, width)),
                "up": 0.02 * normal((width, 4 * width)),
                "down": inner * normal((4 * width, width)),
            }
            for _ in range(blocks)
        ],
        "last": 0.02 * normal((width, CHARACTERS)),
    }


def figure(repeats):
    canvas, axes = panels(2, share="row", size=(3.2, 2.6))
    for ax, x in zip(axes, ("bytes", "epochs"), strict=True):
        draw(ax, {name: after_start(outcomes) for name, outcomes in repeats.items()}, "objective", x, log=(x == "bytes", False))
        ax.set_title(f"by {x}")
    axes[0].set_ylabel("loss, nats a character")
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
