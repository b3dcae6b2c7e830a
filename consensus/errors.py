"""What ends a run early. Nothing already computed is lost: each error carries it."""


class RunError(Exception):
    """A run could not go on.

    Attributes
    ----------
    history : History
        What was recorded until then.
    """

    history = None


class DivergenceError(RunError, ArithmeticError):
    """An iterate became NaN, infinite or larger than 1e150.

    Attributes
    ----------
    round : int
        The round in which it did.
    solver : Solver
    history : History
        What was recorded until then.
    """

    def __init__(self, round, solver):
        super().__init__(
            f"{solver} diverged in round {round}: an iterate is NaN, infinite or larger than 1e150. "
            "Take a smaller step or a larger tau; the history so far is this error's .history"
        )
        self.round, self.solver = round, solver


class LocalSolveError(RunError, RuntimeError):
    """An agent's local problem was not solved: the message names the agent, the round and the local solver's status."""


class Interrupted(KeyboardInterrupt):
    """The run was stopped by ctrl-C.

    Attributes
    ----------
    result : Result
        The iterates of the last complete round and the history so far.
    """

    def __init__(self, result):
        rounds = result.rounds
        super().__init__(
            f"stopped by the user after round {rounds}; this error's .result holds the iterates and the history "
            "(go on from there with solve(..., start=error.result.w))"
        )
        self.result = result
