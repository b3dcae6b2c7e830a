from consensus.cvxpy_solver import CVXPYSolver as CVXPYSolver
from consensus.local.base import LocalSolution as LocalSolution
from consensus.local.base import LocalSolver as LocalSolver
from consensus.local.exact import Exact as Exact
