# SPDX-License-Identifier: Apache-2.0
"""The networks of the paper's tables as a GPU computes them fastest; every other network is computed as it is.

Channels are rounded up to multiples of eight, or of 64, which matrix units read without rearranging; batch norm,
shortcut, ReLU and pooling are one operation; weights are kept in half precision beside those in float32 that the
optimiser changes; and a bias before batch norm, which batch norm takes away again, is not added.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noiseproof.losses.fused.language import HAS_TRITON, triton
from noiseproof.models.resnet import BasicBlock, Bottleneck, ResNet
from noiseproof.models.small_cnn import SmallCNN
from noiseproof.models.unet import SLOPE, UNet
from noiseproof.training.config import Config
from noiseproof.training.fast import kernels
from noiseproof.training.fast.batch_norm import batch_norm
from noiseproof.training.fast.flat import FlatParameters, Place

Weighted = nn.Conv2d | nn.ConvTranspose2d | nn.Linear
MULTIPLE = 8
MOST_NUMBERS = 1 << 31
"""Of a batch's widest maps: the kernels count by 32 bits."""


def can_be_fast(model: nn.Module, config: Config, image_size: tuple[int, int]) -> bool:
    """Whether a network, and what is asked of its training on pictures of this size, has a fast form here."""
    return (
        HAS_TRITON
        and config.batch_size * math.prod(image_size) * _widest(model) < MOST_NUMBERS
        and (type(model) in (SmallCNN, ResNet) or _is_even(model, image_size))
        and next(model.parameters()).is_cuda
        and all(parameter.requires_grad for parameter in model.parameters())
        and config.optimizer in ("sgd", "adam")
        and not config.jacobian
        and not config.compile
    )


def _widest(model: nn.Module) -> int:
    """Channels of the widest maps of full size, those beside which a U-Net puts others counted twice."""
    return max(256, 2 * model.logits.in_channels) if isinstance(model, UNet) else 256


def _is_even(model: nn.Module, image_size: tuple[int, int]) -> bool:
    """Whether it is a U-Net that halves these pictures evenly, and whose channels matrix units like."""
    return (
        type(model) is UNet
        and all(size % multiple == 0 for size, multiple in zip(image_size, model.multiple, strict=True))
        and all(c.out_channels % MULTIPLE == 0 for c in model.modules() if _is_convolution(c, model))
    )


def _is_convolution(layer: nn.Module, model: nn.Module) -> TypeGuard[nn.Conv2d | nn.ConvTranspose2d]:
    return isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) and layer is not _final(model)


@dataclass(frozen=True)
class _Norm:
    """Batch norm: its parameters and statistics, as wide as their place."""

    gamma: Tensor
    beta: Tensor
    running_mean: Tensor
    running_var: Tensor
    bias: Tensor | None
    momentum: float
    eps: float


class FastNetwork:
    """A network in its fast form. It shares parameters and buffers with the network that it was made from.

    Args:
        model: a :class:`SmallCNN`, :class:`ResNet` or :class:`UNet` on a GPU.
        optimizer: its SGD or Adam.
        dtype: that it computes in."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, dtype: torch.dtype) -> None:
        self.model, self.dtype, self.training = model, dtype, True
        first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        layers = list(_layers(model, 64 if dtype == torch.bfloat16 and type(model) is SmallCNN else MULTIPLE))
        self.in_channels = first.in_channels if _is_unfolded(first) else layers[0][2][1]
        half: list[Place] = []
        full: list[Place] = []
        silent: list[Place] = []
        for layer, norm, shape in layers:
            half.append((layer.weight, shape))
            if norm is None:
                half += [(layer.bias, shape[:1])] if layer.bias is not None else []
                continue
            full += [(norm.weight, shape[:1]), (norm.bias, shape[:1])]
            if layer.bias is not None:
                silent.append((layer.bias, shape[:1]))
        self.parameters = FlatParameters(half, full, silent, dtype, optimizer)
        placed = [parameter for parameter, _ in (*half, *full)]
        leaves = dict(zip(map(id, placed), self.parameters.leaves, strict=True))
        self._weights = {id(layer): leaves[id(layer.weight)] for layer, _, _ in layers}
        self._final_bias = leaves[id(layers[-1][0].bias)]
        norms = [(layer, norm, shape) for layer, norm, shape in layers if norm is not None]
        self.batches_seen = torch.zeros(len(norms), dtype=torch.int64, device=self.parameters.weights.device)
        self._norms = {
            id(norm): self._take_over(position, layer, norm, shape[0], leaves)
            for position, (layer, norm, shape) in enumerate(norms)
        }

    def _take_over(
        self,
        position: int,
        layer: Weighted,
        norm: nn.BatchNorm2d | nn.BatchNorm1d,
        width: int,
        leaves: dict[int, Tensor],
    ) -> _Norm:
        """Widen a batch norm's statistics; the module's own become views of them."""
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        assert norm.momentum is not None
        mean, var = (torch.zeros(width, device=self.batches_seen.device) for _ in range(2))
        for wide, buffer in ((mean, "running_mean"), (var, "running_var")):
            narrow = wide[: norm.num_features]
            narrow.copy_(getattr(norm, buffer))
            setattr(norm, buffer, narrow)
        seen = self.batches_seen[position]
        seen.copy_(norm.num_batches_tracked)
        norm.num_batches_tracked = seen
        bias = None
        if layer.bias is not None:  # its place ends where the width does: what follows belongs to another
            bias = layer.bias.detach().as_strided((width,), (1,))
        gamma, beta = leaves[id(norm.weight)], leaves[id(norm.bias)]
        return _Norm(gamma, beta, mean, var, bias, norm.momentum, norm.eps)

    def train(self) -> None:
        """Normalise with the batch's statistics."""
        self.training = True

    def eval(self) -> None:
        """Normalise with the running statistics."""
        self.training = False

    def __call__(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W), channels last, with as many channels as :attr:`in_channels`."""
        if self.training:
            self.batches_seen += 1
        if isinstance(self.model, SmallCNN):
            return self._small_cnn(self.model, images)
        if isinstance(self.model, UNet):
            return self._unet(self.model, images)
        assert isinstance(self.model, ResNet)
        return self._resnet(self.model, images)

    def _convolve(self, layer: nn.Module, maps: Tensor) -> Tensor:
        assert isinstance(layer, nn.Conv2d)
        if _is_unfolded(layer):
            return _product(_unfolded(maps), self._weights[id(layer)], maps)
        return F.conv2d(maps, self._weights[id(layer)], None, layer.stride, layer.padding)

    def _normalize(
        self,
        norm: nn.Module,
        maps: Tensor,
        *,
        shortcut: Tensor | None = None,
        slope: float | None = 0.0,
        pool: bool = False,
        twice: bool = False,
    ) -> Any:
        of = self._norms[id(norm)]
        return batch_norm(
            maps,
            of.gamma,
            of.beta,
            of.running_mean,
            of.running_var,
            training=self.training,
            momentum=of.momentum,
            eps=of.eps,
            bias=of.bias,
            shortcut=shortcut,
            slope=slope,
            pool=pool,
            twice=twice,
        )

    def _small_cnn(self, model: SmallCNN, maps: Tensor) -> Tensor:
        modules = list(model.features)
        for position, module in enumerate(modules):
            if isinstance(module, nn.Conv2d):
                maps = self._convolve(module, maps)
            elif isinstance(module, nn.BatchNorm2d):
                even = maps.shape[2] % 2 == 0 and maps.shape[3] % 2 == 0
                pool = even and isinstance(_at(modules, position + 2), nn.MaxPool2d)
                maps = self._normalize(module, maps, pool=pool)
            elif isinstance(module, nn.MaxPool2d) and not even:
                maps = F.max_pool2d(maps, 2)
        linear, norm, _ = model.hidden
        hidden = F.linear(torch.flatten(maps, 1), self._weights[id(linear)])
        hidden = self._normalize(norm, hidden[:, :, None, None]).flatten(1)
        return F.linear(hidden, self._weights[id(model.fc)], self._final_bias)

    def _resnet(self, model: ResNet, maps: Tensor) -> Tensor:
        maps = model.maxpool(self._normalize(model.bn1, self._convolve(model.conv1, maps)))
        again = maps
        blocks = [
            block for stage in (model.layer1, model.layer2, model.layer3, model.layer4) for block in stage
        ]
        for block in blocks[:-1]:
            maps, again = self._block(block, maps, again, twice=True)
        maps = self._block(blocks[-1], maps, again, twice=False)
        return F.linear(maps.mean((2, 3)), self._weights[id(model.fc)], self._final_bias)

    def _block(self, block: nn.Module, maps: Tensor, again: Tensor, *, twice: bool) -> Any:
        """A residual block of the maps, which come twice: once for the convolutions, once for the shortcut."""
        assert isinstance(block, BasicBlock | Bottleneck)
        shortcut = again
        if block.downsample is not None:
            convolution, norm = block.downsample
            shortcut = self._normalize(norm, self._convolve(convolution, again), slope=None)
        maps = self._convolve(block.conv2, self._normalize(block.bn1, self._convolve(block.conv1, maps)))
        if isinstance(block, BasicBlock):
            return self._normalize(block.bn2, maps, shortcut=shortcut, twice=twice)
        maps = self._convolve(block.conv3, self._normalize(block.bn2, maps))
        return self._normalize(block.bn3, maps, shortcut=shortcut, twice=twice)

    def _unet(self, model: UNet, maps: Tensor) -> Tensor:
        across: list[Tensor] = []
        for stage in model.down[:-1]:
            maps, again = self._stage(stage, maps, twice=True)
            across.append(again)
        maps = self._stage(model.down[-1], maps)
        for wider, stage in zip(model.wider, model.up, strict=True):
            assert isinstance(wider, nn.ConvTranspose2d)
            wide = F.conv_transpose2d(maps, self._weights[id(wider)], None, wider.stride)
            maps = self._stage(stage, torch.cat([wide, across.pop()], 1))
        count, channels, height, width = maps.shape
        pixels = maps.permute(0, 2, 3, 1).reshape(-1, channels)
        logits = F.linear(pixels, self._weights[id(model.logits)], self._final_bias)
        logits = logits.view(count, height, width, -1).permute(0, 3, 1, 2)
        return logits[:, : model.logits.out_channels]

    def _stage(self, stage: nn.Module, maps: Tensor, *, twice: bool = False) -> Any:
        """Two convolutions, each with batch norm and a leaky ReLU; what comes of them twice, where asked for."""
        first, norm, _, second, last_norm, _ = stage.children()
        maps = self._normalize(norm, self._convolve(first, maps), slope=SLOPE)
        return self._normalize(last_norm, self._convolve(second, maps), slope=SLOPE, twice=twice)


def _is_unfolded(layer: nn.Conv2d) -> bool:
    """Whether a convolution sees so few channels that a product with its unfolded input is faster."""
    plain = layer.kernel_size == (3, 3) and layer.stride == (1, 1) and layer.padding == (1, 1)
    return plain and layer.in_channels < MULTIPLE


def _unfolded_width(channels: int) -> int:
    return int(triton.next_power_of_2(9 * channels))


def _unfolded(images: Tensor) -> Tensor:
    """The 3x3 neighbourhood of every pixel, (N·H·W, 9·C and some zeros)."""
    count, channels, height, width = images.shape
    rows = count * height * width
    wide = _unfolded_width(channels)
    columns = torch.empty(rows, wide, dtype=images.dtype, device=images.device)
    kernels.unfold[(triton.cdiv(rows, 128),)](
        images.contiguous(memory_format=torch.channels_last),
        columns,
        rows,
        channels,
        height,
        width,
        wide,
        128,
    )
    return columns


def _product(columns: Tensor, weights: Tensor, images: Tensor) -> Tensor:
    count, _, height, width = images.shape
    return (columns @ weights.t()).view(count, height, width, -1).permute(0, 3, 1, 2)


def _rounded(channels: int, multiple: int) -> int:
    """Channels as convolutions like them; few channels stay few."""
    multiple = multiple if channels > multiple else MULTIPLE
    return -(-channels // multiple) * multiple


def _eighths(features: int) -> int:
    return -(-features // MULTIPLE) * MULTIPLE


def _at(modules: list[nn.Module], position: int) -> nn.Module | None:
    return modules[position] if position < len(modules) else None


Layer = tuple[Weighted, nn.BatchNorm2d | nn.BatchNorm1d | None, tuple[int, ...]]
"""A layer with weights, the batch norm after it, and the shape of its weights' place."""


def _final(model: nn.Module) -> nn.Module:
    return model.get_submodule(str(model.final_layer))


def _layers(model: nn.Module, multiple: int) -> Iterator[Layer]:
    """Layers of a network in the order of its modules, the last one being the final layer.

    Args:
        model: the network.
        multiple: what channels are rounded up to. In half precision cuDNN's convolutions for 256 channels take two
            thirds of what those for 200 take; in float32 time grows with the channels.
    """
    modules = [m for m in model.modules() if isinstance(m, Weighted | nn.BatchNorm2d | nn.BatchNorm1d)]
    final = _final(model)
    # A residual block lists conv1, bn1, conv2, bn2, …: what follows a layer is its own batch norm, if it has any.
    for layer, norm in pairwise(modules):
        if isinstance(layer, nn.Conv2d):
            assert isinstance(norm, nn.BatchNorm2d)
            out = _rounded(layer.out_channels, multiple)
            into = _rounded(layer.in_channels, multiple)  # 3 becomes 8
            wide = _unfolded_width(layer.in_channels)
            yield layer, norm, (out, wide) if _is_unfolded(layer) else (out, into, *layer.kernel_size)
        elif isinstance(layer, nn.ConvTranspose2d):
            yield layer, None, tuple(layer.weight.shape)
        elif isinstance(layer, nn.Linear):
            assert isinstance(norm, nn.BatchNorm1d)
            pixels = _pixels_before(model, layer)
            channels = _rounded(layer.in_features // pixels, multiple)
            yield layer, norm, (_eighths(layer.out_features), channels * pixels)
    if isinstance(final, nn.Conv2d):  # of single pixels: a product
        yield final, None, (_eighths(final.out_channels), final.in_channels)
        return
    assert isinstance(final, nn.Linear)
    yield final, None, (final.out_features, _eighths(final.in_features))


def _pixels_before(model: nn.Module, layer: nn.Linear) -> int:
    """Pixels of the maps that a linear layer sees flattened, channel after channel."""
    last = [m for m in model.modules() if isinstance(m, nn.Conv2d)][-1]
    return layer.in_features // last.out_channels
