from consensus.deep.accum_adam import AccumAdam as AccumAdam
from consensus.deep.muon import Muon as Muon
from consensus.directions.adam import Adam as Adam
from consensus.directions.adam import AdamW as AdamW
from consensus.directions.base import Direction as Direction
from consensus.directions.clip import Clip as Clip
from consensus.directions.momentum import Momentum as Momentum
