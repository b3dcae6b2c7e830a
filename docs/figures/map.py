"""The map of the package: rooms of the core, from what it stands on up to ``solve``, and the additions around it."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

# From the top: each floor imports those below it.
CORE = [
    ("solve  options  result  history  errors", "one run, tied together"),
    ("engines  workers  checkpoints", "where the rows of agents are: one process, workers, ranks"),
    ("solvers  observe", "a method's update; what is recorded, when a run stops"),
    ("local  surrogates", "convex models of the costs, and their minimisers"),
    ("communication", "network.mix(round, z, y): exchanges with neighbours, counted"),
    ("problems", "costs of agents: a model, a loss, shards; a user's functions"),
    ("models  losses  regularizers  step_sizes  directions  data", "one noun a file"),
    ("_arrays  kernels  _checks", "rows, threads, sparse rows, messages, files; compiled loops"),
]
ADDITIONS = [
    ("frameworks", "PyTorch, JAX"),
    ("deep", "ResNet, DiLoCo, Muon"),
    ("device", "all agents on a GPU"),
    ("variance_reduced", "GTSAGA, GTVR, GTHSGD"),
    ("compression", "compressors, their methods"),
    ("trees", "exact sums, TreeLBFGS"),
    ("asynchronous", "without rounds"),
    ("robust", "Byzantine agents"),
    ("privacy", "noise, secure sums"),
    ("unlike", "agents of different kinds"),
    ("aggregative  online", "costs of all, costs that move"),
    ("methods", "broadcasts, acceleration"),
    ("personal", "models of one's own"),
    ("coupled", "constraints across agents"),
    ("owners", "tables that stay at home"),
    ("tables  datasets", "files, data frames, splits"),
    ("streaming", "samples read as needed"),
    ("centralized", "solve with a server"),
    ("federated  servers", "clients, parameter servers"),
    ("model_parallel", "one network, many workers"),
    ("estimators", "scikit-learn's interface"),
    ("plotting  costs  cli", "to see, to predict, to type"),
    ("overview  cvxpy_solver", "table of solvers, CVXPY"),
    ("studies", "fair comparisons, tables"),
    ("peers", "organisations, no launcher"),
    ("testing  worst_cases", "check_solver and kin, PEP"),
]
ROWS = -(-len(ADDITIONS) // 2)


def box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, shade: str, note: str
) -> None:
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.06", facecolor=shade, edgecolor="0.25"
    )
    axes.add_patch(patch)
    axes.text(x + 0.15, y + height * 0.69, text, va="center", family="monospace", fontsize=9.0)
    axes.text(x + 0.15, y + height * 0.25, note, va="center", fontsize=8.5, color="0.3")


figure, axes = plt.subplots(figsize=(10, 5.6), layout="constrained")
axes.set(xlim=(0, 13.2), ylim=(-0.95, 8.6))
axes.axis("off")
axes.text(0, 8.25, "Core: it knows no addition, and runs without them", fontweight="bold", fontsize=10.5)
axes.text(7.6, 8.25, "Additions: each imports the core", fontweight="bold", fontsize=10.5)
for floor, (names, note) in enumerate(CORE):
    box(axes, 0, 7.1 - floor, 6.9, 0.86, names, "0.92", note)
for place, (name, note) in enumerate(ADDITIONS):
    column, row = divmod(place, ROWS)
    height = 8.81 / ROWS
    box(axes, 7.6 + 2.85 * column, 7.96 - height * (row + 1) + 0.1, 2.7, height - 0.12, name, "white", note)
box(axes, 0, -0.85, 6.9, 0.72, "topologies", "0.8", "graphs, weights, schedules, what theory asks of them")
axes.annotate(
    "", (6.95, 3.9), (7.55, 3.9), arrowprops={"arrowstyle": "->", "color": "0.25", "linewidth": 1.5}
)
if __name__ == "__main__":
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)
