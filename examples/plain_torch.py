# SPDX-License-Identifier: Apache-2.0
"""A plain torch loop on handwritten digits, with 60% of the training labels wrong.

Compare it with the same loop using noiseproof:

    diff examples/plain_torch.py examples/plain_torch_noiseproof.py
    python examples/plain_torch.py
"""

import argparse

import torch
from torch import nn

from noiseproof import datasets, noise

parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
epochs = 3 if parser.parse_args().quick else 60

torch.manual_seed(1)
torch.set_num_threads(1)
train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
x, x_test = (torch.tensor(part.images).flatten(1) / 255 for part in (train, test))
y_test = torch.tensor(test.labels)
given = torch.tensor(noise.symmetric(train.labels, rate=0.6, num_classes=10, seed=1).labels)

model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 10))
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

for _ in range(epochs):
    for batch in torch.randperm(len(x)).split(64):
        optimizer.zero_grad()
        loss(model(x[batch]), given[batch]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    schedule.step()

model.eval()
with torch.no_grad():
    right = (model(x_test).argmax(1) == y_test).float().mean()
print(f"accuracy on clean test labels: {right:.1%}")
