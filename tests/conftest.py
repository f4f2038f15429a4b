# SPDX-License-Identifier: Apache-2.0
"""What every test shares: one thread a worker, a fixed seed, one hypothesis profile, a device."""

import gc
import os

import pytest
import torch

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # a GPU machine may lack it; the tests that need it say so themselves
    settings = None

# Tests run in parallel, one process a core: a second thread in each only makes them wait for one another.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

if settings is not None:
    settings.register_profile(
        "noiseproof", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("noiseproof")


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


def pytest_collection_finish():
    """Thousands of tests and all that they import stay to the end: no collection of garbage need look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    # Not torch.manual_seed: without a GPU it writes down the whole stack, to tell of errors when there is one.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(0)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    return torch.device(request.param)
