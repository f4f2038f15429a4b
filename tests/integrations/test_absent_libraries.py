# SPDX-License-Identifier: Apache-2.0
"""Every integration can be imported without its library, and says what to install when it is used."""

import subprocess
import sys

LIBRARIES = ["lightning", "pytorch_lightning", "transformers", "keras", "skorch", "monai"]

CODE = f"""
import sys
sys.modules.update(dict.fromkeys({LIBRARIES}))
from noiseproof.integrations import huggingface, keras, lightning, monai, skorch

for use in (
    lambda: huggingface.L1Penalty(0.1),
    lambda: keras.KerasLoss("anl-ce"),
    lambda: lightning.L1Penalty(0.1),
    lambda: lightning.CleanAndFlippedAccuracy(),
    lambda: skorch.robust_net(None),
):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_a_library_that_is_missing_is_named():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 5
    assert all(line.endswith("is not installed; pip install 'noiseproof[integrations]'") for line in told)
