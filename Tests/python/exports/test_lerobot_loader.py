"""Exports read and trained on by LeRobot itself, offline. Run by `make test-loaders`.

LeRobot pins other versions of PyTorch and NumPy than the other loaders need, so it has a Python of its own: the one in
TAKESET_LEROBOT_PYTHON, or build/lerobot-venv/bin/python. Without one the tests are skipped."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import ROOT
from images import psnr
from lerobot_datasets import (
    ACTIONS, CAMERA, DEPTH, FPS, NAMES, SPLIT, STATISTICS, STEPS, Export, dataset, edited, export, pixels, recordings,
)  # fmt: skip
from outputs import demos

import takeset as takeset_package  # isort: skip

pytestmark = pytest.mark.loaders

DELTAS = {"observation.state": [-1 / FPS, 0], "action": [step / FPS for step in range(16)]}


def interpreter():
    for path in (os.environ.get("TAKESET_LEROBOT_PYTHON"), ROOT / "build/lerobot-venv/bin/python", sys.executable):
        if path and Path(path).exists() and subprocess.run([path, "-c", "import lerobot"], capture_output=True).returncode == 0:
            return str(path)
    return None


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """The Python with LeRobot, and an environment in which it can reach nothing and keeps its copies to itself."""
    python = interpreter()
    if python is None:
        pytest.skip("LeRobot is not installed; it needs Python 3.12 (Tests/python/requirements-lerobot.txt)")
    home = tmp_path_factory.mktemp("hf")
    closed = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    return python, {**os.environ, **closed, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "PYTHONPATH": ""}


@pytest.fixture(scope="module")
def read(offline, tmp_path_factory):
    """Items of a dataset as LeRobot gives them: by `row/feature`."""
    python, environment = offline
    folder = tmp_path_factory.mktemp("read")

    def read(root, rows, deltas=None, episodes=None, backend=None, statistics=False):
        request = json.dumps({"rows": list(rows), "deltas": deltas, "episodes": episodes, "backend": backend, "statistics": statistics})
        command = [python, ROOT / "Tests/python/kit/lerobot_reader.py", root, folder / "items.npz", request]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(folder / "items.npz") as file:
            return dict(file)

    return read


@pytest.fixture(scope="module")
def root(takeset, tmp_path_factory):
    return recordings(takeset, tmp_path_factory.mktemp("lerobot-loader"), "320x240", "32x24", 1.2, 0.8, 0.9)


@pytest.fixture(scope="module")
def sessions(takeset, root):
    """With a hole in a depth map, a row without depth, and a row without an action, which makes two episodes of one."""
    source = dataset(takeset, root, *STEPS, *ACTIONS, *SPLIT, image="raw")

    def change(demo, meta):
        demo["obs/camera_depth"][3, 5, 6, 0] = 0
        demo["obs/camera_depth"][4] = 0
        meta["streams/camera_depth/valid"][4] = 0
        demo["actions_valid"][12] = 0

    edited(source, NAMES[0], change)
    return source


@pytest.fixture(scope="module")
def exported(sessions, root):
    export(sessions, root / "lerobot", "--task", "pick up the cup")
    return Export(root / "lerobot")


def sources(exported, dataset):
    """The demo, the meta and the row that each frame comes from, and the first and last row of its episode."""
    written = demos(dataset)
    return [
        (*written[row["takeset/episode_id"]], number, row["takeset/first_row"], row["takeset/end_row"] - 1)
        for row in exported.episodes
        for number in range(row["takeset/first_row"], row["takeset/end_row"])
    ]


def check_numbers(items, row, source):
    """Windows of state and action, with the first or last row of the episode repeated, and the columns of the row."""
    demo, meta, number, first, last = source
    for name, key, offsets in ("observation.state", "obs/pose", (-1, 0)), ("action", "actions", range(16)):
        wanted = number + np.array(offsets)
        assert np.array_equal(items[f"{row}/{name}"], demo[key][:][np.clip(wanted, first, last)]), (row, name)
        assert np.array_equal(items[f"{row}/{name}_is_pad"], (wanted < first) | (wanted > last))
    stamp = meta["timestamp_ns"]
    assert items[f"{row}/source_timestamp_ns"] == stamp[number] + stamp.attrs["unix_origin_ns"]
    assert items[f"{row}/timestamp"] == np.float32((number - first) / FPS) and items[f"{row}/frame_index"] == number - first
    assert items[f"{row}/takeset.source_index"] == meta["source_index"][number]
    assert items[f"{row}/takeset.valid.camera_depth"] == meta["streams/camera_depth/valid"][number]
    depth = items[f"{row}/{DEPTH}"]
    assert depth.dtype == np.float32 and np.array_equal(depth[0], demo["obs/camera_depth"][number, ..., 0]), row


def test_lerobot_reads_every_row_exactly(exported, sessions, read):
    rows = sources(exported, sessions)
    items = read(exported.path, range(len(rows)), DELTAS)
    assert (items["length"], items["episodes"]) == (len(rows), 4) and set(items["tasks"]) == {"pick up the cup"}
    assert items["take_ids"].tolist() == [row["takeset/take_id"] for row in exported.episodes]
    for row, source in enumerate(rows):
        check_numbers(items, row, source)
        image = items[f"{row}/{CAMERA}"]
        stored = source[0]["obs/camera_image"][source[2]]
        assert image.dtype == np.float32 and np.array_equal(np.rint(np.moveaxis(image, 0, 2) * 255), stored)
    holes = [row for row, (demo, _, number, *_) in enumerate(rows) if demo.attrs["take_id"] == NAMES[0] and number in (3, 4)]
    assert items[f"{holes[0]}/{DEPTH}"][0, 5, 6] == 0 and not items[f"{holes[1]}/{DEPTH}"].any()


def test_lerobot_finds_the_segment_of_each_row(takeset, tmp_path, read):
    root = recordings(takeset, tmp_path, "64x48", "16x12", 1.2, 0.9, 0.4)
    source = dataset(takeset, root, *STEPS, *ACTIONS)
    spans = [(0.05, 1.1, "whole"), (0.1, 0.4, "left"), (0.1, 0.3, "right"), (0.5, 0.6, "inner"), (0.6, 0.7, "hidden"), (0.6, 0.8, "after")]
    segments = [{"start": start, "end": end, "text": text} for start, end, text in spans]
    (tmp_path / "labels.json").write_text(json.dumps({"*": {"task": "fold", "segments": segments}, NAMES[-1]: {"segments": []}}))
    takeset("label", source, "--from", tmp_path / "labels.json", check=0)
    export(source, tmp_path / "lerobot")
    exported = Export(tmp_path / "lerobot")
    found = read(exported.path, range(len(exported.rows)))["subtasks"].tolist()
    labels = {one.id: one.labels for one in takeset_package.open(source)}
    wanted = []
    for entry in exported.episodes:
        last = ""
        for row in range(entry["takeset/first_row"], entry["takeset/end_row"]):
            segment = labels[entry["takeset/episode_id"]].segment(row)
            last = segment.text if segment else last
            wanted.append(last)
    assert found == wanted and {"", "whole", "left", "inner", "after"} <= set(found)


def test_lerobot_reads_rows_in_any_order_and_of_some_episodes(exported, sessions, read):
    rows = sources(exported, sessions)
    order = np.random.default_rng(5).permutation(len(rows))[:20].tolist()
    items = read(exported.path, order, DELTAS)
    for row in order:
        check_numbers(items, row, rows[row])
    first, end = exported.episodes[2]["dataset_from_index"], exported.episodes[2]["dataset_to_index"]
    items = read(exported.path, range(end - first), DELTAS, episodes=[2])
    assert (items["length"], items["episodes"]) == (end - first, 1)
    for row in range(end - first):
        check_numbers(items, row, rows[first + row])


@pytest.mark.parametrize("codec", ["av1", "h264"])
@pytest.mark.parametrize("backend", ["torchcodec", "pyav"])
def test_lerobot_finds_every_frame_of_videos(sessions, root, read, codec, backend):
    path = root / codec
    if not path.exists():
        export(sessions, path, "--images", "video", "--codec", codec)
    found = Export(path)
    rows = sources(found, sessions)
    items = read(path, range(len(rows)), DELTAS, backend=backend)
    for row, source in enumerate(rows):
        check_numbers(items, row, source)
        demo, _, number, *_ = source
        shown = np.moveaxis(items[f"{row}/{CAMERA}"], 0, 2) * 255
        near = [psnr(shown, demo["obs/camera_image"][other]) for other in range(max(0, number - 1), min(len(demo["actions"]), number + 2))]
        assert np.argmax(near) == min(number, 1) and max(near) > 27, (row, near)


def test_lerobot_reads_windows_of_video_frames(sessions, root, read):
    path = root / "av1-windows"
    export(sessions, path, "--images", "video", "--video-file-mb", 0.05)
    rows = sources(Export(path), sessions)
    items = read(path, range(len(rows)), {CAMERA: [-1 / FPS, 0]})
    for row, (demo, _, number, first, _) in enumerate(rows):
        for shown, wanted in zip(items[f"{row}/{CAMERA}"], (max(number - 1, first), number)):
            assert psnr(np.moveaxis(shown, 0, 2) * 255, demo["obs/camera_image"][wanted]) > 27, row


def test_jpeg_files_are_decoded_to_the_same_pixels(takeset, root, read):
    source = dataset(takeset, root, *STEPS, *ACTIONS, name="jpegs")
    export(source, root / "jpeg-export", "--drop-keys", "camera_depth")
    found = Export(root / "jpeg-export")
    items = read(found.path, range(0, len(found.rows), 5))
    for row in range(0, len(found.rows), 5):
        expected = pixels(found.rows[row][CAMERA]["bytes"])
        # Other versions of libjpeg may round otherwise.
        assert np.abs(np.moveaxis(items[f"{row}/{CAMERA}"], 0, 2) * 255 - expected).max() <= 2


def test_statistics_are_those_that_lerobot_computes(exported, read):
    """Up to its rounding: it sums in float32 (whole numbers in float64), and takes variances as differences of squares."""
    found = read(exported.path, [0], statistics=True)
    for name, feature in exported.features.items():
        largest = np.abs([exported.stats[name]["min"], exported.stats[name]["max"]]).max()
        error = 1e-15 if feature["dtype"] == "int64" else 1e-6
        pairs = [(found[f"stats/{name}/{key}"], found[f"merged/{name}/{key}"], key) for key in STATISTICS]
        for number, row in enumerate(exported.episodes):
            pairs += [(np.array(row[f"stats/{name}/{key}"]), found[f"computed/{number}/{name}/{key}"], key) for key in STATISTICS]
        for own, theirs, key in pairs:
            assert own.shape == theirs.shape, (name, key)
            power = 2 if key == "std" else 1
            # Quantiles are within a bin of a histogram, whose edges are rounded too. Its sums of a million pixels have three digits.
            allowed = (1000 if feature["dtype"] == "image" else 2) * error * largest**power
            allowed += 1e-4 * largest + 1e-9 if key[0] == "q" else 0
            assert np.abs(own.astype("f8") ** power - theirs.astype("f8") ** power).max() <= allowed, (name, key, own, theirs)


def test_other_libraries_see_images(exported, offline):
    """The `datasets` library, and viewers that use it, know images by the metadata of the file."""
    python, environment = offline
    text = (
        "import datasets, sys; found = datasets.Dataset.from_parquet(sys.argv[1]);"
        f"print(found.features['{CAMERA}'], found[0]['{CAMERA}'].size, found[0]['{DEPTH}'].mode)"
    )
    done = subprocess.run([python, "-c", text, str(exported.files[0])], capture_output=True, text=True, env=environment)
    assert done.stdout.split("\n")[0].endswith("(320, 240) I;16") and done.stdout.startswith("Image("), done.stderr[-2000:]


@pytest.mark.parametrize("images", ["png", "video"])
def test_lerobot_trains(sessions, root, offline, images):
    """Two steps of ACT, which takes color images only."""
    python, environment = offline
    export(sessions, root / f"train-{images}", "--images", images, "--drop-keys", "camera_depth", "--split", "train")
    command = [
        Path(python).parent / "lerobot-train", "--dataset.repo_id=any/name", f"--dataset.root={root / f'train-{images}'}",
        "--policy.type=act", "--policy.device=cpu", "--policy.push_to_hub=false", "--policy.pretrained_backbone_weights=null",
        "--policy.dim_model=64", "--policy.n_heads=2",
        "--policy.dim_feedforward=128", "--policy.n_encoder_layers=1", "--policy.n_vae_encoder_layers=1",
        "--steps=2", "--batch_size=2", "--num_workers=0", "--log_freq=1", "--save_checkpoint=false", "--wandb.enable=false",
        f"--output_dir={root / f'trained-{images}'}",
    ]  # fmt: skip
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=900)
    printed = done.stdout + done.stderr
    assert done.returncode == 0 and "step:2 " in printed and "End of training" in printed, printed[-3000:]
    shutil.rmtree(root / f"trained-{images}", ignore_errors=True)
