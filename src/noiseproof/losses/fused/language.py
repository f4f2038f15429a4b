# SPDX-License-Identifier: Apache-2.0
"""Triton, or names that let the kernels be imported and read where it is not installed."""

import importlib.util
import os
from types import SimpleNamespace
from typing import Any

HAS_TRITON = importlib.util.find_spec("triton") is not None
"""Whether Triton can be imported. It comes with torch's CUDA packages for Linux."""

INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in Triton's interpreter: on any device, slowly, for tests."""

triton: Any
tl: Any
if HAS_TRITON:
    import triton  # type: ignore[import-not-found, no-redef, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, no-redef, unused-ignore]
else:
    triton = SimpleNamespace(jit=lambda function: function)
    tl = SimpleNamespace(constexpr=lambda value: value)
