# SPDX-License-Identifier: Apache-2.0
"""Networks by name: the noisy-label papers' own, ResNets, VGG, a perceptron, U-Nets, and timm's.

>>> import torch
>>> from noiseproof import models
>>> model = models.create("resnet18-cifar", num_classes=10, seed=1).eval()
>>> model(torch.zeros(1, 3, 32, 32)).shape
torch.Size([1, 10])
>>> print(*models.available())
cnn8 mnist-cnn resnet18 resnet34 resnet50 resnet18-cifar resnet34-cifar resnet50-cifar vgg19-bn
efficientnet-lite0 mlp
"""

from noiseproof.models import imagenet, records  # noqa: F401  (records fills the catalogue)
from noiseproof.models.catalogue import ModelRecord, available, create, is_of_the_package, record, register
from noiseproof.models.efficientnet_lite import EfficientNetLite
from noiseproof.models.mlp import MLP
from noiseproof.models.nnunet import NnUNet
from noiseproof.models.resnet import BasicBlock, Bottleneck, ResNet
from noiseproof.models.small_cnn import SmallCNN
from noiseproof.models.unet import UNet
from noiseproof.models.vgg import VGG
from noiseproof.models.weight_files import WeightsError
from noiseproof.models.weights import WeightsReport, load_weights, save_weights

__all__ = [
    "MLP",
    "VGG",
    "BasicBlock",
    "Bottleneck",
    "EfficientNetLite",
    "ModelRecord",
    "NnUNet",
    "ResNet",
    "SmallCNN",
    "UNet",
    "WeightsError",
    "WeightsReport",
    "available",
    "create",
    "imagenet",
    "is_of_the_package",
    "load_weights",
    "record",
    "register",
    "save_weights",
]
