"""The exact methods, and the plain statement of each of them."""

from consensus import solvers
from tests.reference import multipliers, statements

METHODS = {
    solvers.DGD(0.01): statements.dgd,
    solvers.GradientTracking(): statements.gradient_tracking,
    solvers.EXTRA(): statements.extra,
    solvers.PGEXTRA(): statements.pgextra,
    solvers.NIDS(): statements.nids,
    solvers.ExactDiffusion(): statements.exact_diffusion,
    solvers.ProxGT(): statements.prox_gt,
    solvers.WangElia(): statements.wang_elia,
    solvers.AccGT(): statements.acc_gt,
    solvers.OPAPC(): statements.opapc,
    solvers.DADMM(): multipliers.dadmm,
    solvers.DLM(): multipliers.dlm,
    solvers.DiNNO(): multipliers.dinno,
    solvers.LTADMM(): multipliers.lt_admm,
    solvers.ATG(): multipliers.atg,
    solvers.NetworkGIANT(0.1): statements.network_giant,
    solvers.NewtonTracking(): multipliers.newton_tracking,
    solvers.KGT(): statements.kgt,
    solvers.LED(): statements.led,
    solvers.ProxSkip(): statements.prox_skip,
    solvers.AutoGT(): statements.auto_gt,
    solvers.DATOS(): statements.datos,
}
