"""
A module of PyTorch
===================

``models.Torch`` makes a module trainable by all solvers of gradients, without a change of the module. The agents'
parameters are rows of one array, so eight copies of a small network are one call.
"""

# %%

import matplotlib.pyplot as plt
import torch

import consensus
import topologies
from consensus.directions import Adam
from consensus.solvers import GradientTracking

X, y = consensus.datasets.load("digits")
data = consensus.datasets.split(X / 16, y, classification=True)
shards = consensus.partition(data.X.reshape(-1, 1, 8, 8), data.y, agents=8, scheme="dirichlet")
torch.manual_seed(0)
module = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(128, 10),
)
model = consensus.models.Torch(module)
problem = consensus.Problem(model, consensus.CrossEntropy(), shards)
result = consensus.solve(
    problem,
    topologies.ring(8),
    GradientTracking(0.003, batch=32, direction=Adam()),
    rounds=200,
    record_every=10,
    test=(data.X_test.reshape(-1, 1, 8, 8), data.y_test),
)
consensus.plotting.convergence(result.history, "test_error", "epochs")
plt.show()

# %%
# The result is an ordinary state dict:

module.load_state_dict(model.unflatten(result.mean))
with torch.no_grad():
    outputs = module(torch.as_tensor(data.X_test.reshape(-1, 1, 8, 8), dtype=next(module.parameters()).dtype))
print(f"accuracy {(outputs.argmax(dim=1).numpy() == data.y_test).mean():.1%}")
