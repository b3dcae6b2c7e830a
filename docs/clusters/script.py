"""One run on ranks, the same under srun, torchrun and mpiexec: python script.py torch, or mpi."""

import os
import sys

import consensus
import topologies
from consensus.solvers import GradientTracking

engine = {"mpi": consensus.engines.MPI, "torch": consensus.engines.Torch}[sys.argv[1]]()
seed = int(os.environ.get("SLURM_ARRAY_TASK_ID", 0))
checkpoint = f"run-{seed}.ckpt"
begun = any(engine.allgather([os.path.exists(checkpoint)]))  # on any rank's disk

shards = consensus.data.load_shards("shards", engine.rows)  # the files of this rank's agents, no others
problem = consensus.Problem(consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-3))
result = consensus.solve(
    problem,
    topologies.torus(3, 4),
    GradientTracking(0.02),
    rounds=6_000,
    seed=seed,
    engine=engine,
    record_every=100,
    checkpoint=checkpoint,
    every=200,
    resume=checkpoint if begun else None,
)
if engine.root:
    result.save(f"result-{seed}.npz")
