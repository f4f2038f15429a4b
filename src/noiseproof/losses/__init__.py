# SPDX-License-Identifier: Apache-2.0
"""Noise-robust losses, used like torch's own.

>>> import torch
>>> from noiseproof.losses import ANLCrossEntropy, create
>>> loss = ANLCrossEntropy(alpha=5.0, beta=5.0)
>>> loss = create("anl-ce", recipe="cifar100")
>>> loss(torch.zeros(2, 100), torch.tensor([3, 14]))
tensor(1.0900)
"""

from noiseproof.losses import records  # noqa: F401  (fills the catalogue)
from noiseproof.losses.active_asymmetric import (
    NCEandAEL,
    NCEandAGCE,
    NCEandAUL,
    nce_ael,
    nce_agce,
    nce_aul,
)
from noiseproof.losses.active_passive import (
    NCEandMAE,
    NCEandRCE,
    NFLandMAE,
    NFLandRCE,
    nce_mae,
    nce_rce,
    nfl_mae,
    nfl_rce,
)
from noiseproof.losses.anl import (
    ANLCrossEntropy,
    ANLCrossEntropyWithEntropy,
    ANLFocal,
    anl_cross_entropy,
    anl_cross_entropy_with_entropy,
    anl_focal,
)
from noiseproof.losses.asymmetric import (
    AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged,
    asymmetric_exponential,
    asymmetric_generalized_cross_entropy,
    asymmetric_unhinged,
)
from noiseproof.losses.binary import Binary
from noiseproof.losses.catalogue import (
    LossRecord,
    available,
    create,
    published_recipe,
    record,
    register,
)
from noiseproof.losses.cross_entropies import (
    CrossEntropy,
    GeneralizedCrossEntropy,
    PartiallyHuberisedCrossEntropy,
    SymmetricCrossEntropy,
    TaylorCrossEntropy,
    cross_entropy,
    generalized_cross_entropy,
    partially_huberised_cross_entropy,
    symmetric_cross_entropy,
    taylor_cross_entropy,
)
from noiseproof.losses.custom import (
    active_negative,
    combine,
    negative,
    normalized,
    normalized_negative,
)
from noiseproof.losses.dice import (
    CrossEntropyAndDice,
    PixelsAndDice,
    SoftDice,
    cross_entropy_dice,
    soft_dice,
)
from noiseproof.losses.epsilon_softmax import (
    EpsilonSoftmaxCrossEntropyAndMAE,
    EpsilonSoftmaxFocalAndMAE,
    epsilon_softmax_cross_entropy_mae,
    epsilon_softmax_focal_mae,
)
from noiseproof.losses.examination import Examination, Finding, check_loss
from noiseproof.losses.focal_loss import (
    Focal,
    focal,
)
from noiseproof.losses.fused import InplaceGradient, fused_linear, with_inplace_gradient
from noiseproof.losses.image_loss import ImageLoss
from noiseproof.losses.joint_asymmetric import (
    JALCrossEntropy,
    JALFocal,
    jal_cross_entropy,
    jal_focal,
)
from noiseproof.losses.logit_clip import (
    LogitClippedCrossEntropy,
    clip_logits,
    logit_clipped_cross_entropy,
)
from noiseproof.losses.mean_absolute import (
    MeanAbsoluteError,
    NormalizedMeanAbsoluteError,
    NormalizedReverseCrossEntropy,
    ReverseCrossEntropy,
    mean_absolute_error,
    normalized_mean_absolute_error,
    normalized_reverse_cross_entropy,
    reverse_cross_entropy,
)
from noiseproof.losses.module import RobustLoss
from noiseproof.losses.negative_losses import (
    NegativeCrossEntropy,
    NegativeFocal,
    NormalizedNegativeCrossEntropy,
    NormalizedNegativeFocal,
    negative_cross_entropy,
    negative_focal,
    normalized_negative_cross_entropy,
    normalized_negative_focal,
)
from noiseproof.losses.normalized_losses import (
    NormalizedCrossEntropy,
    NormalizedFocal,
    normalized_cross_entropy,
    normalized_focal,
)
from noiseproof.losses.per_class import (
    LABEL_FLOOR,
    P_MIN,
    of_probability,
)
from noiseproof.losses.recipes import Recipe
from noiseproof.losses.regularizers import (
    L1,
    L2,
    Jacobian,
)
from noiseproof.losses.t_loss import (
    TLoss,
    t_loss,
)

__all__ = [
    "L1",
    "L2",
    "LABEL_FLOOR",
    "P_MIN",
    "ANLCrossEntropy",
    "ANLCrossEntropyWithEntropy",
    "ANLFocal",
    "AsymmetricExponential",
    "AsymmetricGeneralizedCrossEntropy",
    "AsymmetricUnhinged",
    "Binary",
    "CrossEntropy",
    "CrossEntropyAndDice",
    "EpsilonSoftmaxCrossEntropyAndMAE",
    "EpsilonSoftmaxFocalAndMAE",
    "Examination",
    "Finding",
    "Focal",
    "GeneralizedCrossEntropy",
    "ImageLoss",
    "InplaceGradient",
    "JALCrossEntropy",
    "JALFocal",
    "Jacobian",
    "LogitClippedCrossEntropy",
    "LossRecord",
    "MeanAbsoluteError",
    "NCEandAEL",
    "NCEandAGCE",
    "NCEandAUL",
    "NCEandMAE",
    "NCEandRCE",
    "NFLandMAE",
    "NFLandRCE",
    "NegativeCrossEntropy",
    "NegativeFocal",
    "NormalizedCrossEntropy",
    "NormalizedFocal",
    "NormalizedMeanAbsoluteError",
    "NormalizedNegativeCrossEntropy",
    "NormalizedNegativeFocal",
    "NormalizedReverseCrossEntropy",
    "PartiallyHuberisedCrossEntropy",
    "PixelsAndDice",
    "Recipe",
    "ReverseCrossEntropy",
    "RobustLoss",
    "SoftDice",
    "SymmetricCrossEntropy",
    "TLoss",
    "TaylorCrossEntropy",
    "active_negative",
    "anl_cross_entropy",
    "anl_cross_entropy_with_entropy",
    "anl_focal",
    "asymmetric_exponential",
    "asymmetric_generalized_cross_entropy",
    "asymmetric_unhinged",
    "available",
    "check_loss",
    "clip_logits",
    "combine",
    "create",
    "cross_entropy",
    "cross_entropy_dice",
    "epsilon_softmax_cross_entropy_mae",
    "epsilon_softmax_focal_mae",
    "focal",
    "fused_linear",
    "generalized_cross_entropy",
    "jal_cross_entropy",
    "jal_focal",
    "logit_clipped_cross_entropy",
    "mean_absolute_error",
    "nce_ael",
    "nce_agce",
    "nce_aul",
    "nce_mae",
    "nce_rce",
    "negative",
    "negative_cross_entropy",
    "negative_focal",
    "nfl_mae",
    "nfl_rce",
    "normalized",
    "normalized_cross_entropy",
    "normalized_focal",
    "normalized_mean_absolute_error",
    "normalized_negative",
    "normalized_negative_cross_entropy",
    "normalized_negative_focal",
    "normalized_reverse_cross_entropy",
    "of_probability",
    "partially_huberised_cross_entropy",
    "published_recipe",
    "record",
    "register",
    "reverse_cross_entropy",
    "soft_dice",
    "symmetric_cross_entropy",
    "t_loss",
    "taylor_cross_entropy",
    "with_inplace_gradient",
]
