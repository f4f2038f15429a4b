# SPDX-License-Identifier: Apache-2.0
"""The fast form of a network without a GPU: its own tests, and packs that are trained with it."""

from pathlib import Path

import pytest
from tests.interpreter import run_in_interpreter

HERE = Path(__file__).parent


def test_the_fast_form_in_the_interpreter():
    run_in_interpreter(
        HERE / "test_fast.py", "-k", "(batch_norm and 70) or mnist-cnn-8 or unet or adam or as_wide"
    )


def test_packs_of_the_fast_form_in_the_interpreter():
    run_in_interpreter(HERE / "test_fast_packs.py", "-k", "not masks")


@pytest.mark.slow
def test_masks_in_packs_of_the_fast_form_in_the_interpreter():
    run_in_interpreter(HERE / "test_fast_packs.py", "-k", "masks")
