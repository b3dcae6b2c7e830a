"""Like shards against sorted ones: how solvers converge when every agent holds other targets."""

from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import cases
from experiments.shared.curves import by_panel
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import END, OWN, ends, of_first

SCHEMES = ("iid", "dirichlet", "sorted")
SOLVERS = {  # by the rounds that they have for one of NEXT with partial linearization
    1: {"NEXT, partial linearization": NEXT(PartialLinearization(tau=1.0), Diminishing(0.8, 0.005))},
    5: {
        "NEXT, full linearization": NEXT(FullLinearization(tau=1.0), 0.2),
        "gradient tracking": GradientTracking(0.2),
        "DGD": DGD(0.1),
    },
}


def case(seed, data, scheme, agents, every):
    whole = cases.case(data, agents, seed, scheme=scheme)
    return whole.problem, cases.graph(agents, seed), {"test": whole.test, "record_every": every}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 2, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["kin8nm", "diabetes"], agents=10, seeds=5, rounds=300)
    folder = Folder(given, "shards")
    found = trained(given, folder, case, {"data": given.dataset, "scheme": SCHEMES}, SOLVERS, agents=given.agents)
    folder.figure(by_panel(found, "objective", len(SCHEMES), "{}, {} shards"))
    folder.figure(by_panel(found, "disagreement", len(SCHEMES), "{}, {} shards"), "disagreement")
    columns = {"exchanges": (of_first("exchanges"), "d"), "objective": ("objective", ".3g"), **OWN, **END}
    folder.table(ends(found, {"data set": "", "shards": "", "solver": ""}, columns))


if __name__ == "__main__":
    main()
