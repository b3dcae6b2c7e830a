"""
As an estimator of scikit-learn
===============================

:class:`consensus.estimators.NetworkClassifier` has the methods of scikit-learn's estimators, so pipelines and grid
searches take it. Without hidden layers it finds the coefficients of ``LogisticRegression``, whatever the network.
"""

# %%

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from consensus.estimators import NetworkClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
Z = StandardScaler().fit_transform(X)
alpha = 1e-2
network = NetworkClassifier(hidden_layer_sizes=(), alpha=alpha, agents=6, network="ring", random_state=0).fit(
    Z, y
)
central = LogisticRegression(C=1 / (len(y) * alpha), tol=1e-10, max_iter=10_000).fit(Z, y)
print(f"largest difference of a coefficient: {abs(network.coef_ - central.coef_).max():.1e}")

# %%
# The coefficients of six agents on a ring lie on those of one process that has all the data.

ax = plt.figure(figsize=(8, 4), layout="constrained").gca()
ax.plot(
    central.coef_.ravel(),
    "o",
    mfc="none",
    ms=9,
    color="black",
    label="LogisticRegression, all data in one place",
)
ax.plot(network.coef_.ravel(), ".", color="#0072b2", label="NetworkClassifier, six agents on a ring")
ax.set(xlabel="feature", ylabel="coefficient")
ax.legend()
plt.show()

# %%
# It works in a pipeline:

pipeline = make_pipeline(
    StandardScaler(), NetworkClassifier(hidden_layer_sizes=(8,), agents=4, tol=1e-3, random_state=0)
)
print(f"accuracy on the training data: {pipeline.fit(X, y).score(X, y):.3f}")
