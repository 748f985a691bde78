"""Whatever fails, and wherever the coordinator crashes: every row is published once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.coordinator.core.checkpoints import checkpoints
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints
from fabric.coordinator.core.checkpoints.restoration import Restoration
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.checkpoints.sink_orders import SinkOrders
from fabric.coordinator.core.effects import CheckpointEffects
from fabric.coordinator.metadata.store import Write

from .checkpoint_world import World

SEEDS_MAX = 200


def test_every_row_is_published_once(seeds: range) -> None:
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            (world := World(seed)).run()
            world.check()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        happened += world.happened
        happened["ended"] += world.ended
    if len(seeds) > 1:
        for what in (
            "crash",
            "crash between effects",
            "lost",
            "damage",
            "taken back",
            "restore",
            "kept",
            "stopped",
            "drained",
            "cancelled",
            "cancelled while drained",
            "ended",
        ):
            assert happened[what], f"{what} never happened: {happened}"


class ForgetsNumbers(CompletedCheckpoints):
    """Gives numbers that it has not written down."""

    def begin(self) -> Write:
        return replace(super().begin(), value=b"%d" % (self.last - 1))


class AsksOnly(SinkOrders):
    """Says that all is out as soon as it was asked for."""

    @property
    def done(self) -> bool:
        return True


class ForgetsHandles(Pointer):
    """Does not write down what is to be published."""

    @classmethod
    def of(cls, manifest: Manifest, seal: Seal, seconds: float) -> Pointer:
        return replace(Pointer.of(manifest, seal, seconds), handles=(), state="published")


class TakesNothingBack(Restoration):
    """Goes on where rows are out that will come again."""

    def verified(self, checkpoint: int, manifest: Manifest, now: float) -> CheckpointEffects:
        if not self._is_asked(checkpoint):
            return []
        self.asked = None
        return self._from(manifest)


class TrustsStorage(Restoration):
    """Takes what can't be read for what was never there."""

    def _none_left(self) -> CheckpointEffects:
        return self._from(None)


class KeepsTooLittle(CompletedCheckpoints):
    """Lets the newest be removed."""

    def kept(self) -> tuple[int, ...]:
        return super().kept()[1:]


class ForgetsDrains(CompletedCheckpoints):
    """Does not write down that sources are to end."""

    def drain(self, *, drains: bool = True) -> Write:
        return replace(super().drain(drains=drains), value=None)


@pytest.mark.parametrize("plant", [
    ("CompletedCheckpoints", ForgetsNumbers), ("SinkOrders", AsksOnly), ("Pointer", ForgetsHandles),
    ("Restoration", TrustsStorage), ("Restoration", TakesNothingBack),
    ("CompletedCheckpoints", KeepsTooLittle), ("CompletedCheckpoints", ForgetsDrains),
], ids=lambda plant: plant[1].__name__)  # fmt: skip
def test_planted_bugs_are_found(plant: tuple[str, type], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, *plant)
    for seed in range(SEEDS_MAX):
        try:
            test_every_row_is_published_once(range(seed, seed + 1))
        except AssertionError:
            return
    raise AssertionError(f"{plant[1].__name__} was not found in {SEEDS_MAX} seeds")
