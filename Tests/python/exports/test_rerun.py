"""Recordings for the Rerun viewer, read back from their files with Rerun's own reader."""

import json
import shutil
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command import ROOT
from outputs import demos, manifest
from system import mount_tmpfs

pytestmark = pytest.mark.loaders
pytest.importorskip("rerun", reason="Rerun is not installed")


@pytest.fixture(scope="module")
def saved(takeset, tmp_path_factory):
    """A dataset of a session with depth maps, one with joints and a frame gap, and a scan with intrinsics; and its recordings."""
    root = tmp_path_factory.mktemp("rerun")
    tiny = ["--seconds", 0.4, "--size", "64x48"]
    takeset.simulate(root / "in/v1", *tiny, "--depth-size", "16x12")
    takeset.simulate(root / "in/v2", *tiny, "--variant", "v2", "--quirk", "frames-dropped")
    takeset("simulate", "stray-scanner", "--output", root / "in/scan", *tiny, "--depth-size", "16x12", check=0)
    takeset.convert(root / "in", output=root / "out")
    command(root / "out", "--all", "--save", root / "rrd")
    return root


def command(*arguments, check=0):
    done = subprocess.run(
        [sys.executable, "-m", "takeset.rerun", *map(str, arguments)], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "python"), "PATH": ""}
    )
    assert done.returncode == check, done.stderr
    return done


def column(path, entity, name):
    """Values of a component of an entity and its timelines, in the order of the rows."""
    from rerun.chunk import RrdReader

    found = []
    for chunk in RrdReader(path).stream().to_chunks():
        batch = chunk.to_record_batch()
        if str(chunk.entity_path) == entity and name in batch.schema.names:
            keys = [key for key in ("row", "source_frame", "time") if key in batch.schema.names]
            columns = [batch[key].cast("int64").to_pylist() for key in keys]
            found += zip(*columns, batch[name].to_pylist())
    return sorted(found, key=lambda one: one[0] if isinstance(one[0], int) else 0)


@pytest.mark.parametrize("name", ["v1", "v2", "scan"])
def test_poses_and_times_are_those_of_the_rows(saved, name):
    demo, meta = demos(saved / "out")[name]
    rows = column(saved / f"rrd/{name}.rrd", "/world/camera", "Transform3D:translation")
    assert [one[0] for one in rows] == list(range(len(demo["obs/pose"])))
    assert [one[1] for one in rows] == meta["source_index"][:].tolist()
    np.testing.assert_array_equal([one[3][0] for one in rows], demo["obs/pose"][:, :3])
    turns = column(saved / f"rrd/{name}.rrd", "/world/camera", "Transform3D:quaternion")
    np.testing.assert_array_equal([one[3][0] for one in turns], demo["obs/pose"][:, 3:])
    attrs = meta["timestamp_ns"].attrs
    origin = attrs.get("unix_origin_ns", attrs["origin_ns"])
    assert [one[2] for one in rows] == (meta["timestamp_ns"][:] + origin).tolist()


def test_images_and_depth_maps_are_those_of_the_rows(saved):
    demo, _ = demos(saved / "out")["v1"]
    images = column(saved / "rrd/v1.rrd", "/world/camera/camera_image", "Image:buffer")
    assert len(images) == len(demo["obs/camera_image"])
    for (row, *_, buffer), image in zip(images, demo["obs/camera_image"]):
        np.testing.assert_array_equal(np.array(buffer[0], np.uint8).reshape(image.shape), image, err_msg=str(row))
    depth = column(saved / "rrd/v1.rrd", "/world/camera/camera_depth", "DepthImage:buffer")
    assert len(depth) > 0
    for row, *_, buffer in depth:
        np.testing.assert_array_equal(np.array(buffer[0], np.uint8).view("<f4"), demo["obs/camera_depth"][row].reshape(-1))
    assert column(saved / "rrd/v1.rrd", "/world/camera/camera_depth", "DepthImage:meter")[0][-1] == [1.0]


def test_intrinsics_are_those_of_the_stored_images(saved):
    demo, meta = demos(saved / "out")["scan"]
    matrix = column(saved / "rrd/scan.rrd", "/world/camera/camera_image", "Pinhole:image_from_camera")[0][-1][0]
    fx, fy, cx, cy = meta["intrinsics"][0]
    np.testing.assert_allclose(matrix, [fx, 0, 0, 0, fy, 0, cx, cy, 1], rtol=1e-6)


def test_intrinsics_that_change_are_those_of_each_row(saved, tmp_path):
    """Nothing is static then: it would hide what changes."""
    shutil.copytree(saved / "out", tmp_path / "out")
    with h5py.File(tmp_path / "out/episodes/scan.h5", "r+") as file:
        stored = file["meta/demo_0/intrinsics"]
        stored[:] += np.arange(len(stored))[:, None]
        stored[3] = np.nan
        expected = {row: [fx, 0, 0, 0, fy, 0, cx, cy, 1] for row, (fx, fy, cx, cy) in enumerate(stored[:]) if row != 3}
    command(tmp_path / "out", "--episode", "scan", "--save", tmp_path / "x.rrd")
    found = column(tmp_path / "x.rrd", "/world/camera/camera_image", "Pinhole:image_from_camera")
    assert [one[0] for one in found] == list(expected)
    np.testing.assert_allclose([one[3][0] for one in found], list(expected.values()), rtol=1e-6)


def test_a_row_without_a_sample_has_no_pose_and_no_distance_in_time(saved, tmp_path):
    shutil.copytree(saved / "out", tmp_path / "out")
    with h5py.File(tmp_path / "out/episodes/v1.h5", "r+") as file:
        streams = file["meta/demo_0/streams/pose"]
        file["data/demo_0/obs/pose"][5], streams["valid"][5], streams["source_index"][5] = np.nan, 0, -1
        rows = [row for row in range(len(streams["valid"])) if row != 5]
    command(tmp_path / "out", "--episode", "v1", "--save", tmp_path / "x.rrd")
    assert [one[0] for one in column(tmp_path / "x.rrd", "/world/camera", "Transform3D:translation")] == rows
    late = [one[-1][0] for one in column(tmp_path / "x.rrd", "/alignment/pose", "Scalars:scalars")]
    assert np.flatnonzero(np.isnan(late)).tolist() == [5]


def test_plots_hold_every_number(saved):
    demo, meta = demos(saved / "out")["v2"]
    found = column(saved / "rrd/v2.rrd", "/joints", "Scalars:scalars")
    np.testing.assert_array_equal([one[-1] for one in found], demo["obs/joints"][:].astype(float))
    late = column(saved / "rrd/v2.rrd", "/alignment/joints", "Scalars:scalars")
    stored = meta["streams/joints"]
    expected = np.where(stored["source_index"][:] < 0, np.nan, stored["dt_ns"][:] / 1e6)
    np.testing.assert_array_equal([one[-1][0] for one in late], expected)
    assert np.isnan(expected).any() and np.nanmax(expected) > 1
    actions = column(saved / "rrd/v2.rrd", "/actions/relative_position", "Scalars:scalars")
    expected = np.where(meta["action_dict/relative_position_valid"][:][:, None] == 1, demo["action_dict/relative_position"][:].astype(float), np.nan)
    np.testing.assert_array_equal([one[-1] for one in actions], expected)


def test_gaps_and_findings_are_in_words(saved):
    _, meta = demos(saved / "out")["v2"]
    events = column(saved / "rrd/v2.rrd", "/events", "TextLog:text")
    gaps = [(row, f"gap of {step / 1e6:.1f} ms after row {row}") for row, step in meta["gaps"][:].tolist()]
    assert gaps and {(row, text[0]) for row, *_, text in events} >= set(gaps)
    entry = next(t for t in manifest(saved / "out")["record"]["takes"] if t["id"] == "v2")
    text = column(saved / "rrd/v2.rrd", "/findings", "TextDocument:text")[0][-1][0]
    assert entry["findings"] and all(f["message"] in text for f in entry["findings"])


def test_one_episode_goes_into_a_file_and_nothing_is_overwritten(saved, tmp_path):
    command(saved / "out", "--episode", "v2", "--save", tmp_path / "x.rrd", "--every", 5)
    images = column(tmp_path / "x.rrd", "/world/camera/camera_image", "Image:buffer")
    assert [one[0] for one in images] == list(range(0, len(demos(saved / "out")["v2"][0]["obs/pose"]), 5))
    assert "--replace" in command(saved / "out", "--episode", "v2", "--save", tmp_path / "x.rrd", check=73).stderr
    command(saved / "out", "--episode", "v2", "--save", tmp_path / "x.rrd", "--replace")
    assert [p.name for p in tmp_path.iterdir()] == ["x.rrd"]


@pytest.mark.parametrize("arguments, code, words", [
    (["--episode", "nope"], 64, "nope"), (["--every", 0], 64, "--every"), (["--all", "--episode", "v1"], 64, "not allowed"),
])  # fmt: skip
def test_mistakes(saved, tmp_path, arguments, code, words):
    done = command(saved / "out", *arguments, "--save", tmp_path / "x", check=code)
    assert words in done.stderr and not (tmp_path / "x").exists()


def test_a_viewer_that_cannot_be_reached_is_a_sentence(saved):
    done = command(saved / "out", "--episode", "v1", "--connect", "nonsense", check=1)
    assert "takeset.rerun: the viewer cannot show them: " in done.stderr and "Traceback" not in done.stderr and "--save" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_without_a_display_files_are_proposed(saved):
    assert command(saved / "out", check=1).stderr.startswith("takeset.rerun: there is no display for a viewer; write files with --save")


def test_a_missing_dataset_and_an_unwritable_output_end_with_1(saved, tmp_path):
    assert "missing does not exist" in command(tmp_path / "missing", check=1).stderr
    assert "takeset.rerun: " in command(saved / "out", "--save", "/proc/none/rec", check=1).stderr


def test_a_full_disk_is_a_sentence_and_leaves_nothing(saved, tmp_path):
    unmount = mount_tmpfs(tmp_path / "full", "8k")
    try:
        done = command(saved / "out", "--episode", "v1", "--save", tmp_path / "full/rec/", check=1)
        assert "Rerun cannot write" in done.stderr and "Traceback" not in done.stderr
        assert not list((tmp_path / "full").iterdir())
    finally:
        unmount()


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_recording_leaves_nothing(saved, tmp_path, number, code):
    text = f"""if True:
        import os, sys
        from takeset import rerun
        rerun._log_events = lambda *_: os.kill(os.getpid(), {int(number)})
        sys.exit(rerun.main(sys.argv[1:]))"""
    words = [sys.executable, "-c", text, saved / "out", "--episode", "v1", "--save", tmp_path / "rec/"]
    done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "python"), "PATH": ""}, timeout=300)
    assert (done.returncode, done.stderr) == (code, "takeset.rerun: interrupted; no unfinished output is left\n")
    assert not list(tmp_path.iterdir())


def test_jpeg_files_keep_their_bytes(takeset, saved, tmp_path):
    (tmp_path / "p.yaml").write_text(json.dumps({"version": 1, "reader": "auto", "transforms": [{"align": {}}], "writer": {"hdf5": {"image": "jpeg"}}}))
    takeset.convert(saved / "in/v2", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    command(tmp_path / "out", "--save", tmp_path / "x.rrd")
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        stored = [bytes(image) for image in file["data/demo_000000/obs/camera_image"][:]]
    found = column(tmp_path / "x.rrd", "/world/camera/camera_image", "EncodedImage:blob")
    assert [bytes(np.array(one[-1][0], np.uint8)) for one in found] == stored
