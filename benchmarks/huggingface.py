# SPDX-License-Identifier: Apache-2.0
"""Losses in the Hugging Face Trainer, whose optimiser is AdamW: a small ViT on digits with 40% wrong labels.

Needs ``pip install 'noiseproof[integrations]'``; about ten minutes on one core. The numbers are in
docs/integrations.md.

python benchmarks/huggingface.py
"""

import argparse
import statistics
import tempfile

import torch
import transformers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from noiseproof import noise
from noiseproof.integrations.huggingface import L1Penalty, trainer_loss

METHODS = [
    ("ce", {}, 0.0),
    ("gce", {}, 0.0),
    ("nce+rce", {}, 0.0),
    ("anl-ce", {"alpha": 5.0, "beta": 5.0}, 0.0),
    ("anl-ce", {"alpha": 5.0, "beta": 5.0}, 5e-5),
]


def samples(pictures, labels):
    return [
        {"pixel_values": torch.tensor(picture).view(1, 8, 8), "labels": int(label)}
        for picture, label in zip(pictures, labels, strict=True)
    ]


def accuracy(name, parameters, l1, seed, epochs, train, test):
    transformers.set_seed(seed)
    config = transformers.ViTConfig(
        image_size=8, patch_size=2, num_channels=1, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, num_labels=10,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=64, learning_rate=1e-3, weight_decay=0.0,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True, seed=seed,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, train_dataset=train, compute_loss_func=trainer_loss(name, **parameters),
            callbacks=[L1Penalty(l1)],
        )  # fmt: skip
        trainer.train()
        found = trainer.predict(test)
    return 100 * float((found.predictions.argmax(1) == found.label_ids).mean())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=80)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    digits = load_digits()
    pictures = (digits.data / 16).astype("float32")
    x, x_test, y, y_test = train_test_split(
        pictures, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    given = noise.symmetric(y, rate=0.4, num_classes=10, seed=1).labels
    train, test = samples(x, given), samples(x_test, y_test)
    for name, parameters, l1 in METHODS:
        each = [accuracy(name, parameters, l1, seed, options.epochs, train, test) for seed in options.seeds]
        spread = f" ± {statistics.stdev(each):.1f}" if len(each) > 1 else ""
        print(f"{name}, L1 {l1:g}: {statistics.mean(each):.1f}{spread}", flush=True)


if __name__ == "__main__":
    main()
