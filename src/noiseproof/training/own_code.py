# SPDX-License-Identifier: Apache-2.0
"""Code of the user's own that a run uses, and whether it has changed since.

A run is found by its config, which holds the name of a registered loss, noise or network, not its code. So that a
result of older code does not pass for one of the newer, records hold a digest of the file that the code is in.
"""

import hashlib
import inspect
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

from noiseproof import losses, models
from noiseproof.noise.own import own_draw
from noiseproof.training.config import Config
from noiseproof.training.run_record import RunRecord

FIELD = "own_code"
"""Where the digests stand in the environment of a record."""


def own_code_of(config: Config) -> dict[str, str]:
    """Digests of the code that a config names and that is not noiseproof's: ``{"loss mine": …}``."""
    kind = config.noise.partition("-")[0]
    used: dict[str, Any] = {
        f"loss {config.loss}": losses.record(config.loss).module,
        f"noise {kind}": own_draw(kind),
    }
    if not config.model.startswith("timm:"):
        used[f"model {config.model}"] = models.record(config.model).build
    digests = {name: _digest(code) for name, code in used.items() if code is not None}
    return {name: digest for name, digest in digests.items() if digest is not None}


def warn_of_other_code(recorded: Iterable[tuple[Config, RunRecord]]) -> None:
    """Say which runs were trained with other code of the user's than there is now."""
    changed: dict[str, list[str]] = {}
    for config, record in recorded:
        before = record.environment.get(FIELD) or {}
        for name, digest in own_code_of(config).items():
            if before.get(name, digest) != digest:
                changed.setdefault(name, []).append(record.id)
    for name, runs in changed.items():
        many = f"{len(runs)} runs were" if len(runs) > 1 else f"{runs[0]} was"
        such = f", such as {runs[0]}" if len(runs) > 1 else ""
        warnings.warn(
            f"{many} trained with other code of the {name} than its file holds now{such}. What is recorded stays. "
            "To train with the new code register it under another name, or delete the older runs: noiseproof "
            f"runs delete {runs[0]}",
            stacklevel=3,
        )


@cache
def _digest(code: Any) -> str | None:
    """Digest of the file that a function or class is in; in a script or notebook, of its own lines alone."""
    module = getattr(code, "__module__", None) or type(code).__module__
    if module.partition(".")[0] == "noiseproof":
        return None
    try:
        source = inspect.getsource(code if module == "__main__" else sys.modules[module])
    except (OSError, TypeError, KeyError):  # typed in, or built in
        return None
    return hashlib.sha256(source.encode()).hexdigest()[:16]
