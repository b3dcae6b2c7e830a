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
from consensus.studies import Grid, Study
from experiments.shared import studies
from experiments.shared.curves import legend, panels
from experiments.shared.studies import options, shown

LENGTH, CHARACTERS = 64, 128  # of a sequence; of ASCII
SEQUENCES, TEST = 2000, 200  # of an agent; of the test set
MEASURED = 40  # sequences of an agent by which the loss is estimated
BATCH, LOCAL_STEPS, ROWS = 4, 30, 10
WIDTH, BLOCKS, HEADS = 128, 5, 4  # a million parameters
QUICK = {"sequences": 20, "width": 16, "blocks": 1, "heads": 2}
NETWORKS = {  # with a server, all with all: their average is the server's
    "ring": lambda agents, seed: topologies.ring(agents),
    "random pairs": lambda agents, seed: topologies.Matchings(agents, seed=seed),
    "server": lambda agents, seed: topologies.complete(agents),
}
SHOWN = {"objective": "{:.3f}", "test_error": "{:.1%}", "test_error_worst": "{:.1%}", "bytes": "{:,.0f}", "exchanges": "{:.0f}"}


def case(seed, network, agents, every, size):
    problem, test = texts(agents, seed, **size)
    return (
        problem,
        NETWORKS[network](agents, seed),
        {"test": test, "record_every": every, "metrics_on": min(MEASURED, size["sequences"])},
    )


def solvers(network, steps, local):
    """Steps fall along half a cosine over the gradients that an agent takes; the first ones are tuned."""

    def adam(make, **settings):
        return Grid(lambda step: make(CosineAnnealing(step, steps), batch=BATCH, **settings), step=[1e-3, 2e-3])

    if network == "ring":
        stochastic = Grid(lambda step: DGD(CosineAnnealing(step, steps), batch=BATCH), step=[0.2, 0.4])
        return {"D-PSGD": stochastic, "AdamW by gossip": adam(DGD, direction=AdamW())}
    if network == "random pairs":
        return {"NoLoCo": adam(NoLoCo, local_steps=local)}
    return {"DiLoCo with a server": adam(DiLoCo, local_steps=local)}


def study(folder, network, agents, steps, seeds, *, quick):
    """The loss at the end; all take as many gradients, and fewer rounds where a round has ``local`` ones."""
    local = 2 if quick else LOCAL_STEPS
    rounds = steps if network == "ring" else max(1, steps // local)
    size = QUICK if quick else {"sequences": SEQUENCES, "width": WIDTH, "blocks": BLOCKS, "heads": HEADS}
    made = functools.partial(case, agents=agents, every=max(1, rounds // ROWS), size=size)
    usual = {"rounds": rounds, "seeds": seeds, "tuning_seeds": 1, "folder": folder / network.replace(" ", "_")}
    measure = f"objective after {rounds} round"
    return Study(made, over={"network": [network]}, solvers=solvers(network, steps, local), measure=measure, **usual)


def main(arguments=None):
    quick = {"agents": 4, "rounds": 4}
    given = options(__doc__, arguments, quick, agents=8, rounds=300, seeds=1)
    folder, found = given.output / "language", {}
    for network in NETWORKS:
        done = shown(study(folder, network, given.agents, given.rounds, given.seeds, quick=given.quick))
        part = 2 / (given.agents - 1) if network == "server" else 1.0  # one message there and one back, not one from each other
        for (_, name), runs in studies.histories(done).items():
            found[name] = studies.quartiles([dict(run) | {"bytes": part * run["bytes"]} for run in runs])
    print(studies.ends(found, SHOWN, given.seeds))
    figure(found).savefig(folder / "figure.png", dpi=150)


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
    return problem, tuple(np.concatenate(part) for part in zip(*tests, strict=True))


@functools.cache
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


def figure(found):
    canvas, axes = panels(2, share="row", size=(3.2, 2.6))
    for ax, x in zip(axes, ("bytes", "epochs"), strict=True):
        studies.draw(ax, found, "objective", x, log=False, log_x=x == "bytes")
        ax.set_title(f"by {x}")
        ax.label_outer()
    axes[0].set_ylabel("loss, nats a character")
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
