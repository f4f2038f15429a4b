# SPDX-License-Identifier: Apache-2.0
"""What a machine of a Ray cluster does with a pack: train it, and send back records and weights.

Nothing here imports Ray: it is a function that Ray calls.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import noiseproof
from noiseproof.grids.collect import RESULT_FILES
from noiseproof.plugins import explained, import_plugins
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store


@dataclass(frozen=True)
class Returned:
    """What comes back of a pack.

    Attributes:
        records: of its runs, with epochs.
        files: weights and their description of each finished run, by run.
        error: what broke the pack off, if anything did.
        locked: whether that was a run in other hands, perhaps of a worker that is thought dead.
        no_data: whether it was data that is not on this machine.
    """

    records: tuple[RunRecord, ...] = ()
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    error: str | None = None
    locked: bool = False
    no_data: bool = False


def marker(folder: Path, token: str) -> Path:
    """The file by which a worker knows that it sees the driver's runs folder."""
    return folder / f".ray-{token}"


def train_pack_here(
    configs: Sequence[Mapping[str, Any]], folder: str, token: str, name: str, device: str, version: str
) -> Returned:
    """Train a pack on this machine.

    Args:
        configs: fields of each config.
        folder: the driver's runs folder. Where this machine sees it, the pack is trained in it, so that another
            machine can go on from its checkpoints; elsewhere in a temporary folder.
        token: proves that a folder of that name is the driver's.
        name: of the pack.
        device: ``"cuda"`` or ``"cpu"``, whatever the driver's own is.
        version: of noiseproof that the driver has.
    """
    if noiseproof.__version__ != version:
        return Returned(
            error=f"noiseproof {noiseproof.__version__} is installed on a worker and {version} on the driver; "
            "install one version everywhere"
        )
    shared = marker(Path(folder), token).exists()
    home = Path(folder) / "ray" / name if shared else Path(tempfile.mkdtemp(prefix="noiseproof-"))
    try:
        import_plugins()
        return _trained(configs, home, device)
    finally:
        if not shared:
            shutil.rmtree(home, ignore_errors=True)


def _trained(configs: Sequence[Mapping[str, Any]], home: Path, device: str) -> Returned:
    import torch

    from noiseproof.datasets import DataError
    from noiseproof.training import Config, Interrupted, train_pack
    from noiseproof.training.run_lock import RunIsLocked

    if device == "cpu":
        torch.set_num_threads(1)  # Ray counts one core a pack
    pack = [Config(**{**values, "device": device}) for values in configs]
    problem: dict[str, Any] = {}
    try:
        train_pack(pack, folder=home, quiet=True, keep_going=True)
    except Interrupted:
        pass
    except RunIsLocked as error:
        return Returned(error=str(error), locked=True)
    except DataError as error:
        problem = {"error": str(error), "no_data": True}
    except Exception as error:
        problem = {"error": explained(error)}
    with Store(home) as store:
        found = [store.find(config.hash, None) for config in pack]
        records = tuple(store.get(each[0].id) for each in found if each)
    files = {record.id: _files(home / record.id) for record in records if record.status == "finished"}
    return Returned(records, files, **problem)


def _files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in RESULT_FILES if (folder / name).exists()}
