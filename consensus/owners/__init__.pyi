from consensus.owners.fitted import Fit as Fit
from consensus.owners.regression import fit as fit
from consensus.owners.regression import inference as inference
