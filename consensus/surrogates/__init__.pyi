from consensus.surrogates.base import Surrogate as Surrogate
from consensus.surrogates.base import SurrogateModel as SurrogateModel
from consensus.surrogates.blocks import Blocks as Blocks
from consensus.surrogates.full import FullLinearization as FullLinearization
from consensus.surrogates.partial import PartialLinearization as PartialLinearization
