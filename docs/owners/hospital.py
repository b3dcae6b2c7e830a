"""One hospital's part of a run: hospital.py torch stays.csv; or a rehearsal: hospital.py rehearsal a.csv b.csv c.csv d.csv."""

import sys

import consensus
import topologies

how, *files = sys.argv[1:]
engine = {"rehearsal": consensus.engines.Stacked, "mpi": consensus.engines.MPI, "torch": consensus.engines.Torch}[how]()

owned = consensus.data.own(files, target="days", categories=["ward"], engine=engine)
features = len(owned.pipeline.columns.features)
problem = consensus.Problem(consensus.MLP([features, 8, 1]), consensus.SquaredLoss(), owned.shards, consensus.L2(1e-3))
result = consensus.solve(problem, topologies.ring(owned.shards.network_size), rounds=300, engine=engine)

result.predictor(owned.pipeline).save("days.predictor")  # each hospital gets one
if engine.root:
    print(owned.revealed.to_string(index=False))
    result.save("result.npz")
    consensus.plotting.convergence(result.history).figure.savefig("convergence.png")
