# SPDX-License-Identifier: Apache-2.0
"""The Hugging Face Trainer with a loss of ours."""

import pytest
import torch
from torch.utils.data import Dataset

from noiseproof.integrations.huggingface import TrainerLoss, trainer_loss
from noiseproof.losses import create


def test_the_mean_over_sequences_and_tokens():
    logits, labels = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    labels[0, 2:] = -100
    expected = create("anl-ce")(logits.flatten(0, 1), labels.flatten())
    assert torch.allclose(trainer_loss("anl-ce")({"logits": logits}, labels), expected)
    assert torch.allclose(
        trainer_loss("anl-ce")({"logits": logits[:, 0]}, labels[:, 0]),
        create("anl-ce")(logits[:, 0], labels[:, 0]),
    )


def test_accumulated_steps_are_divided_by_all_their_labels():
    logits, labels = torch.randn(6, 4), torch.randint(4, (6,))
    loss = trainer_loss("anl-ce")
    parts = [loss({"logits": logits[i : i + 3]}, labels[i : i + 3], torch.tensor(6)) for i in (0, 3)]
    assert torch.allclose(sum(parts), create("anl-ce")(logits, labels))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_loss_s_own_reduction_is_not_used(reduction):
    logits, labels = torch.randn(6, 4), torch.randint(4, (6,))
    given = create("anl-ce", reduction=reduction)
    loss = TrainerLoss(given)({"logits": logits}, labels, torch.tensor(6))
    assert torch.allclose(loss, create("anl-ce")(logits, labels))
    assert given.reduction == reduction


def test_class_weights_go_where_the_logits_are():
    loss = trainer_loss("ce", weight=[1.0, 2.0, 3.0])
    labels, logits = torch.zeros(4, dtype=torch.long), torch.zeros(4, 3)
    assert loss({"logits": logits}, labels).device.type == "cpu"
    assert loss({"logits": logits.to("meta")}, labels.to("meta")).device.type == "meta"


def test_a_tuple_begins_with_the_logits():
    logits, labels = torch.randn(6, 4), torch.randint(4, (6,))
    assert torch.allclose(trainer_loss("anl-ce")((logits, None), labels), create("anl-ce")(logits, labels))


def test_another_loss_is_refused():
    with pytest.raises(TypeError, match="expected a loss of noiseproof.losses"):
        TrainerLoss(torch.nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match="ignore_index: expected -100, .*, got 255"):
        trainer_loss("anl-ce", ignore_index=255)


@pytest.mark.parametrize(
    ("outputs", "labels", "told"),
    [
        ({"logits": torch.zeros(4, 3)}, None, "labels: expected them in every batch under the name 'labels'"),
        ({"hidden": torch.zeros(4, 3)}, torch.zeros(4).long(), "got a dictionary of hidden"),
        (torch.zeros(4, 3), torch.zeros(4).long(), "outputs: expected logits .* got Tensor"),
        (
            (torch.zeros(()), torch.zeros(4, 3)),
            torch.zeros(4).long(),
            "outputs: expected logits .* got tuple",
        ),
        ({"logits": torch.zeros(4, 3)}, torch.zeros(4, 3), r"indices of shape \(4,\) .* got torch.float32"),
        ({"logits": torch.zeros(2, 3, 8, 8)}, torch.zeros(2, 8, 8).long(), "classes last, got torch.int64"),
    ],
    ids=["no labels", "no logits", "a tensor", "a tuple with a loss", "probabilities", "classes second"],
)
def test_what_the_loss_cannot_read_is_told(outputs, labels, told):
    with pytest.raises(ValueError, match=told):
        trainer_loss("anl-ce")(outputs, labels)


class Sequences(Dataset):
    """The label is the first token's."""

    def __init__(self, count):
        self.tokens = torch.randint(5, 7, (count, 9), generator=torch.Generator().manual_seed(2))
        self.labels = self.tokens[:, 0] - 5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def test_the_trainer_learns_and_the_penalty_acts(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from noiseproof.integrations.huggingface import L1Penalty

    def weights_after(l1):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=16, num_labels=2,
        )  # fmt: skip
        model = transformers.BertForSequenceClassification(config)
        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=8, per_device_train_batch_size=16, gradient_accumulation_steps=2,
            learning_rate=5e-3, report_to=[], save_strategy="no", logging_strategy="no", use_cpu=True, seed=1,
        )  # fmt: skip
        data = Sequences(128)
        transformers.Trainer(
            model, arguments, train_dataset=data, compute_loss_func=trainer_loss("anl-ce", alpha=5.0, beta=5.0),
            callbacks=[L1Penalty(l1)],
        ).train()  # fmt: skip
        model.eval()
        with torch.no_grad():
            right = (model(data.tokens).logits.argmax(1) == data.labels).float().mean().item()
        return right, sum(p.abs().sum().item() for p in model.parameters())

    accuracy, plain = weights_after(0.0)
    _, shrunk = weights_after(0.5)
    assert accuracy > 0.9
    assert shrunk < 0.8 * plain
