"""Links that fail: how the solvers bear it when from none to nine tenths of all messages are lost."""

import topologies
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.shared import cases
from experiments.shared.curves import by_panel
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import END, OWN, ends, of_first

LOST = (0.0, 0.3, 0.5, 0.7, 0.9)  # the part of all links that is down in a round
PARTIAL = "NEXT, partial linearization"
SOLVERS = {  # by the rounds that they have for one of NEXT
    1: {PARTIAL: NEXT(PartialLinearization(tau=0.3), 0.3)},
    5: {"gradient tracking": GradientTracking(0.1, order="atc"), "DGD": DGD(0.1)},
}


def case(seed, data, lost, agents, every):
    whole = cases.case(data, agents, seed)
    network = topologies.LinkFailure(topologies.Static(cases.graph(agents, seed)), probability=lost, seed=seed)
    return whole.problem, network, {"test": whole.test, "record_every": every}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 2, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["kin8nm"], agents=10, seeds=3, rounds=300)
    folder = Folder(given, "failures")
    runs = trained(given, folder, case, {"data": given.dataset, "lost": LOST}, SOLVERS, agents=given.agents)
    names = [name for own in SOLVERS.values() for name in own]
    found = {(data, name, lost): runs[data, lost, name] for data in given.dataset for name in names for lost in LOST}
    shown = {(data, name, f"{lost:.0%} lost"): done for (data, name, lost), done in found.items()}
    folder.figure(by_panel(shown, "objective", len(names), "{}, {}", x="round"))
    folder.figure(by_panel(shown, "disagreement", len(names), "{}, {}", x="round"), "disagreement")
    counts = {"rounds": (of_first("round"), "d"), "messages": ("messages", ".0f"), "objective": ("objective", ".3g")}
    folder.table(ends(found, {"data set": "", "solver": "", "lost": ".0%"}, counts | OWN | END))


if __name__ == "__main__":
    main()
