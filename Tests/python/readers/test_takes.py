"""The rows hold what was recorded: images, depth, poses, times and joints against the simulated truth and
against real captures, by code that shares nothing with Takeset's."""

import json
import shutil

import numpy as np
import pytest
from outputs import demos, take
from PIL import Image
from scipy.spatial.transform import Rotation
from session_checks import poses


def test_the_clock_offset_is_found_within_what_is_promised(dataset, masters):
    session = masters["v2"]
    truth = json.loads((session / "truth.json").read_text())
    (alignment,) = [a for a in take(dataset, session.name)["alignment"] if a["stream"] == "joints"]
    assert alignment["method"] == "sender-clock+first-sample+nearest"
    error = int(alignment["offset_ns"]) + int(truth["clock_offset_ns"])
    assert abs(error) <= alignment["residual_ns"] == 50_000_000


@pytest.mark.slow
def test_a_real_trajectory_comes_through(captures, takeset, tmp_path):
    """2762 poses that ARKit logged on an iPhone: rows, times and the one step of 33.3 ms."""
    text = captures / "arkit-trajectories/ARKit_camera_pose.txt"
    session = takeset.simulate(tmp_path / "session_arkit", "--size", "64x48", "--depth-size", "16x12", "--trajectory", text)
    takeset.convert(session, output=tmp_path / "out")
    table = [line.split() for line in text.read_text().splitlines() if not line.startswith("#")]
    times = np.array([int(r[0]) for r in table])
    matrices = np.array([[float(x) for x in r[1:]] for r in table]).reshape(-1, 3, 4)
    demo, meta = demos(tmp_path / "out")["session_arkit"]
    pose = demo["obs/pose"][:].astype("f8")
    assert pose.shape == (2762, 7)
    assert np.abs(pose[:, :3] - matrices[:, :, 3]).max() < 1e-5
    expected = Rotation.from_matrix(matrices[:, :, :3]).as_quat()
    signs = np.sign((expected * pose[:, 3:]).sum(1, keepdims=True))
    assert np.abs(expected * signs - pose[:, 3:]).max() < 1e-5
    assert np.array_equal(meta["timestamp_ns"][:], times - times[0])
    assert meta["timestamp_ns"].attrs["origin_ns"] == times[0]
    (gap,) = meta["gaps"][:]
    assert gap[1] == np.diff(times).max() and gap[0] == np.diff(times).argmax() and round(gap[1] / 1e5) == 333


def real_session(captures, directory, count=6):
    """A v1 session of the one real RGB-D frame, repeated."""
    source = captures / "iphone-rgbd-frame"
    millimeters = np.array(Image.open(source / "arkit_depth.png"))
    (directory / "rgb").mkdir(parents=True)
    (directory / "depth").mkdir()
    entries = []
    for i in range(count):
        shutil.copy(source / "image.jpg", directory / f"rgb/{i:06d}.jpg")
        (millimeters / np.float32(1000)).astype("<f4").tofile(directory / f"depth/{i:06d}.bin")
        entries.append({"rgbIndex": i, "depthIndex": i, "timestamp": 100 + i / 60, "transform": np.eye(4).tolist()})
    (directory / "poses.json").write_text(json.dumps(entries))
    (directory / "metadata.json").write_text(json.dumps({"rgbResolution": [1920, 1440], "depthResolution": [256, 192]}))
    return directory, Image.open(source / "image.jpg"), millimeters


def test_a_real_frame_is_resized_as_pillow_does(captures, takeset, tmp_path):
    session, image, millimeters = real_session(captures, tmp_path / "session_real")
    takeset.convert(session, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_real"]
    stored = demo["obs/camera_image"][0].astype(int)
    reference = np.array(image.convert("RGB").resize((320, 240), Image.Resampling.BILINEAR)).astype(int)
    assert stored.shape == (240, 320, 3)
    difference = np.abs(stored - reference)
    # A quarter of the way goes by the JPEG's own smaller DCT, which averages a little differently.
    assert difference.mean() < 1.5 and np.quantile(difference, 0.999) < 16
    nearest = np.array(image.convert("RGB").resize((320, 240), Image.Resampling.NEAREST)).astype(int)
    assert difference.mean() < np.abs(stored - nearest).mean() / 2
    depth = demo["obs/camera_depth"][0, :, :, 0]
    assert np.array_equal(np.round(depth * 1000).astype(int), millimeters)


def test_a_real_frame_of_full_size_is_the_decoded_jpeg(captures, takeset, tmp_path):
    session, image, _ = real_session(captures, tmp_path / "session_real", count=2)
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align]\n")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", pipeline])
    demo, _ = demos(tmp_path / "out")["session_real"]
    assert np.array_equal(demo["obs/camera_image"][1], np.array(image.convert("RGB")))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_shortest_takes(masters, takeset, tmp_path, count):
    for name in "v1", "v2":
        session = tmp_path / name
        shutil.copytree(masters[name], session)
        (session / "poses.json").write_text(json.dumps(poses(session)[:count]))
    takeset.convert(tmp_path / "v1", tmp_path / "v2", output=tmp_path / "out")
    for demo, meta in demos(tmp_path / "out").values():
        assert demo["obs/pose"].shape == (count, 7) and meta["gaps"].shape == (0, 2)
        assert meta["timestamp_ns"][0] == 0
    takeset("verify", tmp_path / "out", check=0)
