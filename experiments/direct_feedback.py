"""Direct feedback alignment: test error and angles with a narrow layer, for one agent and over a network of sorted labels."""

from functools import partial

import networkx as nx

import consensus
from consensus.models import DirectFeedback
from consensus.observe import alignment
from consensus.solvers import GradientTracking
from consensus.studies import Study
from experiments.shared import cases
from experiments.shared.curves import after_start, draw, own_legend, panels, plain, points, ticks
from experiments.shared.studies import Folder, finished, options, worst_error
from experiments.shared.tables import Table, last

WIDE, NARROW = 100, (1, 2, 5, 10, 20, 50, 100)  # units of the first and the third hidden layer, and of the second
SOLVERS, DECAY = {"gradient tracking": GradientTracking(0.5)}, consensus.L2(1e-4)
METHODS = BACKPROPAGATION, FEEDBACK = "backpropagation", "direct feedback"
LAYERS = {"angle_0": "before the narrow layer", "angle_1": "the narrow layer", "angle_2": "after the narrow layer"}
TOLD = 5  # units of the narrow layer in the paper's text
PLACES = ALONE, NETWORK = "alone", "network"
KINDS = {f"{method}, {place}": (method, place) for method in METHODS for place in PLACES}
SHOWN = (2, 10, 100)  # whose angles are drawn by rounds
RECORDS = 20  # rows: an angle takes two passes over all samples


def case(seed, data, narrow, method, place, agents, every):
    agents = 1 if place == ALONE else agents
    whole = cases.case(data, agents, seed, hidden=(WIDE, narrow, WIDE), regularizer=DECAY, scheme="sorted")
    problem, more = whole.problem, {"test": whole.test, "record_every": every}
    if method == FEEDBACK:
        problem = consensus.Problem(DirectFeedback(problem.model, seed), problem.loss, problem.shards, problem.regularizer)
        more["metrics"] = alignment(problem)
    return problem, nx.empty_graph(1) if place == ALONE else cases.graph(agents, seed), more


def main(arguments=None):
    quick = {"seeds": 1, "rounds": 20, "agents": 4}
    given = options(__doc__, arguments, quick, dataset=["digits"], agents=10, seeds=3, rounds=600)
    folder, made = Folder(given, "direct_feedback"), partial(case, agents=given.agents, every=max(1, given.rounds // RECORDS))
    usual = {"solvers": SOLVERS, "seeds": given.seeds, "rounds": given.rounds, "measure": worst_error}
    over = {"data": given.dataset, "narrow": NARROW, "method": METHODS, "place": PLACES}
    runs = finished(Study(made, over=over, folder=folder / "study", **usual), given)
    found = {curve[:-1]: done for curve, done in runs.items()}
    folder.figure(figure(found, given.dataset))
    folder.table(table(found, given.dataset))


def figure(found, datasets):
    canvas, axes = panels(3 * len(datasets), columns=3, size=(3.0, 3.0))
    for number, data in enumerate(datasets):
        errors, angles, rounds = axes[3 * number : 3 * number + 3]
        for index, (name, kind) in enumerate(KINDS.items()):
            points(errors, NARROW, [last(found[data, b, *kind], "test_error") for b in NARROW], name, index)
        for index, (column, name) in enumerate(LAYERS.items()):
            points(angles, NARROW, [last(found[data, b, FEEDBACK, NETWORK], column) for b in NARROW], name, index)
        for ax in (errors, angles):
            ax.set(xscale="log", xlabel="units of the narrow layer", title=data)
            ticks(ax.xaxis, NARROW)
        errors.set(yscale="log", ylabel="test error at the end")
        plain(errors.yaxis)
        shown = {f"{b} units": after_start(found[data, b, FEEDBACK, NETWORK]) for b in SHOWN}
        draw(rounds, shown, "angle_0", "round", log=(False, False))
        rounds.set(title=f"{data}, {LAYERS['angle_0']}", ylabel="angle to the gradient, degrees")
        angles.set_ylabel("angle at the end, degrees")
        for ax in (angles, rounds):
            ax.axhline(90, color="0.6", linewidth=2, zorder=0.5)
        for ax in (errors, angles, rounds):
            own_legend(ax, columns=1)
    return canvas


def table(found, datasets):
    angles = {f"angle, {name}": ".1f" for name in LAYERS.values()}
    rows = Table({"data set": "", "narrow": "d", **dict.fromkeys(KINDS, ".3g"), **angles})
    for data in datasets:
        for b in NARROW:
            errors = [last(found[data, b, *kind], "test_error") for kind in KINDS.values()]
            rows.add(data, b, *errors, *(last(found[data, b, FEEDBACK, NETWORK], column) for column in LAYERS))
    return rows


def stated(rows):
    """The numbers in the paper's text, from the rows of the table: errors over the network, and angles."""
    found = {"feedback.wide": WIDE, "feedback.narrow": TOLD}
    for units, name in ((WIDE, "wide"), (TOLD, "narrow")):
        row = next(row for row in rows if int(row["narrow"]) == units)
        error, known = (100 * float(row[f"{method}, {NETWORK}"]) for method in (FEEDBACK, BACKPROPAGATION))
        angle = float(row[f"angle, {LAYERS['angle_0']}"])
        found |= {f"feedback.{name}.error": rf"{error:.1f}\,\%", f"feedback.{name}.known": rf"{known:.1f}\,\%"}
        found |= {f"feedback.{name}.angle": f"{angle:.0f}"}
    return found


if __name__ == "__main__":
    main()
