from consensus.owners.fitted import Fit as Fit
from consensus.owners.regression import fit as fit
from consensus.owners.regression import inference as inference
from consensus.owners.survival import Curves as Curves
from consensus.owners.survival import LogRank as LogRank
from consensus.owners.survival import kaplan_meier as kaplan_meier
