# SPDX-License-Identifier: Apache-2.0
"""``noiseproof audit``: find wrong labels, look through the worst, hand decisions back."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line import places
from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import Quiet

if TYPE_CHECKING:
    from noiseproof.audit.pictures import PictureAudit
    from noiseproof.datasets import LabeledData

FEW_PICTURES = 1_000
"""Fewer can be looked through."""

WELL_KNOWN = 0.8
"""Of the labels that are taken for right, the share that a model which knows the pictures predicts."""

USED_BY = {
    "method": ("patches", "imagenet", "network", "dynamics"),
    "folds": ("patches", "imagenet", "network"),
    "score": ("patches", "imagenet", "network", "--probabilities"),
    "model": ("network", "dynamics"),
    "loss": ("network", "dynamics"),
    "epochs": ("network", "dynamics"),
    "image_size": ("network", "dynamics"),
    "precision": ("network", "dynamics"),
    "filters": ("patches",),
    "seed": ("patches", "imagenet", "network", "dynamics"),
    "device": ("imagenet", "network", "dynamics"),
    "workers": ("patches", "imagenet", "network", "dynamics"),
}
"""By option, the methods that it says something to; the others would pass over it in silence."""

EPILOG = """
[bold]Examples[/bold]

  noiseproof audit folder:photos --out audit                    then open audit/sheet.html

  noiseproof audit folder:photos --out audit --method network   one network per fold; best on a GPU

  noiseproof audit csv:list.csv --probabilities mine.npy        from your own model, cross-validated

  noiseproof audit folder:photos --out audit --apply reviewed.csv

  noiseproof train csv:audit/corrected.csv
"""


def audit(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A name from noiseproof data list, or folder:PATH or csv:PATH."),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder to write suspects.csv, cleaned.csv and sheet.html to.")
    ] = Path("audit"),
    method: Annotated[
        str,
        typer.Option(
            help="patches: no network, minutes on a CPU; imagenet: the same with a network that has seen ImageNet, "
            "for photographs; network: train one per fold; dynamics: train one network and watch it learn; auto: "
            "network on a GPU, otherwise imagenet if its weights are installed and the images are in colour, "
            "otherwise patches. An option that is for other methods is refused."
        ),
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Number of cross-validation folds; not for dynamics.")] = 3,
    score: Annotated[
        str, typer.Option(help="How to rank labels: posterior, self-confidence or margin; not for dynamics.")
    ] = "posterior",
    probabilities: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="Use these class probabilities (N, K), each from a model not trained on that image.",
        ),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option(
            metavar="REVIEWED.csv", help="Apply the decisions in a reviewed file instead of auditing."
        ),
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="Number of suspects on the sheet.")] = 200,
    model: Annotated[
        str | None,
        typer.Option(help="Network, for network and dynamics: a name from noiseproof models, or timm:NAME."),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Loss to train the network with, for network and dynamics.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs to train the network for, for network and dynamics.")
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(help="Resize images to squares of this size, in pixels, for network and dynamics."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Numeric precision, for network and dynamics: float32, tf32 or bf16.")
    ] = None,
    filters: Annotated[
        int,
        typer.Option(min=1, help="Number of patches to compare, for patches; more is slower but sees more."),
    ] = 512,
    seed: Annotated[int, typer.Option(help="Seed for folds, patches and initial weights.")] = 1,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = "auto",
    workers: Annotated[int, typer.Option(help="Processes for decoding images.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Find labels that are probably wrong, and estimate how many there are."""
    settings = {
        "loss": loss,
        "epochs": epochs,
        "image_size": image_size,
        "precision": precision,
        "device": device,
        "workers": workers,
    }
    options = {
        "folds": folds,
        "score": score,
        "model": model,
        "filters": filters,
        "seed": seed,
        "workers": workers,
        "quiet": quiet,
        "settings": {name: value for name, value in settings.items() if value is not None},
    }
    from noiseproof import datasets
    from noiseproof.training import Interrupted

    try:
        places.require_folder(out)
        data = datasets.load(dataset)
        if apply is not None:
            _apply(data, dataset, apply, out)
            return
        found = _found(data, dataset, out, method, _said(context), probabilities, options)
        _write(found, data, dataset, out, shown)
    except (Interrupted, KeyboardInterrupt) as stopped:
        kept = "is lost" if isinstance(stopped, Interrupted) else "was written"
        typer.echo(f"Stopped; nothing {kept}. Continue with the same command.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, datasets.DataError, OSError, ImportError, RuntimeError) as error:
        fail(error)


def _found(
    data: "LabeledData",
    dataset: str,
    out: Path,
    method: str,
    said: set[str],
    probabilities: Path | None,
    options: dict[str, Any],
) -> "PictureAudit":
    from noiseproof.audit.pictures import METHODS, PictureAudit, audit_pictures, default_method
    from noiseproof.audit.scores import score_labels

    if probabilities is not None:
        _refuse_unused(said, "--probabilities")
        given = _read_probabilities(probabilities)
        if given.ndim == 2 and given.shape[1] != len(data.class_names):
            raise ValueError(
                f"--probabilities: expected a column for each of the {len(data.class_names)} classes, got "
                f"{given.shape[1]} in {probabilities}"
            )
        scored = score_labels(data.labels, given, score=options["score"])
        return PictureAudit(scored, f"probabilities of {probabilities.name}", given)
    chosen = default_method(data, options["settings"]["device"]) if method == "auto" else method
    if chosen in METHODS:  # any other is refused by its name below
        _refuse_unused(said, chosen, ", which is chosen here without --method," if method == "auto" else "")
    with _shown(options["quiet"]) as tell:
        return audit_pictures(data, method=chosen, source=dataset, folder=out / "runs", tell=tell, **options)


def _said(context: typer.Context) -> set[str]:
    """Options that the user gave, be it with the value that they have anyway."""
    sources = {name: context.get_parameter_source(name) for name in USED_BY}
    said = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    if context.params["device"] in ("auto", "cpu"):  # what never uses another one agrees to these
        said.discard("device")
    return said


def _refuse_unused(said: set[str], way: str, why_this: str = "") -> None:
    """Refuse the first option that a method, or ``--probabilities``, would pass over in silence."""
    for option, users in USED_BY.items():
        if option not in said or way in users:
            continue
        name = f"--{option.replace('_', '-')}"
        if way == "--probabilities":
            raise ValueError(f"{name}: {way} does not use it; leave one of them out")
        *others, last = (each for each in users if each != "--probabilities")
        methods = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{name}: is for --method {methods}; {way}{why_this} does not use it")


def _read_probabilities(path: Path) -> Any:
    import numpy as np

    expected = "--probabilities: expected an array saved by numpy.save, got"
    try:
        given = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # on damaged bytes NumPy raises nearly every kind
        # Of any other file NumPy says that it may be a pickle, and how to run it.
        found = "another kind of file" if "pickle" in str(error) else error
        raise ValueError(f"{expected} {path}: {found}") from None
    if not isinstance(given, np.ndarray):
        raise ValueError(f"{expected} {path}: it holds several arrays, as .npz files do")
    return given


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar in a terminal, a line for every new task elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if quiet:
        yield lambda what, share: None
        return
    if not console.is_terminal:
        told: set[str] = set()

        def say(what: str, share: float) -> None:
            if what not in told:
                told.add(what)
                typer.echo(what, err=True)

        yield say
        return
    with Progress(console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, share: float) -> None:
            name = what.partition(",")[0]
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=1.0)
            progress.update(tasks[name], description=what, completed=share)

        yield tell


def _write(found: "PictureAudit", data: "LabeledData", dataset: str, out: Path, shown: int) -> None:
    import numpy as np

    from noiseproof.audit import files, sheet

    labels = found.labels
    out.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"method": found.method, "source": dataset}
    if found.config is not None:
        facts["config"] = found.config.as_data()
    suspects, decided = files.write_suspects(labels, data, out / files.SUSPECTS)
    files.write_labels(data, labels.cleaned, out / files.CLEANED, others=_other_splits(data, dataset))
    files.write_summary(labels, data, out / files.SUMMARY, facts)
    with files.replacing_bytes(out / files.PROBABILITIES) as file:
        np.save(file, np.asarray(found.probabilities))
    on_sheet = sheet.write_sheet(
        labels, data, out / sheet.SHEET, dynamics=found.dynamics, shown=shown, source=dataset
    )
    if labels.is_by_chance:
        typer.echo(
            f"Warning: the model predicts the given labels hardly better than chance ({labels.agreement:.1%} of "
            f"them), so the results below mean nothing; {_what_may_help(found.method, len(data))}.",
            err=True,
        )
    words = ["noiseproof", "audit", dataset, "--out", str(out)]
    typer.echo(
        f"{suspects} of {len(data)} labels are suspect; an estimated {labels.noise_rate:.1%} are wrong "
        f"(the prediction differs from {labels.disagreement:.1%}, including its own mistakes).\n"
        + "".join(_doubts(found, data, dataset))
        + f"Review the {on_sheet} most suspect: {out / sheet.SHEET}\n"
        f"All suspects: {out / files.SUSPECTS}; labels with every suggestion applied, unreviewed: "
        f"{out / files.CLEANED}\n"
        + (f"Kept {decided} decisions already in {files.SUSPECTS}.\n" if decided else "")
        + f"Apply your decisions: {shlex.join(words)} --apply reviewed.csv"
    )


def _doubts(found: "PictureAudit", data: "LabeledData", dataset: str) -> Iterator[str]:
    """What the model cannot be trusted with, and what can be known without it."""
    from noiseproof.datasets.check import contradictions
    from noiseproof.plugins import command_name

    labels = found.labels
    if not labels.is_by_chance and labels.agreement < WELL_KNOWN * (1 - labels.noise_rate):
        yield (
            f"The model does not know these images well: it predicts {labels.agreement:.1%} of the labels, and its "
            "own mistakes may pass for wrong labels. With such models the estimated share was 3 to 15 points too "
            "high, while the order of the suspects was good."
            + (
                " If these are photographs, --method imagenet knows them better."
                if found.method == "patches"
                else ""
            )
            + "\n"
        )
    if doubles := contradictions(data):
        which = "1 image occurs" if len(doubles) == 1 else f"{len(doubles)} images occur"
        yield (
            f"{which} more than once, with different labels, of which at most one is right: "
            f"{command_name()} {shlex.join(['data', 'check', dataset])} lists them.\n"
        )


def _what_may_help(method: str, count: int) -> str:
    """Advice for an audit whose model knew nothing: what it can be told depends on how it was made.

    >>> _what_may_help("patches", 5_000)
    'you can also try --method imagenet, if these are photographs, or --method network, preferably on a GPU'
    >>> _what_may_help("patches", 84).startswith("84 images may be too few"), _what_may_help("dynamics", 84)[:12]
    (True, 'train longer')
    """
    if method in ("network", "dynamics"):
        return "train longer (--epochs), or try another --method or --model"
    few = f"{count} images may be too few to learn from: add some, or look through all of them yourself; "
    photographs = "--method imagenet, if these are photographs, or " if method == "patches" else ""
    return (
        few if count < FEW_PICTURES else ""
    ) + f"you can also try {photographs}--method network, preferably on a GPU"


def _other_splits(data: "LabeledData", dataset: str) -> list["LabeledData"]:
    """What else a folder or a file holds to test on, which belongs to its corrected labels too."""
    from noiseproof import datasets

    found = []
    for split in ("test", "validation"):
        if data.paths is not None:
            with suppress(datasets.NoSuchSplitError):
                found.append(datasets.load(dataset, split=split))
    return [each for each in found if each.paths is not None]


def _apply(data: "LabeledData", dataset: str, reviewed: Path, out: Path) -> None:
    from noiseproof.audit import apply_review, files

    made = apply_review(data, reviewed)
    path = out / files.CORRECTED
    others = _other_splits(data, dataset)
    files.write_labels(data, made.labels, path, kept=made.kept.tolist(), others=others)
    typer.echo(
        f"{made.changed} labels changed, {made.confirmed} confirmed, {made.dropped} images dropped, "
        f"{made.undecided} rows without a decision: {path}"
    )
    if data.paths is not None:
        typer.echo(f"Train on it with: {shlex.join(['noiseproof', 'train', f'csv:{path}'])}")
