"""Windows has no fcntl, no memory without a name and few signals: one process does without, and what needs them says so.

On other systems these are hidden from a process of its own.
"""

import subprocess
import sys
import textwrap

import pytest

HIDDEN = """
import os, signal, socket, sys
from multiprocessing import reduction

import joblib, numpy, sklearn.base  # these ask for the system, whose Python has what is hidden below

for name in ("fcntl", "resource", "termios", "pwd", "grp", "_posixshmem"):
    sys.modules[name] = None  # an import of it is an ImportError
for module, names in {
    os: "fork forkpty killpg getuid geteuid getpgid setsid memfd_create posix_fallocate sched_getaffinity sysconf "
    "O_DIRECTORY O_NOFOLLOW O_CLOEXEC mkfifo sendfile".split(),
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGCONT SIGSTOP SIGQUIT setitimer alarm pthread_sigmask".split(),
    socket: "AF_UNIX send_fds recv_fds socketpair".split() if sys.platform != "win32" else ["AF_UNIX"],
    reduction: ["DupFd", "sendfds", "recvfds"],
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def run(code, folder, *arguments):
    command = [sys.executable, "-c", HIDDEN + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)


RUNS = {
    "stacked": """
        import numpy as np, consensus, topologies
        X = np.random.default_rng(0).standard_normal((60, 3))
        y = X @ [1.0, 2.0, 3.0]
        shards = consensus.partition(X, y, agents=5)
        problem = consensus.Problem(consensus.Linear(3, bias=False), consensus.SquaredLoss(), shards)
        options = dict(rounds=100, checkpoint="run.ckpt", every=50)
        result = consensus.solve(problem, topologies.ring(5), **options)
        result.save("run.npz")
        assert (consensus.load("run.npz").w == result.w).all()
        result.history.to_csv("run.csv")
        again = consensus.solve(problem, topologies.ring(5), **options | {"rounds": 150}, resume="run.ckpt")
        np.testing.assert_allclose(again.mean, [1, 2, 3], atol=1e-4)
        consensus.data.save_shards(shards, "shards")
        topologies.conditions(topologies.RandomEdges(topologies.ring(5), 0.5, seed=0))
    """,
    "estimators": """
        import numpy as np
        from consensus.estimators import NetworkRegressor
        X = np.random.default_rng(0).standard_normal((80, 3))
        model = NetworkRegressor(hidden_layer_sizes=(), agents=5).fit(X, X @ [1.0, 2.0, 3.0])
        assert model.score(X, X @ [1.0, 2.0, 3.0]) > 0.99
        model.predictor().save('days.predictor')
    """,
    "figures": """
        import matplotlib
        matplotlib.use("Agg")
        import numpy as np, consensus, topologies
        problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
        history = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=3).history
        consensus.plotting.convergence(history, "objective").figure.savefig("figure.png")
    """,
    "command": """
        import pathlib
        from consensus.cli import main
        pathlib.Path("run.toml").write_text('''
            [run]
            rounds = 3
            [data]
            name = "diabetes"
            agents = 4
            [model]
            hidden = []
            [network]
            graph = "ring"
            [[solver]]
            kind = "DGD"
            step_size = 0.01
            [output]
            folder = "."
        ''')
        main(["run", "run.toml", "--checkpoint", "states"])
    """,
    "all modules": """
        import matplotlib.pyplot
        sys.modules |= dict.fromkeys(["torch", "jax", "mpi4py"])  # they take seconds
        import importlib, pkgutil, consensus, topologies
        for package in (consensus, topologies):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.endswith("__main__"):
                    try:
                        importlib.import_module(module.name)
                    except ModuleNotFoundError as error:  # of an extra
                        assert error.name in ("torch", "jax", "mpi4py", "distributed", "submitit", "pyarrow"), error
    """,
}


REFUSED = {
    "Processes": "consensus.engines.Processes()",
    "AsyncProcesses": "consensus.asynchronous.AsyncProcesses()",
    "this": "consensus.centralized.solve(problem, consensus.centralized.MapReduceGradientDescent(0.1, workers=2), rounds=2)",
}


@pytest.mark.slow
@pytest.mark.parametrize("part", RUNS)
def test_one_process_needs_nothing_of_unix(part, tmp_path):
    done = run(RUNS[part], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_needs_linux_or_macos_names_them(tmp_path):
    code = """
        import numpy as np, consensus
        shards = consensus.partition(np.eye(4), np.ones(4), agents=4)
        problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
        for code in sys.argv[1:]:
            try:
                exec(code)
            except NotImplementedError as error:
                print(error)
    """
    done = run(code, tmp_path, *REFUSED.values())
    for what, said in zip(REFUSED, done.stdout.splitlines(), strict=True):
        assert said.startswith(f"{what} needs memory without a name"), done.stderr
        assert "which Linux and macOS have" in said
