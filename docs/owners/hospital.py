"""One hospital's part of a run: hospital.py torch stays.csv; or a rehearsal: hospital.py rehearsal a.csv b.csv c.csv d.csv."""

import argparse

import consensus
import topologies

ENGINES = {
    "rehearsal": consensus.engines.Stacked,
    "mpi": consensus.engines.MPI,
    "torch": consensus.engines.Torch,
}
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("how", choices=ENGINES)
parser.add_argument("files", nargs="+", help="one, or in a rehearsal those of all")
options = parser.parse_args()
engine = ENGINES[options.how]()

owned = consensus.data.own(options.files, target="days", categories=["ward"], engine=engine, test_size=0.2)
features = len(owned.pipeline.columns.features)
problem = consensus.Problem(
    consensus.MLP([features, 8, 1]), consensus.SquaredLoss(), owned.shards, consensus.L2(1e-3)
)
network = topologies.ring(owned.shards.network_size)
stopping = consensus.observe.EarlyStopping(column="test_error", patience=10)
result = consensus.solve(problem, network, rounds=300, engine=engine, test=owned.test, callbacks=[stopping])

result.predictor(owned.pipeline).save("days.predictor")  # each hospital gets one
if engine.root:
    print(owned.revealed.to_string(index=False), result.reason, result.best.value, sep="\n")
    result.save("result.npz")
    consensus.plotting.convergence(result.history, "test_error").figure.savefig("convergence.png")
