from consensus.surrogates.base import Surrogate as Surrogate
from consensus.surrogates.base import SurrogateModel as SurrogateModel
from consensus.surrogates.linearizations import Blocks as Blocks
from consensus.surrogates.linearizations import FullLinearization as FullLinearization
from consensus.surrogates.linearizations import PartialLinearization as PartialLinearization
