from consensus.studies.grid import Grid as Grid
from consensus.studies.noise import Gaussian as Gaussian
from consensus.studies.noise import NoisyMessages as NoisyMessages
from consensus.studies.noise import Rounding as Rounding
from consensus.studies.runs import CaseError as CaseError
from consensus.studies.study import Study as Study
