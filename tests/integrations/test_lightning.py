# SPDX-License-Identifier: Apache-2.0
"""Lightning trains with the L1 penalty where the paper puts it, and logs both accuracies."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from noiseproof.losses import L1, create

lightning = pytest.importorskip("lightning.pytorch")

from noiseproof.integrations.lightning import CleanAndFlippedAccuracy, L1Penalty  # noqa: E402


class Module(lightning.LightningModule):
    def __init__(self, returned=("logits", "given", "flipped")):
        super().__init__()
        torch.manual_seed(3)
        self.model, self.loss, self.returned = nn.Linear(6, 3), create("anl-ce"), returned

    def training_step(self, batch, batch_idx):
        x, given, flipped = batch
        logits = self.model(x)
        parts = {"logits": logits.detach(), "given": given, "flipped": flipped}
        return {"loss": self.loss(logits, given)} | {name: parts[name] for name in self.returned}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    true = x[:, :3].argmax(1)
    flipped = torch.arange(40) % 5 == 0
    return x, torch.where(flipped, (true + 1) % 3, true), flipped


def trained(tmp_path, module, epochs=2, **arguments):
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path, **arguments,
    )  # fmt: skip
    trainer.fit(module, DataLoader(TensorDataset(*data()), batch_size=20))
    return trainer


def test_the_penalty_is_that_of_a_plain_loop(tmp_path):
    module = Module()
    trained(tmp_path, module, callbacks=[L1Penalty(0.01)], gradient_clip_val=0.5)

    plain = Module()
    optimizer, l1 = torch.optim.SGD(plain.parameters(), lr=0.1), L1(0.01)
    for _ in range(2):
        for x, given, _ in zip(*(part.split(20) for part in data()), strict=True):
            optimizer.zero_grad()
            plain.loss(plain.model(x), given).backward()
            l1.add_to_gradients(plain.parameters())
            nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            optimizer.step()
    assert torch.allclose(module.model.weight, plain.model.weight, atol=1e-6)


@pytest.mark.parametrize("fused", [False, True])
def test_the_penalty_is_scaled_as_the_gradient_is(tmp_path, fused):
    """In float16; a fused optimiser is given the scaled gradient, and Lightning leaves it so."""

    class Half(Module):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, fused=fused)

    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    half = lightning.plugins.MixedPrecision("16-mixed", "cpu", scaler)
    half.autocast_context_manager = lambda: torch.autocast(
        "cpu", enabled=False
    )  # only the scaling is of interest
    scaled, plain = Half(), Module()
    trained(tmp_path, scaled, callbacks=[L1Penalty(0.01)], plugins=[half])
    trained(tmp_path, plain, callbacks=[L1Penalty(0.01)])
    assert scaler.get_scale() == 1024.0
    assert torch.allclose(scaled.model.weight, plain.model.weight, atol=1e-6)


def test_accuracies_on_clean_and_flipped_labels(tmp_path):
    seen = []

    class Spy(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append((outputs["logits"].argmax(1) == outputs["given"], outputs["flipped"]))

    trainer = trained(
        tmp_path, Module(), epochs=1, callbacks=[CleanAndFlippedAccuracy(prefix="train_"), Spy()]
    )
    right, flipped = (torch.cat(parts) for parts in zip(*seen, strict=True))
    expected = [100 * right[which].float().mean().item() for which in (~flipped, flipped)]
    logged = [float(trainer.callback_metrics[f"train_{kind}_accuracy"]) for kind in ("clean", "flipped")]
    assert logged == pytest.approx(expected)


def test_a_step_that_returns_too_little_is_told_so(tmp_path):
    with pytest.raises(ValueError, match="missing flipped"):
        trained(tmp_path, Module(returned=("logits", "given")), callbacks=[CleanAndFlippedAccuracy()])


@pytest.mark.parametrize("name", ["given", "flipped"])
def test_a_column_is_not_taken_for_labels(name):
    outputs = {"logits": torch.zeros(4, 3), "given": torch.zeros(4).long(), "flipped": torch.zeros(4)}
    callback = CleanAndFlippedAccuracy()
    callback.on_train_epoch_start(None, None)
    callback.on_train_batch_end(None, None, outputs, None, 0)
    with pytest.raises(ValueError, match=rf"{name}: expected one entry a label, shape \(4,\).*got \(4, 1\)"):
        callback.on_train_batch_end(None, None, outputs | {name: outputs[name][:, None]}, None, 1)


def test_a_prefix_is_not_taken_for_a_function():
    with pytest.raises(TypeError, match="read: expected a function, got 'train_'; .* prefix="):
        CleanAndFlippedAccuracy("train_")
