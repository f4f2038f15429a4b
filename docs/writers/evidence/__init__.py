# SPDX-License-Identifier: Apache-2.0
"""The page docs/reproduce.md: the paper's tables and figures beside our runs of them."""
