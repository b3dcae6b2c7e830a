"""A solver of every kind, with settings for small problems."""

from consensus import Minibatches, solvers
from consensus.compression import Half, LowRank, NoCompression, Quantize, RandomK, TopK
from consensus.directions import Adam, AdamW, Clip, Momentum
from consensus.privacy import SecureSums
from consensus.robust import NNA, Attack, SignFlip
from consensus.solvers import DGD, NEXT, SONATA, Compressed, Gossip, GradientTracking, PowerGossip, SharedBody
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization

_SAFE = """EXTRA PGEXTRA NIDS ExactDiffusion ProxGT AccGT OPAPC WangElia KGT LED ProxSkip AutoGT DATOS DADMM DLM ATG LTADMM
DiNNO NewtonTracking DAPG"""  # solvers that find their own steps
_PARTIAL = PartialLinearization(2.0)
SOLVERS = {
    "DGD": DGD(0.02),
    "tracking, atc": GradientTracking(0.02),
    "tracking, cta": GradientTracking(0.02, order="cta"),
    "NEXT partial": NEXT(_PARTIAL, 0.2),
    "NEXT full": NEXT(FullLinearization(4.0), 0.2),
    "NEXT blocks": NEXT(Blocks(_PARTIAL, 3), 0.2),
    "adaptive": solvers.AdaptiveNEXT(),
    "auto": solvers.Auto(),
    "SONATA": SONATA(_PARTIAL, 0.2),
    "Push-DIGing": solvers.PushDIGing(0.02),
    "push-pull": solvers.PushPull(0.02),
    "D2": solvers.D2(0.02, 3),
    "DSGDm": solvers.DSGDm(0.02, 3),
    "QG-DSGDm": solvers.QGDSGDm(0.005, 3),
    "GT-HSGD": solvers.GTHSGD(0.02, 3),
    "GT-SAGA": solvers.GTSAGA(0.02, 3),
    "GT-SARAH": solvers.GTSARAH(0.02, 3, period=3),
    "GT-VR": solvers.GTVR(0.02, 3, probability=0.3),
    "DecentLaM": solvers.DecentLaM(0.005, 3),
    "GUT": solvers.GUT(0.02, 3),
    "normalized": solvers.Normalized(0.02, 3),
    "LT-ADMM-VR": solvers.LTADMMVR(0.02, 2, batch=3),
    "PullDiag": solvers.PullDiag(0.02),
    "SGP": solvers.SGP(0.02, 3),
    "subgradient": solvers.Subgradient(0.02, average=True),
    "NoLoCo": solvers.NoLoCo(0.01, 4, batch=3),
    "DiLoCo": solvers.DiLoCo(0.01, 4),
    "RelaySGD": solvers.RelaySGD(0.02, 3),
    "gossip of tracking": Gossip(GradientTracking(0.02), 2),
    "gossip of NEXT": Gossip(NEXT(_PARTIAL, 0.2), 3),
    "ChocoSGD": solvers.ChocoSGD(TopK(0.3)),
    "BEER": solvers.BEER(RandomK(0.3)),
    "CGT": solvers.CGT(Quantize(4)),
    "LEAD": solvers.LEAD(Quantize(3)),
    "MoTEF": solvers.MoTEF(Half(), 0.02, batch=4),
    "compressed NEXT": Compressed(NEXT(_PARTIAL, 0.1), TopK(0.3)),
    "compressed SONATA": Compressed(SONATA(_PARTIAL, 0.1), Quantize(6), gamma=0.3),
    "PowerGossip": PowerGossip(DGD(0.02)),
    "personalised": solvers.Personalized(l=0.5),
    "shared body": SharedBody(GradientTracking(0.02), own=[1, 2]),
    "attacked": Attack(NNA(DGD(0.02), byzantine_weight=0.2), [1], SignFlip()),
}
SOLVERS |= {name: getattr(solvers, name)() for name in _SAFE.split()}
OTHERWISE = {  # settings by which a method takes another way
    "GT-SAGA with replacement": solvers.GTSAGA(0.02, Minibatches(4, replacement=True)),
    "KGT, batches": solvers.KGT(0.02, 3, batch=3),
    "LED, batches": solvers.LED(0.02, 3, batch=3),
    "ProxSkip, given": solvers.ProxSkip(0.02, probability=0.4),
    "DiNNO, two steps": solvers.DiNNO(local_steps=2),
    "ChocoSGD, halves": solvers.ChocoSGD(Half(), 0.05, batch=3),
    "CGT, nearest": solvers.CGT(Quantize(5, "nearest"), 0.02),
    "gossip of OPAPC": Gossip(solvers.OPAPC(), 2, 0.3),
    "TreeLBFGS, float64": solvers.TreeLBFGS(rounded=False),
    "SONATA, averaged batches": SONATA(_PARTIAL, 0.2, batch=3, averaging=0.5),
    "tracking, batches": GradientTracking(0.02, "cta", Minibatches(4, 1, replacement=True)),
    "PowerGossip, tracking": PowerGossip(GradientTracking(0.02, "cta"), rank=2),
    "GT-SARAH, all samples": solvers.GTSARAH(0.02),
    "GT-VR, all samples": solvers.GTVR(0.02),
    "MoTEF, all samples": solvers.MoTEF(NoCompression(), 0.02),
    "ChocoSGD, dense": solvers.ChocoSGD(NoCompression(), 0.02),
    "compressed, dense": Compressed(SONATA(_PARTIAL, 0.2), NoCompression(), gamma=0.9),
    "accelerated gossip": Gossip(GradientTracking(0.02), 3, gap=0.2),
    "BEER, low rank": solvers.BEER(LowRank(2), 0.02),
    "TreeLBFGS": solvers.TreeLBFGS(),
    "TreeLBFGS, masked": solvers.TreeLBFGS(secure=SecureSums()),
    "TreeNewton, masked": solvers.TreeNewton(columns=4, secure=SecureSums()),
    "TreeNewton": solvers.TreeNewton(columns=4),
    "NetworkGIANT": solvers.NetworkGIANT(0.05),
    "DGD, AdamW": DGD(0.01, 3, AdamW()),
    "tracking, GTAdam": GradientTracking(0.01, "cta", direction=Adam(saturation=1e6)),
    "DiLoCo, plain": solvers.DiLoCo(0.01, 4, batch=3, direction=None),
    "personalised, batches": solvers.Personalized(l=0.5, step_size=0.02, batch=3),
    "shared body, NEXT": SharedBody(NEXT(_PARTIAL, 0.2), own=[0]),
    "shared body, EXTRA": SharedBody(solvers.EXTRA(), own=[0]),
    "KGT, clipped momentum": solvers.KGT(0.01, 3, direction=Clip(0.5, Momentum(0.5))),
}
SOLVERS |= OTHERWISE
