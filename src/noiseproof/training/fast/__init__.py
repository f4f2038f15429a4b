# SPDX-License-Identifier: Apache-2.0
"""Networks as a GPU computes them fastest: the same function of the same weights, in fewer and fuller kernels."""
