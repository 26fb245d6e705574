"""MCAP files, read back by the mcap library, with messages decoded by Foxglove's own definitions."""

import io
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from export_checks import incomplete_takes, memory_of, with_side_camera
from foxglove_schemas_protobuf import CameraCalibration_pb2, CompressedImage_pb2, FrameTransform_pb2, PoseInFrame_pb2, RawImage_pb2
from geometry_oracle import Runs
from google.protobuf.unknown_fields import UnknownFieldSet
from images import frame_code
from mcap.reader import NonSeekingReader, make_reader
from mcap_protobuf.decoder import DecoderFactory
from outputs import demos, manifest
from PIL import Image
from scene_oracle import export, meters, opencv, raster, record, times
from scipy.spatial.transform import Rotation
from stack_sessions import v1, v2
from videos import video_file

TYPES = {
    "foxglove.CompressedImage": CompressedImage_pb2.CompressedImage, "foxglove.RawImage": RawImage_pb2.RawImage,
    "foxglove.CameraCalibration": CameraCalibration_pb2.CameraCalibration, "foxglove.PoseInFrame": PoseInFrame_pb2.PoseInFrame,
    "foxglove.FrameTransform": FrameTransform_pb2.FrameTransform,
}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """Sessions with depth maps and with a glove, a video, a scan with intrinsics, confidence and an IMU."""
    found = Runs(takeset, tmp_path_factory.mktemp("mcap"), {"glove": v2(), "phone": v1(), "pour.mov": video_file(count=6)})
    takeset("simulate", "stray-scanner", "--output", found.inputs / "scan", "--seconds", 0.5, "--size", "96x72", "--depth-size", "32x24", check=0)
    return found


@pytest.fixture(scope="module")
def dataset(runs):
    return runs.output({"actions": {}})


@pytest.fixture(scope="module")
def exported(takeset, dataset, tmp_path_factory):
    output = tmp_path_factory.mktemp("mcap-out") / "out"
    export(takeset, dataset, "mcap", output)
    return output


def messages(path):
    """By topic: log time, sequence and the decoded message, in the order of the index."""
    found = defaultdict(list)
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
            assert message.log_time == message.publish_time
            if channel.message_encoding == "json":
                value = json.loads(message.data)
                assert schema.encoding == "jsonschema" and json.loads(schema.data)["type"] == "object"
            else:
                assert (channel.message_encoding, schema.encoding) == ("protobuf", "protobuf")
                value = TYPES[schema.name].FromString(message.data)
                # Every field is one that Foxglove knows.
                assert not UnknownFieldSet(value) and value.ListFields()
            found[channel.topic].append((message.log_time, message.sequence, value))
    return found


def nanoseconds(stamp):
    return stamp.seconds * 10**9 + stamp.nanos


@pytest.mark.parametrize("take", ["glove", "phone", "scan", "pour"])
def test_each_row_has_its_messages(dataset, exported, take):
    demo, meta = demos(dataset)[take]
    found = messages(exported / f"{take}.mcap")
    stamps, clock = times(meta)
    start = 0 if clock == "unix" else stamps[0]
    logged = (stamps - start).tolist()
    images = found["/camera/image"]
    assert [(time, row) for time, row, _ in images] == list(zip(logged, range(len(logged))))
    for (_, row, image) in images:
        assert image.format == "jpeg" and image.frame_id == "camera"
        pixels = np.asarray(Image.open(io.BytesIO(image.data)).convert("RGB"))
        assert pixels.shape == demo["obs/camera_image"].shape[1:] and frame_code(pixels) == frame_code(demo["obs/camera_image"][row])
    if "pose" in demo["obs"]:
        matrices = opencv(demo)
        for topic in "/camera/pose", "/tf":
            assert [time for time, _, _ in found[topic]] == logged
        for (_, row, pose), (_, _, transform) in zip(found["/camera/pose"], found["/tf"], strict=True):
            assert (pose.frame_id, transform.parent_frame_id, transform.child_frame_id) == ("world", "world", "camera")
            for place, turn in (pose.pose.position, pose.pose.orientation), (transform.translation, transform.rotation):
                assert np.allclose([place.x, place.y, place.z], matrices[row][:3, 3], atol=1e-6)
                assert np.allclose(Rotation.from_quat([turn.x, turn.y, turn.z, turn.w]).as_matrix(), matrices[row][:3, :3], atol=1e-5)
            assert nanoseconds(pose.timestamp) == logged[row]
    else:
        assert "/camera/pose" not in found and "/tf" not in found
    if "camera_depth" in demo["obs"]:
        for _, row, depth in found["/camera/depth"]:
            assert (depth.encoding, depth.step, depth.frame_id) == ("16UC1", 2 * depth.width, "camera")
            values = np.frombuffer(depth.data, "<u2").reshape(depth.height, depth.width)
            assert np.abs(values - meters(demo)[row] * 1000.0).max() <= 0.5 and values.any()
    if "joints" in demo["obs"]:
        for _, row, value in found["/joints"]:
            numbers = np.array([np.nan if n is None else n for n in value["values"]], "f4")
            assert np.array_equal(numbers, demo["obs/joints"][row], equal_nan=True) and value["unit"] == demo["obs/joints"].attrs["unit"]
    if "actions" in demo:
        assert len(found["/actions"]) == len(logged)
        for _, row, value in found["/actions"]:
            known = bool(demo["actions_valid"][row])
            assert np.array_equal(np.array(value["values"], "f4"), demo["actions"][row]) if known else None in value["values"]


def test_calibrations_have_the_origin_of_opencv(dataset, exported):
    """Foxglove's, as ROS's, is the center of the top-left pixel."""
    demo, meta = demos(dataset)["scan"]
    found = messages(exported / "scan.mcap")
    for topic, name in ("/camera/info", "camera_image"), ("/camera/depth_info", "camera_depth"):
        stored = demo[f"obs/{name}"]
        fit = raster(stored)
        for _, row, info in found[topic]:
            fx, fy, cx, cy = (meta["intrinsics"][row] if meta["intrinsics"].ndim > 1 else meta["intrinsics"][:]).astype(float)
            k = fit @ np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
            assert (info.width, info.height) == (stored.shape[2], stored.shape[1])
            assert np.allclose(np.reshape(info.K, (3, 3)), k - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]], rtol=1e-4, atol=1e-3)
            assert np.allclose(np.reshape(info.P, (3, 4))[:, :3], np.reshape(info.K, (3, 3))) and list(info.R) == [1, 0, 0, 0, 1, 0, 0, 0, 1]
        assert len(found[topic]) == len(stored)


def test_the_imu_keeps_its_own_times(dataset, exported):
    _, meta = demos(dataset)["scan"]
    found = messages(exported / "scan.mcap")["/imu"]
    stamps = meta["imu/timestamp_ns"][:]
    rows = meta["timestamp_ns"][:]
    kept = (stamps >= rows[0]) & (stamps <= rows[-1])
    assert [time for time, _, _ in found] == stamps[kept].tolist() and len(found) > 20
    for index, (_, _, value) in zip(np.flatnonzero(kept), found):
        for key, name in ("linear_acceleration", "accel"), ("angular_velocity", "gyro"):
            assert np.allclose([value[key][axis] for axis in "xyz"], meta[f"imu/{name}"][index], rtol=1e-6)


def test_an_episode_of_a_take_has_the_imu_of_its_own_rows(takeset, tmp_path):
    takeset("simulate", "opencamera-sensors", "--seconds", 2, "--size", "96x72", "--output", tmp_path / "in", check=0)
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, {split-episodes: {at: 1}}]\n")
    takeset.convert(tmp_path / "in", output=tmp_path / "set", check=0, arguments=["--pipeline", tmp_path / "p.yaml"])
    export(takeset, tmp_path / "set", "mcap", tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("*.mcap"))
    assert len(parts) == 2
    for path in parts:
        found = messages(path)
        rows, readings = [time for time, _, _ in found["/camera/image"]], [time for time, _, _ in found["/imu"]]
        assert rows[0] <= readings[0] and readings[-1] <= rows[-1] and len(readings) > 70
    assert any("readings of the IMU are from before the first row or after the last" in sentence for sentence in record(tmp_path / "out")["lost"])


def test_the_schemas_decode_without_knowing_foxglove(exported):
    """With the description in the file alone."""
    with (exported / "scan.mcap").open("rb") as file:
        seen = set()
        for _, channel, _, value in make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages(["/camera/image", "/camera/depth", "/camera/info", "/tf", "/camera/pose"]):
            known = TYPES[value.DESCRIPTOR.full_name].DESCRIPTOR.fields_by_number
            assert {n: (f.name, f.type, f.is_repeated) for n, f in value.DESCRIPTOR.fields_by_number.items()} == {n: (f.name, f.type, f.is_repeated) for n, f in known.items()}
            seen.add(channel.topic)
    assert len(seen) == 5


def test_the_summary_is_that_of_the_messages(dataset, exported):
    """Index and statistics, against a reader that reads from front to back."""
    for path in sorted(exported.glob("*.mcap")):
        with path.open("rb") as file:
            reader = make_reader(file)
            summary, attachments, metadata = reader.get_summary(), list(reader.iter_attachments()), list(reader.iter_metadata())
            file.seek(0)
            whole = list(NonSeekingReader(file).iter_messages(log_time_order=False))
        assert summary.statistics.message_count == len(whole) == sum(summary.statistics.channel_message_counts.values())
        logged = [message.log_time for _, _, message in whole]
        assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (min(logged), max(logged)) and logged == sorted(logged)
        assert summary.statistics.chunk_count == len(summary.chunk_indexes) > 0 and not any(index.compression for index in summary.chunk_indexes)
        assert {c.topic for c in summary.channels.values()} == {channel.topic for _, channel, _ in whole}
        (attached,), (told,) = attachments, metadata
        takes = {take["id"]: take for take in manifest(dataset)["record"]["takes"]}
        assert json.loads(attached.data) == takes[path.stem] and attached.media_type == "application/json"
        assert told.name == "takeset" and told.metadata["episode"] == path.stem and told.metadata["record_sha256"] == record(exported)["source"]["record_sha256"]
        assert told.metadata["time"] == ("unix" if "time_resolution_ns" in told.metadata else "from the first row")


@pytest.mark.slow
def test_chunks_are_small_so_that_viewers_can_seek(takeset, tmp_path):
    takeset("simulate", "stray-scanner", "--output", tmp_path / "scan", "--seconds", 2, "--size", "640x480", check=0)
    takeset.convert(tmp_path / "scan", output=tmp_path / "set", check=0)
    export(takeset, tmp_path / "set", "mcap", tmp_path / "out", "--image", "png")
    with (tmp_path / "out/scan.mcap").open("rb") as file:
        reader = make_reader(file)
        sizes = [index.uncompressed_size for index in reader.get_summary().chunk_indexes]
        middle = reader.get_summary().statistics.message_start_time + 10**9
        later = [message.log_time for _, _, message in reader.iter_messages(["/camera/image"], starting_at=middle)]
    assert len(sizes) > 5 and max(sizes) <= 4 << 20 and min(later) >= middle and 50 < len(later) <= 61


def test_options_choose_the_form_of_images(takeset, dataset, tmp_path):
    export(takeset, dataset, "mcap", tmp_path / "png", "--image", "png", "--episodes", "phone")
    demo, _ = demos(dataset)["phone"]
    for _, row, image in messages(tmp_path / "png/phone.mcap")["/camera/image"]:
        assert image.format == "png" and np.array_equal(np.asarray(Image.open(io.BytesIO(image.data))), demo["obs/camera_image"][row])
    assert not any("compressed as JPEG" in sentence for sentence in record(tmp_path / "png")["lost"])
    export(takeset, dataset, "mcap", tmp_path / "jpeg", "--quality", 30, "--episodes", "phone")
    assert "Images are compressed as JPEG of quality 30." in record(tmp_path / "jpeg")["lost"]


def test_several_cameras_have_their_topics(dataset, takeset, tmp_path):
    export(takeset, with_side_camera(dataset, tmp_path / "set"), "mcap", tmp_path / "out", "--episodes", "phone", "--image", "png")
    found = messages(tmp_path / "out/phone.mcap")
    demo, _ = demos(dataset)["phone"]
    for _, row, image in found["/side/image"]:
        assert image.frame_id == "side" and np.array_equal(255 - np.asarray(Image.open(io.BytesIO(image.data))), demo["obs/camera_image"][row])
    assert len(found["/side/image"]) == len(found["/camera/image"]) > 0


def test_rows_without_a_value_have_no_message_or_null(takeset, tmp_path):
    dataset = incomplete_takes(takeset, tmp_path / "takes").output({"actions": {"joints": "absolute"}})
    export(takeset, dataset, "mcap", tmp_path / "out")
    absent = 0
    for take, (demo, meta) in demos(dataset).items():
        found = messages(tmp_path / f"out/{take}.mcap")
        valid = meta["streams/camera_image/valid"][:].astype(bool)
        assert [row for _, row, _ in found["/camera/image"]] == np.flatnonzero(valid).tolist()
        absent += (~valid).sum()
        for _, row, value in found["/joints"]:
            assert [number is not None for number in value["values"]] == demo["obs/joints_valid"][row].astype(bool).tolist()
    assert absent == 3 and any("3 rows have no image" in sentence for sentence in record(tmp_path / "out")["lost"])


@pytest.mark.loaders
def test_rerun_opens_and_finds_nothing_wrong(exported, tmp_path):
    """By the command of rerun-sdk, which knows Foxglove's messages."""
    command = Path(sys.executable).parent / "rerun"
    for path in sorted(exported.glob("*.mcap")):
        checked = subprocess.run([command, "mcap", "check", path], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        subprocess.run([command, "mcap", "convert", path, "-o", tmp_path / f"{path.stem}.rrd"], check=True, capture_output=True)
        found = subprocess.run([command, "rrd", "stats", tmp_path / f"{path.stem}.rrd"], check=True, capture_output=True, text=True).stdout
        assert "/camera/image: " in found and ("/tf: " in found) == (path.stem != "pour")


@pytest.mark.slow
def test_memory_does_not_follow_the_length(takeset, tmp_path):
    peaks = []
    for seconds in 2, 20:
        takeset.simulate(tmp_path / f"in{seconds}", "--variant", "v1", "--seconds", seconds, "--size", "320x240")
        takeset.convert(tmp_path / f"in{seconds}", output=tmp_path / f"set{seconds}")
        code, peak, _ = memory_of(tmp_path / f"set{seconds}", "mcap", tmp_path / f"out{seconds}")
        assert code == 0
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0], peaks
