# SPDX-License-Identifier: Apache-2.0
"""``noiseproof noise``: make a data set's labels wrong, look at them, save them."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from noiseproof.command_line.failures import fail

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from noiseproof.datasets import LabeledData
    from noiseproof.noise import NoisyLabels, NoisyMasks

EPILOG = """
[bold]Examples[/bold]

  noiseproof noise digits --kind sym --rate 0.4 --show

  noiseproof noise cifar10 --kind sym --rate 0.8 --seed 1 --out noisy.npz

  noiseproof noise cifar100 --kind asym --rate 0.4 --flips cifar100-superclass --out noisy.npz

  noiseproof noise cifar10 --kind dep --rate 0.4 --seed 0 --out published.npz --show published.png

  noiseproof noise cifar10 --kind human --key worse_label --file CIFAR-10_human.pt --out worse.npz

  noiseproof noise cifar10 --kind open-set --rate 0.2 --outside cifar100 --out open.npz

  noiseproof noise digits --kind annotators --rates 0.1,0.2,0.6 --out crowd.npz

  noiseproof noise isic2017 --kind masks --share 0.7 --strength 0.7 --out masks.npz --show

  noiseproof noise blobs --kind masks --share 0.7 --strength 0.7 --show

  noiseproof noise folder:cells --kind masks --share 0.5 --image-size 256 --out masks.npz
"""

DEFAULT_FLIPS = {
    "cifar10": "cifar10",
    "cifar100": "cifar100-blocks",
    "digits": "mnist-like",
    "fashion-mnist": "mnist-like",
}
"""The flips of the published tables, by data set."""

DEFAULT_KEYS = {"cifar10": "worse_label", "cifar100": "noisy_label"}
"""The human labels of the published tables, by data set."""


ALIASES = {"symmetric": "sym", "asymmetric": "asym", "real": "human", "open": "open-set"}
KINDS = ("sym", "asym", "dep", "human", "open-set", "annotators", "masks")


class Choices(NamedTuple):
    """The options that say what the noise is."""

    rate: float | None
    seed: int
    generator: str | None
    flips: str | None
    file: Path | None
    key: str | None
    outside: str | None
    rates: str | None
    strength: float

    def needed(self, option: str) -> Any:
        """An option that this kind of noise cannot do without."""
        if (value := getattr(self, option)) is None:
            raise ValueError(f"this kind of noise needs --{option}; see noiseproof noise --help")
        return value


def noise(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET", help="A name from noiseproof data list, or folder:PATH or csv:PATH."
        ),
    ],
    picture: Annotated[str | None, typer.Argument(hidden=True, metavar="[FILE.png]")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Kind of noise: sym, asym, dep, human, open-set, annotators, masks, or your own (--import).",
            rich_help_panel="Noise",
        ),
    ] = "sym",
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            "--share",
            help="Share of wrong labels, or of wrong masks, from 0 to 1.",
            rich_help_panel="Noise",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the noise.", rich_help_panel="Noise")] = 1,
    generator: Annotated[
        str | None,
        typer.Option(
            help="How to draw the noise. sym: exact, exact-fast, bernoulli, redraw-over-all-classes; asym: exact, "
            "exact-fast, bernoulli; dep: pdn, fixed-count, shared-projection; annotators: one, majority.",
            rich_help_panel="Noise",
        ),
    ] = None,
    flips: Annotated[
        str | None,
        typer.Option(
            help="asym: which class becomes which: cifar10, mnist-like, cifar100-blocks, cifar100-superclass, or "
            "pairs such as 9>1,3>5.",
            rich_help_panel="Noise",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="human: the official file; by default the one in the cache.", rich_help_panel="Noise"
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="human: which set of labels, e.g. worse_label.", rich_help_panel="Noise"),
    ] = None,
    outside: Annotated[
        str | None,
        typer.Option(help="open-set: data set to take the outside images from.", rich_help_panel="Noise"),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            help="annotators: error rate of each annotator, e.g. 0.1,0.2,0.6.", rich_help_panel="Noise"
        ),
    ] = None,
    strength: Annotated[
        float,
        typer.Option(help="masks: how much of the area of a wrong mask is wrong.", rich_help_panel="Noise"),
    ] = 0.7,
    image_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="masks: first resize your own images and masks to squares of this size, as for training.",
            rich_help_panel="Noise",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the noise to this .npz file.")] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="Draw the transition matrix, rates and images: --show FILE.png; --show alone writes the PNG next "
            "to --out, or noise.png.",
        ),
    ] = False,
) -> None:
    """Add label noise to a data set: report it, save it, draw it."""
    if dataset.endswith(".png") and picture is not None:
        dataset, picture = picture, dataset  # --show FILE.png before the data set
    if picture is not None and not (show and picture.endswith(".png")):
        fail(f"expected one data set, got a second name, {picture!r}; to draw the noise, use --show FILE.png")
    if out is not None and out.suffix != ".npz":
        fail(f"--out must end in .npz, got {str(out)!r}")
    from noiseproof.datasets import DataError, load
    from noiseproof.noise.checks import checked_choice
    from noiseproof.noise.own import own_kinds

    try:
        chosen = checked_choice(ALIASES.get(kind, kind), (*KINDS, *own_kinds()), "--kind")
        data = load(dataset, split="train", side=image_size)
        if image_size is not None and (data.masks is None or not dataset.startswith("folder:")):
            raise ValueError(f"--image-size is for folder:PATH with masks; leave it out for {dataset}")
        noisy = _made(
            data, chosen, Choices(rate, seed, generator, flips, file, key, outside, rates, strength)
        )
        _report(noisy, data)
        if out is not None:
            noisy.save(out)
            typer.echo(f"saved     {out}")
            _tell_use(noisy, data, dataset, out)
        if show:
            target = Path(picture) if picture else out.with_suffix(".png") if out else Path("noise.png")
            _draw(noisy, data, outside, target)
            typer.echo(f"drawn     {target}")
    except (DataError, ValueError, TypeError, OSError) as error:
        fail(error)


def _tell_use(noisy: "NoisyLabels | NoisyMasks", data: "LabeledData", dataset: str, out: Path) -> None:
    """Say how to train on what was saved; not of what training refuses, such as images of other data."""
    from noiseproof.noise import NoisyLabels

    if isinstance(noisy, NoisyLabels):
        uncertain = noisy.kind == "human" and data.uncertain is not None
        if noisy.outside is not None or uncertain or noisy.num_classes != data.num_classes:
            return
    words = ["noiseproof", "train", dataset, "--noise", f"file:{out}"]
    if data.masks is not None and dataset.startswith("folder:"):
        height, width = data.masks.shape[1:]
        if height != width:
            typer.echo("to train on it, make it at the size used for training, e.g. with --image-size 256")
            return
        words += ["--image-size", str(width)]  # a plan may choose another size, which these masks do not fit
    typer.echo(f"train on it with: {shlex.join(words)}")


def _made(data: "LabeledData", kind: str, choices: Choices) -> "NoisyLabels | NoisyMasks":
    from noiseproof import noise
    from noiseproof.datasets.folders import VOID
    from noiseproof.noise.own import draw_own, own_kinds

    if data.masks is not None and kind in KINDS[:-1]:
        raise ValueError(f"{data.name} has masks, and {kind} is for labels of whole images; use --kind masks")
    labels, seed = data.labels, choices.seed
    if kind in own_kinds():
        own = draw_own(noise.NoiseName(kind, choices.needed("rate")), data, seed)
        assert own is not None
        return own
    if kind == "sym":
        generator = choices.generator or "exact"
        return noise.symmetric(labels, choices.needed("rate"), data.num_classes, seed, generator)
    if kind == "asym":
        flips = _flips(choices.flips or DEFAULT_FLIPS.get(data.name) or choices.needed("flips"))
        generator = choices.generator or "exact"
        return noise.asymmetric(labels, choices.needed("rate"), flips, seed, data.num_classes, generator)
    if kind == "dep":
        if data.images is None:
            raise ValueError(
                f"instance-dependent noise needs images in memory, but {data.name} is read file by file"
            )
        generator = choices.generator or "pdn"
        rate = choices.needed("rate")
        return noise.instance_dependent(data.images, labels, rate, data.num_classes, seed, generator)
    if kind == "human":
        return _human(data, choices)
    if kind == "open-set":
        from noiseproof.datasets import load

        pool = len(load(choices.needed("outside"), split="train"))
        return noise.open_set(labels, choices.needed("rate"), data.num_classes, seed, pool)
    if kind == "annotators":
        said = choices.needed("rates")
        try:
            each = [float(text) for text in said.split(",")]
        except ValueError:
            raise ValueError(f"--rates must be numbers such as 0.1,0.2,0.6, got {said[:80]!r}") from None
        return noise.annotators(labels, each, data.num_classes, seed, choices.generator or "one")
    if data.masks is None:
        raise ValueError(f"{data.name} has no masks to corrupt; kinds for labels are {', '.join(KINDS[:-1])}")
    if data.num_classes > 2:
        raise ValueError(
            f"only masks of two classes can be corrupted; those of {data.name} have {data.num_classes}"
        )
    return noise.corrupt_masks(data.masks, choices.needed("rate"), choices.strength, seed, VOID)


def _human(data: "LabeledData", choices: Choices) -> "NoisyLabels":
    from noiseproof import noise
    from noiseproof.datasets import human_labels

    key = choices.key or DEFAULT_KEYS.get(data.name)
    if key is None:
        raise ValueError(f"human labels exist for {' and '.join(DEFAULT_KEYS)}, got {data.name}")
    coarse = key == "noisy_coarse_label"
    clean = data.coarse_labels if coarse else data.labels
    if clean is None:
        raise ValueError(f"{key} needs the superclasses, which {data.name} does not have")
    if choices.file is not None:
        noisy = noise.from_file(choices.file, key, clean)
    else:
        given = human_labels(f"{data.name}n", key)
        noisy = noise.from_arrays(given.labels, given.clean, key, clean)
    if data.uncertain is not None and len(data.uncertain):
        typer.echo(
            f"note: the position of {len(data.uncertain)} images of {data.name} is uncertain; leave them out "
            "when training on human labels",
            err=True,
        )
    return noisy


def _flips(text: str) -> str | dict[int, int]:
    """A name as it is, pairs such as ``9>1,3>5`` as a mapping."""
    if ">" not in text:
        return text
    try:
        pairs = [pair.split(">") for pair in text.split(",")]
        return {int(true_class): int(given_class) for true_class, given_class in pairs}
    except ValueError:
        raise ValueError(f"--flips must be a name or pairs such as 9>1,3>5, got {text!r}") from None


def _report(noisy: "NoisyLabels | NoisyMasks", data: "LabeledData") -> None:
    from noiseproof.noise import NoisyMasks

    if isinstance(noisy, NoisyMasks):
        typer.echo(f"{data.name}: {noisy}")
        typer.echo(f"realised  {100 * noisy.realised_share:.2f} % of masks differ from the true ones")
        if (void := _without_label(data)) is not None:
            typer.echo(f"no label  {100 * void.mean():.2f} % of pixels, which are left as they are")
        return
    names = _class_names(noisy, data)
    typer.echo(f"{data.name}: {noisy}")
    wrong = int(noisy.flipped.sum())
    typer.echo(f"realised  {100 * noisy.realised_rate:.2f} % wrong ({wrong:,} of {len(noisy):,})")
    rates = noisy.class_rates
    low, high = int(rates.argmin()), int(rates.argmax())
    typer.echo(
        f"by class  {100 * rates[low]:.2f} % ({names[low]}) to {100 * rates[high]:.2f} % ({names[high]})"
    )
    typer.echo(f"commonest {_commonest_flips(noisy, names)}")


def _commonest_flips(noisy: "NoisyLabels", names: Sequence[str], count: int = 3) -> str:
    import numpy as np

    flips = noisy.counts.copy()
    np.fill_diagonal(flips, 0)
    order = np.argsort(-flips, axis=None, kind="stable")[:count]
    cells = [divmod(int(cell), noisy.num_classes) for cell in order]
    told = [
        f"{names[true]} > {names[given]} ({flips[true, given]:,})"
        for true, given in cells
        if flips[true, given]
    ]
    return ", ".join(told) or "no label changed"


def _draw(noisy: "NoisyLabels | NoisyMasks", data: "LabeledData", outside: str | None, target: Path) -> None:
    from noiseproof.datasets.cache import replacing_file
    from noiseproof.noise import NoisyMasks, with_outside_images
    from noiseproof.noise.show import draw_labels, draw_masks

    if isinstance(noisy, NoisyMasks):
        figure = draw_masks(noisy, data.images, data.name, _without_label(data))
    else:
        images = data.images
        if images is not None and noisy.outside is not None and outside is not None:
            from noiseproof.datasets import load

            others = load(outside, split="train").images
            if others is not None and others.shape[1:] == images.shape[1:]:
                images = with_outside_images(noisy, images, others)
            else:
                images = None  # images of another size cannot stand among these
        figure = draw_labels(noisy, _class_names(noisy, data), images, data.name)
    with replacing_file(target) as file:
        figure.savefig(file, dpi=110, format="png")


def _without_label(data: "LabeledData") -> "NDArray[np.bool_] | None":
    """Pixels of masks that have no label, if there are any."""
    from noiseproof.datasets.folders import VOID

    assert data.masks is not None
    void = data.masks == VOID
    return void if void.any() else None


def _class_names(noisy: "NoisyLabels", data: "LabeledData") -> Sequence[str]:
    if noisy.num_classes == data.num_classes:
        return data.class_names
    return [f"super-class {number}" for number in range(noisy.num_classes)]
