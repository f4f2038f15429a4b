# SPDX-License-Identifier: Apache-2.0
"""Which cells train together: those that share data and network, one seed of every cell first."""

from collections.abc import Callable, Sequence

from noiseproof.grids.states import CellState

LARGEST_PACK = {"cuda": 12, "cpu": 36}
"""Runs in a pack, by device. On a GPU they share its memory; on a CPU a large pack saves starts of processes."""


def pack_key(state: CellState) -> tuple[str, ...]:
    """Cells with the same key may share a pack.

    Human labels leave out pictures whose place in the official order is not certain, so real noise has data of its
    own.
    """
    from noiseproof.training.engine import SHARED_BY_A_PACK

    config = state.cell.config
    return (*(str(getattr(config, name)) for name in SHARED_BY_A_PACK), str(config.noise == "real"))


def next_pack(
    waiting: Sequence[CellState], largest: int, fits: Callable[[Sequence[CellState]], bool] | None = None
) -> list[CellState]:
    """Take the next pack from cells in their order.

    A pack stays with one seed for as long as that seed has other cells waiting: packs are filled up with later
    seeds only when nothing of the earlier one is left behind.

    Args:
        waiting: cells that are to be trained.
        largest: most cells in a pack.
        fits: whether a pack may be started; cells are left out from the end until it does, or none is left.
    """
    pack = _first_pack(list(zip(map(pack_key, waiting), waiting, strict=True)), largest)
    while pack and fits is not None and not fits(pack):
        pack.pop()
    return pack


def packs_of(waiting: Sequence[CellState], largest: int) -> list[list[CellState]]:
    """All packs, in the order in which they would be trained."""
    left, packs = list(zip(map(pack_key, waiting), waiting, strict=True)), []
    while pack := _first_pack(left, largest):
        taken = {id(state) for state in pack}
        left = [(key, state) for key, state in left if id(state) not in taken]
        packs.append(pack)
    return packs


def _first_pack(waiting: Sequence[tuple[tuple[str, ...], CellState]], largest: int) -> list[CellState]:
    if not waiting:
        return []
    first_key, first = waiting[0]
    alike = [state for key, state in waiting if key == first_key]
    if any(key != first_key and state.cell.seed == first.cell.seed for key, state in waiting):
        alike = [state for state in alike if state.cell.seed == first.cell.seed]
    return alike[:largest]
