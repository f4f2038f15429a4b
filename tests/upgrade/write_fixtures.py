# SPDX-License-Identifier: Apache-2.0
"""Write the files that later versions must stay able to read; run with the version that is released.

python tests/upgrade/write_fixtures.py tests/upgrade/fixtures/0.1.0
"""

import shutil
import sys
from pathlib import Path

import numpy as np

from noiseproof.noise import symmetric
from noiseproof.results import write_records
from noiseproof.training import engine, resolve, train
from noiseproof.training.interruption import Interrupted
from noiseproof.training.store import Store

SAID = {"noise": "sym-0.4", "model": "mlp", "model_options": {"hidden": (8,)}, "epochs": 3, "device": "cpu"}
INTERRUPTED_AFTER = 30


class StopLater:
    """Asks for the end of training after some steps, as Ctrl-C does."""

    def __init__(self) -> None:
        self.asked = 0

    def __enter__(self) -> "StopLater":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def requested(self) -> bool:
        """Whether the time has come."""
        self.asked += 1
        return self.asked > INTERRUPTED_AFTER


def main(folder: Path) -> None:
    """A store with a finished and an interrupted run, its results file, and a noise file."""
    shutil.rmtree(folder, ignore_errors=True)
    record = train(resolve("digits", loss="anl-ce", seed=1, **SAID), folder=folder / "runs", quiet=True)
    engine.Interruption = StopLater  # type: ignore[assignment, misc]
    try:
        train(resolve("digits", loss="ce", seed=2, **SAID), folder=folder / "runs", quiet=True)
        raise SystemExit("the second run was not interrupted")
    except Interrupted:
        pass
    with Store(folder / "runs") as store:
        write_records(folder / "results.jsonl", [store.get(record.id)], labels={})
    clean = (np.arange(2000) % 10).astype(np.uint8)
    np.save(folder / "clean-labels.npy", clean)
    symmetric(clean, 0.4, num_classes=10, seed=3).save(folder / "noise.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
