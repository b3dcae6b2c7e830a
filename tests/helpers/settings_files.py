"""Files of settings for the command."""

from consensus.cli import Config

TEXT = """\
# A comment.
[run]
rounds = 6
seed = 3

[data]
name = "diabetes"
agents = 8
scheme = "sorted"

[model]
hidden = [4]
regularizer = {kind = "L2", weight = 1e-2}

[network]
graph = "ring"
weights = "laplacian"

[network.schedule]
kind = "LinkFailure"
probability = 0.2

[[solver]]
kind = "DGD"
step_size = 0.1

[[solver]]
label = "two exchanges"
kind = "Gossip"
exchanges = 2

[solver.solver]
kind = "NEXT"
step_size = {kind = "Diminishing", initial = 0.5, decay = 0.01}
surrogate = {kind = "PartialLinearization", tau = 1.0}
"""


def config(folder, text):
    path = folder / "run.toml"
    path.write_text(text + f'\n[output]\nfolder = "{(folder / "out").as_posix()}"\n')
    return Config.read(path)
