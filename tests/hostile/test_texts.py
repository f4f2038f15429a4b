# SPDX-License-Identifier: Apache-2.0
"""Text files from anywhere: CSV lists, recipes, grids, records, descriptions; odd values, encodings and sizes."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from noiseproof import datasets, grids, models
from noiseproof.datasets import BadFileError, DataError, cache, cifar10, file_lists
from noiseproof.results.records_file import read_records
from noiseproof.training.config import Config, resolve
from noiseproof.training.predict import load_trained


@pytest.fixture
def listed(tmp_path):
    """Reads a CSV of the given content, beside the pictures 1.png and 2.png."""
    for name in ("1.png", "2.png"):
        Image.new("RGB", (2, 2)).save(tmp_path / name)

    def read(content):
        (tmp_path / "list.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        return datasets.load(f"csv:{tmp_path / 'list.csv'}")

    return read


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,label\n" + "x" * 300 + ".png,1\n", "the file of line 2"),
        ("path,label\n1.png," + "9" * 5000 + "\n", "class indices below 100000"),
        ("path,label\n1.png," + "0" * 5000 + "\n", "class indices below 100000"),
        ("path,label,path\n1.png,cat,2.png\n", "one column path, found 2"),
        ("path,label\n1.png,cat,dog\n", "as many fields as the header"),
        ("path,label\n1.png," + "x" * 200_000 + "\n", "field larger than field limit"),
        ("path,label\n1.png,cat\n".encode("utf-16"), "UTF-8 CSV text"),
        ("path,label\n1.png,café\n".encode("latin-1"), "UTF-8 CSV text"),
        ("path,label\n1.png,cat\n".encode("utf-16-le"), "columns path and label"),
        (b"path,label\n1\x00.png,cat\n", "the file of line 2|an image on line 2"),
        ('path,label\n"1.png,cat\n', "UTF-8 CSV text|as many fields"),
        ("", "columns path and label"),
        ("path,label\n/dev/zero.png,cat\n", "the file of line 2"),
    ],
    ids=range(13),
)
def test_csv_files_that_are_refused(listed, content, message):
    with pytest.raises(BadFileError, match=message) as caught:
        listed(content)
    assert len(str(caught.value)) < 1500


def test_a_csv_of_a_million_columns(listed):
    with pytest.raises(BadFileError, match=r"columns path and label .* \(1000000 in all\)") as caught:
        listed(",".join(f"c{number}" for number in range(1_000_000)))
    assert len(str(caught.value)) < 1000


def test_a_csv_with_path_and_label_among_a_million_columns(listed):
    data = listed("path,label" + ",x" * 1_000_000 + "\n1.png,cat" + "," * 1_000_000 + "\n")
    assert data.class_names == ("cat",)


def test_labels_that_look_like_formulas_markup_and_numbers_are_names(listed):
    names = ["=1+1", "<script>", "1.0", "-1", "nan", "two\nlines", "🐈", "'", '"', "too many"]
    quoted = "".join('1.png,"{}"\n'.format(name.replace('"', '""')) for name in names)
    assert listed(f"path,label\n{quoted}").class_names == tuple(sorted(names))
    assert listed("path,label,too many\n1.png,cat,\n").class_names == ("cat",)


@pytest.mark.parametrize(
    "line", ["a.jpg " + "9" * 5000, "a.jpg -1", "a.jpg 1.5", "../a.jpg 1", "/etc/passwd 1", "a"]
)
def test_lists_of_files(tmp_path, line):
    (tmp_path / "list.txt").write_text(line)
    with pytest.raises(BadFileError):
        list(file_lists.read_labelled_lines(tmp_path / "list.txt", 14))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no links")
def test_links_that_lead_back_are_not_followed_for_ever(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "cat" / "1.png")
    for name in ("a", "b"):  # two of them make 2^40 ways down before the system itself says no
        os.symlink(tmp_path / "cat", tmp_path / "cat" / name)
    with pytest.raises(BadFileError, match="a link to a folder that contains it"):
        datasets.load(f"folder:{tmp_path}")


def test_class_names_of_masks_in_another_encoding(tmp_path):
    for folder, mode in (("images", "RGB"), ("masks", "L")):
        (tmp_path / folder).mkdir()
        Image.new(mode, (4, 4), 0).save(tmp_path / folder / "1.png")
    (tmp_path / "classes.txt").write_bytes("Haut\nMélanome\n".encode("latin-1"))
    with pytest.raises(BadFileError, match="class names in UTF-8"):
        datasets.load(f"folder:{tmp_path}")


def test_a_class_folder_whose_name_is_no_text(tmp_path):
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(BadFileError, match="a class whose name is text"):
        datasets.load(f"folder:{tmp_path}")


RECIPE = 'model = "mlp"\nepochs = 3\nlearning_rate = 0.1\n'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("epochs2 = 3", "did you mean 'epochs'"),
        ("batch_size = 10_000_000_000", "batch_size: expected at most"),
        ("image_size = 1_000_000_000", "image_size: expected at most"),
        ("momentum = " + "9" * 400, "momentum: expected a finite number"),
        ("momentum = 0x" + "f" * 9000, "momentum: expected a finite number, got an integer of 36000 bits"),
        ("train_size = -0x0" + "f" * 9000, "not TOML"),
        ("seed = " + "9" * 5000, "is not TOML"),
        ("workers = 1e99", "workers: expected an integer"),
        ("l1 = nan", "l1: expected a finite number"),
        ('schedule = "exponential"\nschedule_factor = 1e300', "stays finite"),
        ("schedule_milestones = [[1]]", "schedule_milestones: expected a number"),
        ("loss = ['ce']", "loss: expected a text"),
        ("nesterov = 'yes'", "nesterov: expected true or false"),
        ("noise = 3", "noise must be one of"),
        ("loss_parameters = 3", "loss_parameters to be a table"),
        ("for_loss = [1]", "for_loss to be a table"),
        ("for_loss.ce = 1", "for_loss.ce to be a table"),
        ("[loss_parameters]\nname = 'x'", "unknown name 'name'"),
        ("[loss_parameters]\nalpha = [[[[1]]]]", "alpha: expected a number"),
        ("weights = {a = 1}", "weights: expected a text"),
        ("model_options" + ".a" * 300 + " = 1", "at most 16 levels"),
        ("x = " + "[" * 100_000, "is not TOML"),
        ("'\x00' = 1", "is not TOML|unknown name"),
    ],
    ids=range(23),
)
def test_recipes(tmp_path, more, message):
    (tmp_path / "mine.toml").write_text(RECIPE + more)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        resolve("digits", recipe=str(tmp_path / "mine.toml"))
    assert len(str(caught.value)) < 1500


def test_a_recipe_in_another_encoding_and_one_of_two_megabytes(tmp_path):
    (tmp_path / "mine.toml").write_bytes(RECIPE.encode() + "# café".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8 text"):
        resolve("digits", recipe=str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text(RECIPE + "#" * (2 << 20))
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        resolve("digits", recipe=str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("field", ["dataset", "model", "device", "optimizer", "noise"])
def test_a_text_of_another_kind(field):
    given = {"dataset": "digits", "model": "mlp", "epochs": 1, "learning_rate": 0.1, field: ["x"]}
    with pytest.raises(TypeError, match=f"{field}: expected a text, got"):
        Config(**given)


GRID = 'dataset = "digits"\nnoises = ["clean"]\nseeds = [1]\n'
METHOD = '[[methods]]\nlabel = "x"\nloss = "ce"\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            GRID
            + METHOD
            + "[methods.for_each]\n"
            + "".join(f"l.p{n} = [1,2,3,4,5,6,7,8,9]\n" for n in range(12)),
            "at most 20000 combinations",
        ),
        (GRID.replace("[1]", str(list(range(100_001)))) + METHOD, "at most 20000 runs"),
        (
            GRID + (METHOD + "[methods.for_each]\nl1 = " + str(list(range(9000))) + "\n") * 3,
            "at most 20000 runs",
        ),
        # Found by fuzzing: a whole number that no float holds, where the label is made of it.
        (GRID + METHOD + "[methods.for_each]\nl1 = [" + "9" * 400 + ", 1]\n", "'x' stands twice"),
        (GRID.replace('["clean"]', "[[1]]") + METHOD, "noises that are texts"),
        (GRID.replace("[1]", "[{}]") + METHOD, "seeds that are whole numbers"),
        ("published = [1]\n" + GRID + METHOD, "published to be a text"),
        ("columns = {clean = 3}\n" + GRID + METHOD, "the column of 'clean' to be a text"),
        ("x = " + "[" * 100_000, "not TOML"),
        ("#" * (2 << 20), "at most 1048576 bytes"),
    ],
    ids=range(10),
)
def test_grids(tmp_path, content, message):
    (tmp_path / "mine.toml").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        grids.load(str(tmp_path / "mine.toml"))
    assert len(str(caught.value)) < 1500


CONFIG = {"dataset": "d", "loss": "ce", "noise": "clean", "seed": 1, "loss_parameters": {}}
LINE = {"dataset": "d", "loss": "ce", "noise": "clean", "seed": 1, "test_accuracy": 9.5, "config_hash": "h"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": [1]}, "config: expected an object"),
        ({"noise_facts": "x"}, "noise_facts: expected an object"),
        ({"epochs": [1]}, "epochs: expected an object"),
        ({"noise_facts": {"transition": [["x"]]}}, "a list of numbers"),
        ({"noise_facts": {"transition": 5}}, "line 1"),
        ({"noise_facts": {"class_names": [1]}}, "class_names: expected a list of texts"),
        ({"predicted_marginals": "0.5"}, "expected a list, got"),
        ({"epochs": {"strongest_pull": {"quantiles": [0.5], "clean": [5], "flipped": []}}}, "line 1"),
        ({"test_accuracy": 10**400}, "found an integer of 1329 bits"),
        ({"test_accuracy": 1e300}, "test_accuracy: expected a number from 0 to 100"),
        ({"seconds": -5}, "seconds: expected a number from 0"),
        ({"epochs": {"test": [1e308, -1e308]}}, "epochs.test: expected a number from 0 to 100"),
        (
            {"epochs": {"strongest_pull": {"quantiles": [], "clean": [], "flipped": []}}},
            "quantiles: expected a list",
        ),
        (
            {"epochs": {"strongest_pull": {"quantiles": [1], "clean": [[1, 2]], "flipped": [None]}}},
            "1 numbers an epoch",
        ),
        ({"epochs": {"strongest_pull": {"quantiles": [1], "clean": [[1]], "flipped": []}}}, "as many epochs"),
        (
            {"epochs": {"strongest_pull": {"quantiles": [1], "clean": [], "flipped": [], "floored": 5}}},
            "floored: expected an object",
        ),
        (
            {
                "epochs": {
                    "strongest_pull": {
                        "quantiles": [1],
                        "clean": [],
                        "flipped": [],
                        "floored": {"clean": [[1, 2]], "flipped": [None]},
                    }
                }
            },
            "floored.clean: expected 1 numbers an epoch",
        ),
        (
            {
                "epochs": {
                    "strongest_pull": {
                        "quantiles": [1],
                        "clean": [[1], [1]],
                        "flipped": [None, None],
                        "floored": {"clean": [[1]], "flipped": [None]},
                    }
                }
            },
            "floored: expected 2 epochs, got 1",
        ),
        (
            {"epochs": {"strongest_pull": {"quantiles": [1], "clean": [], "flipped": [], "floored": {}}}},
            "floored: expected an object with clean and flipped",
        ),
        ({"noise_facts": {"transition": [[1.0], [0.5, 0.5]]}}, "a square of numbers"),
        ({"noise_facts": {"class_names": ["a"], "label_marginals": [0.5, 0.5]}}, "one number of classes"),
        ({"predicted_marginals": []}, "predicted_marginals: expected a list of numbers"),
        ({"environment": {"versions": [1]}}, "versions: expected an object"),
        ({"config": {"dataset": "d"}}, "config: expected dataset"),
        ({"config": {**CONFIG, "epochs": 10**400}}, "found an integer"),
        ({"config": {**CONFIG, "dataset": {}}}, "config.dataset: expected a text"),
        ({"variant": "\ud83d"}, "surrogates not allowed"),
        ({"seed": [1]}, "line 1"),
    ],
    ids=range(28),
)
def test_records(tmp_path, changes, message):
    (tmp_path / "r.jsonl").write_text(json.dumps({**LINE, **changes}))
    with pytest.raises(ValueError, match=message):
        read_records(tmp_path / "r.jsonl")


def test_records_that_are_no_text_or_nested_without_end(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(b'{"dataset": "caf\xe9"}')
    with pytest.raises(ValueError, match="expected UTF-8 text"):
        read_records(tmp_path / "r.jsonl")
    (tmp_path / "r.jsonl").write_text("[" * 200_000)
    with pytest.raises(ValueError, match="line 1: no result"):
        read_records(tmp_path / "r.jsonl")


@pytest.fixture
def trained(tmp_path):
    """Loads a small trained model after changes to its description."""
    network = models.create("mlp", 2, in_channels=1, image_size=(8, 8), hidden=(4,))
    models.save_weights(network, tmp_path / "weights.safetensors")
    about = {
        "model": "mlp",
        "model_options": {"hidden": [4]},
        "class_names": ["cat", "dog"],
        "mean": [0.5],
        "std": [0.25],
        "input": {"channels": 1, "height": 8, "width": 8},
        "fit": {"kind": "squash", "height": 8, "width": 8},
    }

    def load(changes):
        (tmp_path / "model.json").write_text(json.dumps({**about, **changes}))
        return load_trained(tmp_path)

    return load


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_options": {"hidden": [200_000, 200_000]}}, "it describes 40"),
        ({"input": {"channels": 10**12, "height": 1, "width": 1}}, "1000 channels"),
        ({"input": {"channels": 1, "height": True, "width": 1}}, "expected whole numbers"),
        ({"input": 5}, "damaged"),
        ({"class_names": 3}, "a list of texts"),
        ({"class_names": ["x", 3]}, "a list of texts"),
        ({"mean": "x"}, "mean: expected a number a channel"),
        ({"std": [None]}, "std: expected a number"),
        ({"model": ["mlp"]}, "damaged"),
        ({"model": "no-such"}, "unknown name"),
        ({"model_options": {"no": 1}}, "unknown name 'no'"),
        ({"fit": {"kind": "squash", "height": 10**6, "width": 10**6}}, "at most 10000000 pixels"),
        ({"fit": {"kind": "import os"}}, "damaged"),
        ({"fit": []}, "damaged"),
        ({"task": "x"}, "task: unknown name"),
    ],
    ids=range(15),
)
def test_descriptions_of_trained_models(trained, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        trained(changes)
    assert len(str(caught.value)) < 1500


def test_a_description_without_end(trained, tmp_path):
    assert trained({}).class_names == ("cat", "dog")
    (tmp_path / "model.json").write_text("[" * 200_000)
    with pytest.raises(ValueError, match="is damaged"):
        load_trained(tmp_path)
    (tmp_path / "model.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is damaged"):
        load_trained(tmp_path)


@pytest.mark.parametrize(
    "manifest",
    ["[]", "{}", '{"format_version": 1}', '{"format_version": 1, "arrays": [], "facts": {}, "source": ""}',
     '{"format_version": 1, "arrays": {"a": 1}, "facts": {}, "source": ""}', "[" * 100_000],
    ids=range(6),
)  # fmt: skip
def test_manifests_of_the_cache(tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(BadFileError, match="manifest.json"):
        cache.manifest_of(tmp_path)


@pytest.mark.parametrize(
    "facts", [{}, {"root": 3, "splits": ["train"], "class_names": ["a"]}, {"root": "/", "splits": 5}]
)
def test_facts_of_a_set_that_stays_where_it_is(tmp_path, facts):
    cache.write(tmp_path, {"train_labels": np.array([0])}, source="x", facts=facts)
    with pytest.raises(DataError, match="facts with"):
        file_lists.read(tmp_path, "mine", "train")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[1" + "0" * 5000 + "]", '{"a": 1}', "[0, true]", "[0, 10]", "\x00"]
)
def test_labels_beside_png_sheets(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(BadFileError, match=r"labels\.json"):
        cifar10.read_sheet_labels(path, 2)
