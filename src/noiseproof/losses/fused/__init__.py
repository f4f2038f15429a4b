# SPDX-License-Identifier: Apache-2.0
"""Losses at the speed of memory: one read of the logits, one write of their gradient.

On CUDA, and where Triton is installed, every function and Module of :mod:`noiseproof.losses` comes here by itself
when its formula is one that the kernels know (all of the catalogue but ε-softmax and the losses of whole images),
labels are class indices, and logits are float32, bfloat16 or float16. Everything else takes the plain path: soft
labels, float64, function transforms, second derivatives. Set ``NOISEPROOF_FUSED=0`` before the import to take it
always.

A label on the GPU that is neither a class nor ``ignore_index`` makes the loss NaN; ``check_labels=True`` names it.

Two things must be asked for: :class:`InplaceGradient` lets the gradient take the place of the logits, and
:func:`fused_linear` takes the last linear layer in, so that logits never exist as a whole.
"""

from noiseproof.losses.fused.gate import ENABLED
from noiseproof.losses.fused.inplace import InplaceGradient, with_inplace_gradient
from noiseproof.losses.fused.linear import fused_linear

__all__ = ["ENABLED", "InplaceGradient", "fused_linear", "with_inplace_gradient"]
