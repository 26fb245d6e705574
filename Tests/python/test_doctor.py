"""`verify --for`: each rule finds the dataset that breaks it, and nothing in its clean twin."""

import json
import re

import h5py
import numpy as np
import pytest
from command import ROOT
from doctor_sets import FIRST, PIPELINES, SECOND, SPLIT, changed, checkup, converted, edited, replaced, simulated

LOADERS = list(PIPELINES)
WINDOW = ["--window", 40]
DEMO, META = "data/demo_0", "meta/demo_0"


@pytest.fixture(scope="module")
def stack(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("stack") / "in")


@pytest.fixture(scope="module")
def scans(takeset, tmp_path_factory):
    """Scans with depth and intrinsics."""
    return simulated(takeset, tmp_path_factory.mktemp("scans") / "in", reader="stray-scanner", names=("scan-a", "scan-b"))


@pytest.fixture(scope="module")
def clean(takeset, stack, scans, tmp_path_factory):
    """A dataset without any diagnosis for each loader."""
    root = tmp_path_factory.mktemp("clean")
    return {name: converted(takeset, scans if name == "nerfstudio" else stack, root / name, steps) for name, steps in PIPELINES.items()}


@pytest.fixture
def examined(takeset, clean, tmp_path):
    """Examines a copy of a loader's clean dataset, edited by another program."""

    def examine(loader, edit, *arguments, shards=1):
        return checkup(takeset, loader, edited(clean[loader], tmp_path / "copy", edit, shards), *WINDOW, *arguments)

    return examine


@pytest.fixture
def made(takeset, stack, tmp_path):
    """Examines what other steps, or other takes, make of a loader's clean dataset."""

    def make(loader, *others, without=(), takes=None, writer=None, arguments=WINDOW):
        steps = changed(PIPELINES[loader], *others, without=without)
        return checkup(takeset, loader, converted(takeset, takes or stack, tmp_path / "made", steps, **(writer or {})), *arguments)

    return make


@pytest.mark.parametrize("loader", LOADERS)
def test_a_clean_dataset_is_ready(takeset, clean, loader):
    found = checkup(takeset, loader, clean[loader], *WINDOW)
    assert not found.report["diagnoses"]
    done = takeset("verify", "--for", loader, clean[loader], *WINDOW, check=0)
    assert done.stdout == f"{clean[loader]}: ready for {loader}; 2 episodes, {found.report['rows']} rows\n"


# What another program has changed


def without_actions(file):
    del file[DEMO]["actions"]


def of_integers(file):
    replaced(file[DEMO], "actions", np.round(file[DEMO]["actions"][:]).astype("i4"))


def too_long(file):
    replaced(file[DEMO], "actions", np.repeat(file[DEMO]["actions"][:], 2, axis=0))


def with_nan(file):
    file[DEMO]["obs/pose"][7, 2] = np.nan


def with_infinite_actions(file):
    file[DEMO]["actions"][3, 1] = np.inf


def with_masked_actions(file):
    file[DEMO]["actions_valid"][5:8] = 0


def with_undecodable_images(file):
    file[META]["streams/camera_image/valid"][4:7] = 0


def beyond_one(file):
    file[DEMO]["actions"][9, 0] = -1.53


def with_long_quaternion(file):
    file[DEMO]["obs/pose"][11, 3:] *= 1.2


def with_flipped_quaternion(file):
    file[DEMO]["obs/pose"][12, 3:] *= -1


def with_interpolated_poses(file):
    file[META]["quality"][20:26] |= 4


def with_constant_column(file):
    file[DEMO]["actions"][:, 2] = 0.25


def with_one_place(file):
    file[DEMO]["obs/pose"][:, :3] = 1.5


# Of one of the two episodes, or of both where a rule is about the dataset.
EDITS = [
    ("robomimic", without_actions, "actions-missing", 1), ("robomimic", of_integers, "type-wrong", 1), ("robomimic", too_long, "rows-differ", 1),
    ("robomimic", with_nan, "not-finite", 1), ("robomimic", with_infinite_actions, "not-finite", 1),
    ("robomimic", with_masked_actions, "rows-masked", 1), ("robomimic", with_undecodable_images, "image-undecodable", 1),
    ("robomimic", beyond_one, "actions-out-of-range", 1), ("robomimic", with_long_quaternion, "quaternion-norm", 1),
    ("robomimic", with_flipped_quaternion, "quaternion-sign", 1), ("robomimic", with_interpolated_poses, "pose-interpolated", 1),
    ("robomimic", with_constant_column, "column-constant", 2),
    ("aloha", without_actions, "actions-missing", 1), ("aloha", with_masked_actions, "rows-masked", 1), ("aloha", with_nan, "not-finite", 1),
    ("aloha", with_undecodable_images, "image-undecodable", 1), ("aloha", with_flipped_quaternion, "quaternion-sign", 1),
    ("lerobot", without_actions, "actions-missing", 1), ("lerobot", with_nan, "not-finite", 1), ("lerobot", with_constant_column, "column-constant", 2),
    ("diffusion-policy", without_actions, "actions-missing", 1), ("diffusion-policy", with_masked_actions, "rows-masked", 1),
    ("nerfstudio", with_nan, "not-finite", 1), ("nerfstudio", with_flipped_quaternion, "quaternion-sign", 1),
    ("nerfstudio", with_interpolated_poses, "pose-interpolated", 1),
]


@pytest.mark.parametrize("loader, edit, code, shards", EDITS, ids=[f"{loader}-{edit.__name__}" for loader, edit, _, _ in EDITS])
def test_what_another_program_did_is_found(examined, loader, edit, code, shards):
    found = examined(loader, edit, shards=shards)
    # An infinite action is out of range too.
    assert set(found.codes) - ({"pose-jump", "mixed-sizes", "pose-repeated"} if code in ("quaternion-norm", "rows-differ") else set()) == {code}
    assert found[code]["remedy"]


def test_figures_are_those_of_the_arrays(examined, clean):
    found = examined("robomimic", lambda file: (with_nan(file), beyond_one(file), with_masked_actions(file)))
    first = f"{FIRST}"
    with h5py.File(clean["robomimic"] / "episodes" / f"{FIRST}.h5") as file:
        rows = len(file[DEMO]["actions"])
    assert found["not-finite"]["message"].startswith(f"pose is NaN or infinite in 1 of {rows} rows of {first};")
    assert found["rows-masked"]["message"].startswith(f"actions are unknown, and 0, in 3 of {rows} rows of {first};")
    assert "up to -1.53 (relative_position 0)" in found["actions-out-of-range"]["message"]
    assert all(found[code]["episodes"] == [FIRST] for code in ("not-finite", "rows-masked", "actions-out-of-range"))


def test_a_missing_shard_is_named(takeset, clean, tmp_path):
    copy = edited(clean["robomimic"], tmp_path / "copy", lambda file: None)
    (copy / "episodes" / f"{SECOND}.h5").unlink()
    found = checkup(takeset, "robomimic", copy, "--window", 40)
    assert found.breaks == {"episode-unreadable"} and found["episode-unreadable"]["episodes"] == [SECOND]
    (copy / "episodes" / f"{SECOND}.h5").write_bytes(b"not HDF5")
    assert checkup(takeset, "robomimic", copy).breaks == {"episode-unreadable"}


# What a pipeline or a take has


def kinds(found):
    return dict(found.codes)


def test_images_stored_as_files(made, takeset, clean):
    assert kinds(made("robomimic", writer={"image": "jpeg"})) == {"images-encoded": 1}
    assert "`writer: {hdf5: {image: raw}}`" in takeset("explain", "images-encoded", check=0).stdout


@pytest.mark.parametrize("loader", ["aloha", "lerobot", "diffusion-policy"])
def test_other_loaders_take_images_stored_as_files(made, loader):
    assert kinds(made(loader, writer={"image": "jpeg"})) == {}


def test_next_observations(made):
    found = made("robomimic", "actions")
    assert kinds(found) == {"next-obs-missing": 1} and found.ready


def test_masks_that_the_pipeline_asks_for(made):
    found = made("robomimic", {"split": {"valid": 0, "test": 0}})
    assert kinds(found) == {}


@pytest.mark.parametrize("share, empty", [({"valid": 0.1, "group": "regex", "pattern": "session"}, "mask/valid"), ({"valid": 0.5, "test": 0.3, "group": "take"}, "mask/test")])
def test_masks_without_an_episode(made, share, empty):
    found = made("robomimic", {"split": share})
    assert kinds(found) == {"mask-empty": 1} and found["mask-empty"]["message"].startswith(f"{empty} is empty;")


def test_absolute_and_joint_actions_are_out_of_range(takeset, stack, tmp_path):
    steps = ["align", {"select": {"streams": ["pose", "camera_image", "joints"]}}, {"actions": {"joints": "absolute", "next-obs": True}}, SPLIT]
    found = checkup(takeset, "robomimic", converted(takeset, stack, tmp_path / "out", steps))["actions-out-of-range"]
    assert re.search(r"\(joints \d\)", found["message"]) and found["steps"] == ["actions: {joints: none}"]


def test_poses_of_several_worlds(made):
    for loader in "robomimic", "aloha", "lerobot":
        break
    found = made("robomimic", without=("pose-frame",))
    assert kinds(found) == {"origin-differs": 1} and found["origin-differs"]["steps"] == ["pose-frame: {origin: first-frame}"]


def test_rows_that_repeat_an_image(made):
    found = made("robomimic", {"resample": {"rate": 120}})
    assert kinds(found) == {"images-repeated": 1}


def test_uneven_times(made):
    found = made("robomimic", {"decimate": {"rate": 24}})
    assert set(kinds(found)) - {"too-few-rows"} == {"times-uneven"} and found["times-uneven"]["steps"] == ["resample: {rate: 24}"]
