# SPDX-License-Identifier: Apache-2.0
"""The networks written a second time: forward passes straight from a state dict, layouts as published.

Nothing here imports the models: names, shapes and order come from the papers and from the published layout of
torchvision's weight files.
"""

import torch
import torch.nn.functional as F

DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
WIDTHS = (64, 128, 256, 512)
VGG19_CONVOLUTIONS = (0, 3, 7, 10, 14, 17, 20, 23, 27, 30, 33, 36, 40, 43, 46, 49)
VGG19_CHANNELS = (64,) * 2 + (128,) * 2 + (256,) * 4 + (512,) * 8
VGG19_POOLED_AFTER = (3, 10, 23, 36, 49)


LITE_WIDTHS = (16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320)
LITE_KERNELS = (3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3)
LITE_HALVED_AT = (1, 3, 5, 11)


def norm_shapes(name, width):
    shapes = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return shapes | {f"{name}.num_batches_tracked": ()}


def resnet_shapes(layers, num_classes=1000, stem=7):
    """Names and shapes of torchvision's ResNet weight files."""
    shapes = {"conv1.weight": (64, 3, stem, stem)} | norm_shapes("bn1", 64)
    expansion = 4 if layers == 50 else 1
    before = 64
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS[layers], strict=True), start=1):
        after = width * expansion
        for block in range(depth):
            at = f"layer{stage}.{block}"
            if layers == 50:
                kernels = ((width, before, 1, 1), (width, width, 3, 3), (after, width, 1, 1))
            else:
                kernels = ((width, before, 3, 3), (width, width, 3, 3))
            for number, kernel in enumerate(kernels, start=1):
                shapes[f"{at}.conv{number}.weight"] = kernel
                shapes |= norm_shapes(f"{at}.bn{number}", kernel[0])
            if block == 0 and (stage > 1 or layers == 50):
                shapes[f"{at}.downsample.0.weight"] = (after, before, 1, 1)
                shapes |= norm_shapes(f"{at}.downsample.1", after)
            before = after
    return shapes | {"fc.weight": (num_classes, before), "fc.bias": (num_classes,)}


def vgg19_bn_shapes(num_classes=1000):
    """Names and shapes of torchvision's VGG-19-BN weight file."""
    shapes = {}
    before = 3
    for index, after in zip(VGG19_CONVOLUTIONS, VGG19_CHANNELS, strict=True):
        shapes |= {f"features.{index}.weight": (after, before, 3, 3), f"features.{index}.bias": (after,)}
        shapes |= norm_shapes(f"features.{index + 1}", after)
        before = after
    for index, (after, before) in {0: (4096, 25088), 3: (4096, 4096), 6: (num_classes, 4096)}.items():
        shapes |= {f"classifier.{index}.weight": (after, before), f"classifier.{index}.bias": (after,)}
    return shapes


def efficientnet_lite0_shapes(num_classes=1000):
    """Names and shapes of the published EfficientNet-Lite0's weight file."""
    shapes = {"_conv_stem.weight": (32, 3, 3, 3)} | norm_shapes("_bn0", 32)
    before = 32
    for block, (after, kernel) in enumerate(zip(LITE_WIDTHS, LITE_KERNELS, strict=True)):
        at, width = f"_blocks.{block}", before * (6 if block else 1)
        if block:
            shapes[f"{at}._expand_conv.weight"] = (width, before, 1, 1)
            shapes |= norm_shapes(f"{at}._bn0", width)
        shapes[f"{at}._depthwise_conv.weight"] = (width, 1, kernel, kernel)
        shapes |= norm_shapes(f"{at}._bn1", width)
        shapes[f"{at}._project_conv.weight"] = (after, width, 1, 1)
        shapes |= norm_shapes(f"{at}._bn2", after)
        before = after
    shapes["_conv_head.weight"] = (1280, before, 1, 1)
    shapes |= norm_shapes("_bn1", 1280)
    return shapes | {"_fc.weight": (num_classes, 1280), "_fc.bias": (num_classes,)}


def norm(state, name, maps, epsilon=1e-5):
    mean, var, weight, bias = (
        state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    )
    shape = (1, -1) + (1,) * (maps.dim() - 2)
    scale = weight / torch.sqrt(var + epsilon)
    return maps * scale.view(shape) + (bias - mean * scale).view(shape)


def resnet(state, images, layers, stem):
    def convolve(name, maps, stride=1):
        weight = state[f"{name}.weight"]
        return F.conv2d(maps, weight, stride=stride, padding=weight.shape[-1] // 2)

    if stem == "imagenet":
        maps = F.max_pool2d(F.relu(norm(state, "bn1", convolve("conv1", images, stride=2))), 3, 2, 1)
    else:
        maps = F.relu(norm(state, "bn1", convolve("conv1", images)))
    for stage, depth in enumerate(DEPTHS[layers], start=1):
        for block in range(depth):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            strides = (1, stride, 1) if layers == 50 else (stride, 1)
            branch = maps
            for number, each in enumerate(strides, start=1):
                branch = norm(state, f"{at}.bn{number}", convolve(f"{at}.conv{number}", branch, each))
                branch = F.relu(branch) if number < len(strides) else branch
            if f"{at}.downsample.0.weight" in state:
                maps = norm(state, f"{at}.downsample.1", convolve(f"{at}.downsample.0", maps, stride))
            maps = F.relu(branch + maps)
    return F.linear(maps.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def vgg19_bn(state, images, pool_size):
    maps = images
    for index in VGG19_CONVOLUTIONS:
        maps = F.conv2d(maps, state[f"features.{index}.weight"], state[f"features.{index}.bias"], padding=1)
        maps = F.relu(norm(state, f"features.{index + 1}", maps))
        maps = F.max_pool2d(maps, 2) if index in VGG19_POOLED_AFTER else maps
    rows = F.adaptive_avg_pool2d(maps, pool_size).flatten(1)
    for index in (0, 3, 6):
        rows = F.linear(rows, state[f"classifier.{index}.weight"], state[f"classifier.{index}.bias"])
        rows = F.relu(rows) if index < 6 else rows
    return rows


def efficientnet_lite0(state, images):
    """By TensorFlow's rule a map of s pixels becomes one of ⌈s / stride⌉, and is padded by what that lacks."""

    def convolve(name, maps, stride=1, groups=1):
        weight = state[f"{name}.weight"]
        kernel = weight.shape[-1]
        rows, columns = ((-(-s // stride) - 1) * stride + kernel - s for s in maps.shape[-2:])
        rows, columns = max(rows, 0), max(columns, 0)
        above, left = rows // 2, columns // 2
        maps = F.pad(maps, (left, columns - left, above, rows - above))
        return F.conv2d(maps, weight, stride=stride, groups=groups)

    def norm_and_bend(name, maps):
        return norm(state, name, maps, epsilon=1e-3).clamp(0, 6)

    maps = norm_and_bend("bn0", convolve("conv_stem", images, stride=2))
    for block in range(len(LITE_WIDTHS)):
        at, stride = f"blocks.{block}", 2 if block in LITE_HALVED_AT else 1
        branch = norm_and_bend(f"{at}.bn0", convolve(f"{at}.expand_conv", maps)) if block else maps
        depthwise = convolve(f"{at}.depthwise_conv", branch, stride, groups=branch.shape[1])
        branch = convolve(f"{at}.project_conv", norm_and_bend(f"{at}.bn1", depthwise))
        branch = norm(state, f"{at}.bn2", branch, epsilon=1e-3)
        maps = maps + branch if branch.shape == maps.shape else branch
    maps = norm_and_bend("bn1", convolve("conv_head", maps))
    return F.linear(maps.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def small_cnn(state, images, stages):
    """``stages``: number of convolutions before each pool."""
    maps, index = images, 0
    for depth in stages:
        for _ in range(depth):
            maps = F.conv2d(
                maps, state[f"features.{index}.weight"], state[f"features.{index}.bias"], padding=1
            )
            maps = F.relu(norm(state, f"features.{index + 1}", maps))
            index += 3
        maps = F.max_pool2d(maps, 2)
        index += 1
    rows = F.linear(maps.flatten(1), state["hidden.0.weight"], state["hidden.0.bias"])
    return F.linear(F.relu(norm(state, "hidden.1", rows)), state["fc.weight"], state["fc.bias"])


def mlp(state, rows):
    rows = rows.flatten(1)
    for name in sorted({key.rsplit(".", 1)[0] for key in state if key.startswith("hidden.")}):
        rows = F.relu(F.linear(rows, state[f"{name}.weight"], state[f"{name}.bias"]))
    return F.linear(rows, state["fc.weight"], state["fc.bias"])
