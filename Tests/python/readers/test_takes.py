"""The rows hold what was recorded: images, depth, poses, times and joints against the simulated truth and
against real captures, by code that shares nothing with Takeset's."""

import io
import json
import shutil

import h5py
import numpy as np
import pytest
from images import frame_code
from outputs import check_digests, demos, take
from PIL import Image
from scipy.spatial.transform import Rotation
from session_checks import poses


def test_every_image_is_the_one_its_source_index_names(dataset):
    for demo, meta in demos(dataset).values():
        codes = [frame_code(image) for image in demo["obs/camera_image"][:]]
        assert codes == list(meta["source_index"][:])


def test_holes_and_disorder_never_shift_images(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    entries = poses(session)
    for missing in 3, 4, 17:
        (session / f"rgb/{missing:06d}.jpg").unlink()
    kept = [e for e in entries if e["rgbIndex"] not in (8, 21)]
    (session / "poses.json").write_text(json.dumps(kept[::-1]))
    takeset.convert(sessions, output=tmp_path / "out")
    demo, meta = demos(tmp_path / "out")[session.name]
    index = list(meta["source_index"][:])
    assert index == [i for i in range(30) if i not in (3, 4, 8, 17, 21)]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == index
    truth = {e["rgbIndex"]: np.array(e["transform"]) for e in entries}
    assert np.allclose(demo["obs/pose"][:, :3], [truth[i][:3, 3] for i in index], atol=1e-6)
    gaps = meta["gaps"][:]
    assert [index[row] for row in gaps[:, 0]] == [2, 7, 16, 20]
    record = take(tmp_path / "out", session.name)
    assert {d["reason"]: d["count"] for d in record["steps"][0]["dropped"]} == {"image-missing": 3, "pose-missing": 2}


def test_depth_is_the_map_that_the_pose_names_or_the_nearest(dataset, masters):
    session = masters["v1"]
    entries = poses(session)
    named = [(round(e["timestamp"] * 1e9), e["depthIndex"]) for e in entries if "depthIndex" in e]
    demo, meta = demos(dataset)[session.name]
    stream = meta["streams/camera_depth"]
    for row, entry in enumerate(entries):
        time = round(entry["timestamp"] * 1e9)
        stamp, index = min(named, key=lambda n: (abs(n[0] - time), n[0]))
        assert stream["source_index"][row] == index
        assert stream["dt_ns"][row] == stamp - time
        raw = np.fromfile(session / f"depth/{index:06d}.bin", "<f4").reshape(48, 64, 1)
        assert np.array_equal(demo["obs/camera_depth"][row], raw)
    assert stream["valid"][:].all()


def test_invalid_depth_values_are_masked(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    raw = np.fromfile(session / "depth/000000.bin", "<f4")
    raw[:5] = [np.nan, np.inf, -np.inf, -1, 0]
    raw.tofile(session / "depth/000000.bin")
    takeset.convert(session, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")[session.name]
    assert not demo["obs/camera_depth"][0].reshape(-1)[:5].any()
    assert list(demo["obs/camera_depth_valid"][0].reshape(-1)[:6]) == [0, 0, 0, 0, 0, 1]


def test_poses_equal_scipys(dataset, masters):
    for session in masters.values():
        demo, _ = demos(dataset)[session.name]
        matrices = np.array([e["transform"] for e in poses(session)])
        pose = demo["obs/pose"][:].astype("f8")
        expected = Rotation.from_matrix(matrices[:, :3, :3]).as_quat()
        assert np.abs(pose[:, :3] - matrices[:, :3, 3]).max() < 1e-6
        assert np.abs(np.abs((pose[:, 3:] * expected).sum(1)) - 1).max() < 1e-6
        assert pose[0, 6] >= 0 and (pose[1:, 3:] * pose[:-1, 3:]).sum(1).min() > 0
        assert np.abs(np.linalg.norm(pose[:, 3:], axis=1) - 1).max() < 1e-6


def test_joints_are_the_nearest_readings_unwrapped_on_the_frames_clock(dataset, masters):
    session = masters["v2"]
    demo, meta = demos(dataset)[session.name]
    readings = json.loads((session / "encoders.json").read_text())
    names = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
    raw = np.array([[r[n] for n in names] for r in readings])
    unwrapped = np.unwrap(raw, period=360, axis=0)
    unwrapped -= np.ceil((unwrapped[0] - 180) / 360) * 360
    assert np.ptp(raw[:, 0]) > 300 > np.ptp(unwrapped[:, 0])  # joint 0 passes through 0
    stream = meta["streams/joints"]
    index, valid = stream["source_index"][:], stream["valid"][:].astype(bool)
    assert valid.mean() > 0.9
    assert np.allclose(demo["obs/joints"][:][valid], unwrapped[index[valid]], atol=1e-4)
    assert np.isnan(demo["obs/joints"][:][~valid]).all() and (index[~valid] == -1).all()
    assert np.abs(stream["dt_ns"][:]).max() <= 50_000_000


def test_the_clock_offset_is_found_within_what_is_promised(dataset, masters):
    session = masters["v2"]
    truth = json.loads((session / "truth.json").read_text())
    (alignment,) = [a for a in take(dataset, session.name)["alignment"] if a["stream"] == "joints"]
    assert alignment["method"] == "sender-clock+first-sample+nearest"
    error = int(alignment["offset_ns"]) + int(truth["clock_offset_ns"])
    assert abs(error) <= alignment["residual_ns"] == 50_000_000


def test_depth_points_are_those_of_the_poses(sessions, takeset, tmp_path):
    session = sessions / "session_2026-02-01_130000"
    entries = poses(session)
    for entry in entries[10:20]:
        del entry["depth"]
    entries[30]["depth"] = None
    (session / "poses.json").write_text(json.dumps(entries))
    takeset.convert(session, output=tmp_path / "out")
    demo, meta = demos(tmp_path / "out")[session.name]
    index = meta["streams/depth_point/source_index"][:]
    # The nearest within 50 ms, of two equally near the earlier: some three frames reach into the hole from each side.
    times = [round(e["timestamp"] * 1e9) for e in entries]
    measured = [i for i, e in enumerate(entries) if e.get("depth") is not None]
    nearest = [min(measured, key=lambda i: (abs(times[i] - t), i)) for t in times]
    assert list(index) == [i if abs(times[i] - t) <= 50_000_000 else -1 for i, t in zip(nearest, times)]
    assert (index[10:20] == -1).any() and index[10] == 9 and index[19] == 20
    for row in range(len(entries)):
        if index[row] >= 0:
            assert demo["obs/depth_point"][row, 0] == np.float32(entries[index[row]]["depth"])
        else:
            assert demo["obs/depth_point_valid"][row, 0] == 0 and np.isnan(demo["obs/depth_point"][row, 0])
    assert abs(meta["streams/depth_point/dt_ns"][30]) > 0


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


def test_resizing_without_dct_scaling_is_pillows_within_a_level(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align, resize-image: {width: 304, height: 200, mode: stretch}]\n")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", pipeline])
    demo, _ = demos(tmp_path / "out")[session.name]
    original = Image.open(io.BytesIO((session / "rgb/000005.jpg").read_bytes()))
    reference = np.array(original.resize((304, 200), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(demo["obs/camera_image"][5].astype(int) - reference).max() <= 1


def test_depth_is_resampled_without_blending(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align, resample-depth: {width: 40, height: 100}]\n")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", pipeline])
    demo, _ = demos(tmp_path / "out")[session.name]
    raw = np.fromfile(session / "depth/000000.bin", "<f4").reshape(48, 64)
    rows = ((np.arange(100) + 0.5) * 48 / 100).astype(int)
    columns = ((np.arange(40) + 0.5) * 64 / 40).astype(int)
    assert np.array_equal(demo["obs/camera_depth"][0, :, :, 0], raw[np.ix_(rows, columns)])


def test_decimating_keeps_true_times_and_their_images(sessions, takeset, tmp_path):
    session = sessions / "session_2026-02-01_130000"
    times = np.array([round(e["timestamp"] * 1e9) for e in poses(session)])
    for option, expected in [("every: 7", np.arange(0, 60, 7)), ("rate: 20", np.arange(0, 60, 3))]:
        pipeline = tmp_path / f"{option[0]}.yaml"
        pipeline.write_text("version: 1\ntransforms: [align, decimate: {" + option + "}]\n")
        output = tmp_path / f"out-{option[0]}"
        takeset.convert(session, output=output, arguments=["--pipeline", pipeline])
        demo, meta = demos(output)[session.name]
        assert np.array_equal(meta["source_index"][:], expected)
        assert np.array_equal(meta["timestamp_ns"][:], times[expected] - times[0])
        assert [frame_code(i) for i in demo["obs/camera_image"][:]] == list(expected)


def test_intrinsics_follow_the_image(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    metadata = json.loads((session / "metadata.json").read_text())
    metadata["cameraIntrinsics"] = {"fx": 360, "fy": 360, "cx": 240, "cy": 180}
    (session / "metadata.json").write_text(json.dumps(metadata))
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align, resize-image: {width: 240, height: 180}]\n")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", pipeline])
    demo, meta = demos(tmp_path / "out")[session.name]
    assert np.array_equal(meta["intrinsics"][:], np.tile(np.float32([180, 180, 120, 90]), (30, 1)))
    assert np.allclose(meta["camera_depth_intrinsics"][0], [48, 48, 32, 24])
    camera = json.loads(demo.attrs["camera_info"])["camera_image"]
    assert camera["intrinsics"] == [[180, 0, 120], [0, 180, 90], [0, 0, 1]] and camera["width"] == 240


def test_the_simulated_depth_and_poses_agree_with_the_images_geometry(dataset, masters):
    """Points seen in one frame lie on the room's surfaces as seen from another: poses and depth fit together."""
    demo, _ = demos(dataset)[masters["v1"].name]
    depth, pose = demo["obs/camera_depth"][:, :, :, 0], demo["obs/pose"][:]
    v, u = np.mgrid[0:48, 0:64]
    focal = 64 * 0.75

    def points(row):
        rays = np.stack([(u + 0.5 - 32) / focal, (24 - v - 0.5) / focal, -np.ones_like(u)], -1)
        camera = rays * depth[row][..., None]
        return Rotation.from_quat(pose[row, 3:]).apply(camera.reshape(-1, 3)) + pose[row, :3]

    floor = points(0)[:, 1].min()
    assert floor == pytest.approx(-1.2, abs=1e-3)
    for row in 0, 29:
        p = points(row)
        assert (np.abs(p[:, 0]) <= 3 + 1e-3).all() and (p[:, 1] <= 1.6 + 1e-3).all() and (np.abs(p[:, 2]) <= 2.5 + 1e-3).all()


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


def test_jpeg_files_can_be_stored_untouched(sessions, takeset, tmp_path):
    session = sessions / "session_2026-01-31_120000"
    (session / "rgb/000004.jpg").write_bytes((session / "rgb/000004.jpg").read_bytes()[:900])
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align, decimate: {every: 2}]\nwriter: {hdf5: {image: jpeg}}\n")
    for jobs in 1, 2:
        takeset.convert(session, output=tmp_path / f"out{jobs}", arguments=["--pipeline", pipeline, "--jobs", jobs])
    shard = f"episodes/{session.name}.h5"
    assert (tmp_path / "out1" / shard).read_bytes() == (tmp_path / "out2" / shard).read_bytes()
    demo, meta = demos(tmp_path / "out1")[session.name]
    images = demo["obs/camera_image"]
    assert images.shape == (15,) and h5py.check_vlen_dtype(images.dtype) == np.uint8
    assert dict(images.attrs) | {"sha256": ""} == {
        "camera": "camera", "channel_order": "rgb", "encoding": "jpeg", "height": 360, "kind": "image", "sha256": "", "sha256_of": "rows",
        "unit": "sRGB 0..255", "width": 480,
    }
    check_digests(demo, meta)
    for row in range(15):
        stored = images[row].tobytes()
        assert stored == (b"" if row == 2 else (session / f"rgb/{2 * row:06d}.jpg").read_bytes())
    assert list(np.flatnonzero(meta["streams/camera_image/valid"][:] == 0)) == [2]
    takeset("verify", tmp_path / "out1", check=0)
    takeset("verify", tmp_path / "out1" / shard, check=0)
    takeset("pack", tmp_path / "out1", "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "out2" / shard, "r+") as f:
        f["data/demo_0/obs/camera_image"][5] = np.zeros(3, np.uint8)
    reported = takeset("verify", tmp_path / "out2", check=2).stdout
    # Files of other lengths than before lie elsewhere too, which is structure.
    assert f"{shard}: its structure has changed" in reported
    assert f"{shard}:/data/demo_0/obs/camera_image[5]: its content has changed" in reported and "2 differences" in reported


def test_resized_images_are_not_stored_as_the_sources_files(sessions, takeset, tmp_path):
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("version: 1\ntransforms: [align, resize-image: {width: 100, height: 75}]\nwriter: {hdf5: {image: jpeg-source}}\n")
    session = sessions / "session_2026-01-31_120000"
    done = takeset.convert(session, output=tmp_path / "out", check=64, arguments=["--pipeline", pipeline])
    assert "writer.hdf5.image: jpeg-source stores" in done.stderr and "(line 3, column" in done.stderr and not (tmp_path / "out").exists()
