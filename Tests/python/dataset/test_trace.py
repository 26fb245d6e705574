"""takeset trace: the bytes that a trace names are those that made the row."""

import io
import json
import struct

import numpy as np
import pytest
from archive_checks import reader
from archives import members, tar_of, zip_of, zipped
from bundles import SMALL, bundle
from PIL import Image
from scans import session as scan
from small_sessions import put, session, transform
from trace_checks import check_member, check_whole, held, rotation, stored, streams, traced
from videos import probe, video_file

VARIANTS = ["v1", "v2", "v3-raw", "v3-slam", "v3-scaled", "packed", "synthetic"]
PLAIN = "version: 1\ntransforms: [align]\n"


def image(data):
    return np.asarray(Image.open(io.BytesIO(data)))


# Sessions


@pytest.fixture(scope="module")
def sessions(takeset, tmp_path_factory):
    """Every variant in a folder, in zips of deflated and of stored members, and in a tar."""
    root = tmp_path_factory.mktemp("traced-sessions")
    for name in VARIANTS:
        files = session(name)
        put(root / "in" / f"{name}-folder", files)
        put(root / "in", {f"{name}-zip.zip": zip_of(files, name), f"{name}-tar.tar": tar_of(files, name, folders=True)})
    put(root / "in", {"v2-stored.zip": zipped(members(session("v2"), "", method=0, zip64=True), zip64=True)})
    csv = "local_time,esp_timestamp_ms,index_mcp,index_pip,three_finger_mcp,three_finger_pip\n\n"
    csv += "".join(f"{1771446234.25 + 0.02 * k:.6f},{5000 + 20 * k},{k},{2 * k},{3 * k},{4 * k}\r\n" for k in range(9))
    files = {name: data for name, data in session("v2").items() if name != "encoders.json"}
    put(root / "in" / "v2-csv", files | {"encoders_log.csv": csv.encode()})
    options = reader(root, poses="optional", **{"csv-clock-offset": 0})
    takeset.convert(root / "in", output=root / "out", arguments=options)
    return root / "out"


KINDS = [f"{name}-{kind}" for name in VARIANTS for kind in ("folder", "zip", "tar")] + ["v2-stored", "v2-csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_bytes_that_are_named_make_the_row_of_a_session(takeset, sessions, name):
    for row in 3, 7:
        trace = traced(takeset, sessions, name, row)
        check_whole(sessions, trace)
        found = streams(trace)
        for origin in (origin for stream in trace["streams"] for origin in stream["origins"]):
            if origin["member"]:
                check_member(trace, origin)
        (picture,) = found["camera_image"]["origins"]
        inner = picture["member"]["name"].split("/", name != "v2-stored")[-1] if picture["member"] else picture["file"]
        assert inner == f"rgb/{row:06d}.jpg"
        np.testing.assert_array_equal(image(held(trace, picture)), stored(sessions, trace, "obs/camera_image"))
        if not name.startswith("v3-raw"):
            check_pose(sessions, trace, found["pose"])
        if "camera_depth" in found and found["camera_depth"]["source_index"] >= 0:
            (depth,) = found["camera_depth"]["origins"]
            assert np.array_equal(np.frombuffer(held(trace, depth), "<f4"), stored(sessions, trace, "obs/camera_depth").ravel())
        if "depth_point" in found:
            (point,) = found["depth_point"]["origins"]
            assert np.float32(json.loads(held(trace, point))["depth"]) == stored(sessions, trace, "obs/depth_point")[0]
        if "joints" in found and found["joints"]["source_index"] >= 0:
            check_joints(sessions, trace, found["joints"])
        if "imu" in found:
            (reading,) = found["imu"]["origins"]
            entry = json.loads(held(trace, reading))
            np.testing.assert_array_equal(found["imu"]["values"][3:], np.array(entry["gyro"], np.float32))
            assert found["imu"]["values"][:3] == pytest.approx(np.array(entry["accel"]) * 9.80665)


def check_pose(dataset, trace, stream):
    (origin,) = stream["origins"]
    entry = json.loads(held(trace, origin))
    assert json.loads(origin["text"]) == entry and entry["rgbIndex"] == trace["row"] == origin["record"]["number"]
    assert entry["transform"] == transform(trace["row"])
    pose = stored(dataset, trace, "obs/pose")
    np.testing.assert_array_equal(pose[:3], np.array(entry["transform"], np.float32)[:3, 3])
    np.testing.assert_allclose(rotation(pose[3:].astype(float)), np.array(entry["transform"])[:3, :3], atol=1e-6)


def check_joints(dataset, trace, stream):
    (origin,) = stream["origins"]
    text = held(trace, origin).decode()
    assert origin["text"] == text
    if origin["record"]["kind"] == "line":
        assert origin["file"] == "encoders_log.csv" and origin["record"]["number"] == stream["source_index"] + 3
        angles = [float(field) for field in text.split(",")[2:]]
    else:
        entry = json.loads(text)
        angles = [entry[name] for name in ("index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip")]
        assert origin["record"] == {"kind": "entry", "number": stream["source_index"]}
    turns = (stored(dataset, trace, "obs/joints") - np.array(angles)) / 360
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-6)


def test_the_reading_of_every_row_is_found(takeset, tiny_dataset):
    count = 0
    for row in range(12):
        trace = traced(takeset, tiny_dataset, "v2", row)
        check_whole(tiny_dataset, trace)
        if streams(trace)["joints"]["source_index"] >= 0:
            check_joints(tiny_dataset, trace, streams(trace)["joints"])
            count += 1
    assert count >= 6


def test_entries_in_any_order_are_found(takeset, tmp_path):
    """Entries out of order, with brackets, commas and quotes in text, nested values and line ends between them."""
    files = session("v1")
    entries = json.loads(files["poses.json"])
    mixed = [entries[n] | {"note": f'"}}], {{[ \\ {n}', "more": {"a": [1, {"b": "]"}]}} for n in (5, 0, 1, 7, 2, 3, 4, 6)]
    put(tmp_path / "mixed", files | {"poses.json": json.dumps(mixed, indent=3).encode()})
    takeset.convert(tmp_path / "mixed", output=tmp_path / "out")
    for row in range(8):
        trace = traced(takeset, tmp_path / "out", "mixed", row, "--stream", "pose")
        (origin,) = streams(trace)["pose"]["origins"]
        assert json.loads(held(trace, origin)) == mixed[origin["record"]["number"]] and mixed[origin["record"]["number"]]["rgbIndex"] == row


# Videos


def packets(path):
    """Position and size of each packet, in the order of the file, with its time."""
    return [(int(p["pos"]), int(p["size"]), int(p["pts"])) for p in probe(path, "-show_packets")["packets"]]


def check_packet(trace, origin, path):
    """The trace names the packet of the row's frame: its number in decoding order, its position and its size, as ffprobe has them."""
    found = packets(path)
    number = sorted(range(len(found)), key=lambda index: found[index][2])[origin["sample"]]
    assert origin["record"] == {"kind": "packet", "number": number}
    assert (origin["range"]["offset"], origin["range"]["bytes"]) == found[number][:2]
    assert held(trace, origin) == path.read_bytes()[found[number][0] :][: found[number][1]]


@pytest.mark.parametrize("codec, b_frames", [("h264", 0), ("h264", 2), ("hevc", 2)])
def test_the_packet_of_a_frame_is_found_in_a_video(takeset, tmp_path, codec, b_frames):
    path = tmp_path / "slow.mov"
    path.write_bytes(video_file(40, fps=60, codec=codec, b_frames=b_frames))
    takeset.convert(path, output=tmp_path / "out")
    for row in 0, 1, 17, -1:
        trace = traced(takeset, tmp_path / "out", "slow", row)
        check_whole(tmp_path / "out", trace)
        (origin,) = streams(trace)["camera_image"]["origins"]
        assert origin["file"] == "slow.mov" and origin["sample"] == trace["row"] == row % 40
        check_packet(trace, origin, path)


# Bundles


@pytest.fixture(scope="module")
def bundles(takeset, tmp_path_factory):
    """Bundles in folders, zips and bodies, with every container of depth."""
    root = tmp_path_factory.mktemp("traced-bundles")
    (root / "in").mkdir()
    for container in "gzip", "zlib", "deflate", "none":
        found = bundle(30, **(SMALL | {"container": container}))
        found.write(root / "in" / f"{container}-folder")
        (root / "in" / f"{container}-body.bin").write_bytes(found.body())
        files = {p.name: p.read_bytes() for p in (root / "in" / f"{container}-folder").iterdir()}
        method = {"method": 0} if container == "gzip" else {}
        (root / "in" / f"{container}-zip.zip").write_bytes(zip_of(files, "bundle", **method))
        (root / "in" / f"{container}-tar.tar").write_bytes(tar_of(files, "bundle"))
    bundle(30).write(root / "in" / "headerless-folder")
    (root / "plain.yaml").write_text(PLAIN)
    takeset.convert(root / "in", output=root / "out", arguments=["--pipeline", root / "plain.yaml"])
    return root


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "body", "zip", "tar"])
@pytest.mark.parametrize("container", ["gzip", "zlib", "deflate", "none"])
def test_the_bytes_that_are_named_make_the_row_of_a_bundle(takeset, bundles, tmp_path, container, kind):
    check_bundle(takeset, bundles, tmp_path, f"{container}-{kind}", bundle(30, **(SMALL | {"container": container})), (6, 8), kind)


@pytest.mark.slow
def test_headerless_depth_is_found(takeset, bundles, tmp_path):
    check_bundle(takeset, bundles, tmp_path, "headerless-folder", bundle(30), (192, 256), "folder")


def check_bundle(takeset, bundles, tmp_path, name, found, size, kind):
    trace = traced(takeset, bundles / "out", name, 13)
    check_whole(bundles / "out", trace)
    (tmp_path / "video.mov").write_bytes(found.video)
    (origin,) = streams(trace)["camera_image"]["origins"]
    number = sorted(range(30), key=lambda index: packets(tmp_path / "video.mov")[index][2])[13]
    offset, count, _ = packets(tmp_path / "video.mov")[number]
    assert origin["range"] == {"offset": offset, "bytes": count} and held(trace, origin) == found.video[offset : offset + count]
    (depth,) = streams(trace)["camera_depth"]["origins"]
    if kind == "body":
        assert (origin["part"]["name"], depth["part"]["name"]) == ("video", "depth_data")
    values = np.frombuffer(held(trace, depth), "<f4").reshape(*size, 1)
    values = np.where(np.isfinite(values) & (values > 0), values, 0)
    np.testing.assert_array_equal(values, stored(bundles / "out", trace, "obs/camera_depth"))
    assert depth["record"] == {"kind": "keyframe", "number": streams(trace)["camera_depth"]["source_index"]} and depth["sample"] == 4
    if depth["member"]:
        check_member(trace, depth)


# Scans


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
@pytest.mark.parametrize("times", ["time", "number"])
def test_the_bytes_that_are_named_make_the_row_of_a_scan(takeset, tmp_path, kind, times):
    found = scan(20, times=times, b_frames=2)
    if kind == "folder":
        found.write(tmp_path / "capture")
    else:
        getattr(found, kind)(tmp_path / f"capture.{kind}", "a/b/")
    (tmp_path / "plain.yaml").write_text(PLAIN)
    source = tmp_path / ("capture" if kind == "folder" else f"capture.{kind}")
    takeset.convert(source, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "plain.yaml"])
    (tmp_path / "rgb.mp4").write_bytes(found.video)
    for row in 0, 12:
        trace = traced(takeset, tmp_path / "out", "capture", row)
        check_whole(tmp_path / "out", trace)
        one = streams(trace)
        line = held(trace, one["pose"]["origins"][0]).decode()
        assert line == found.files()["odometry.csv"].decode().split("\n")[row + 1] and one["pose"]["origins"][0]["record"]["number"] == row + 2
        fields = line.split(", ")
        np.testing.assert_array_equal(stored(tmp_path / "out", trace, "obs/pose")[:3], np.array(fields[2:5], np.float32))
        depth, confidence = (image(held(trace, one[name]["origins"][0])) for name in ("camera_depth", "camera_depth_confidence"))
        np.testing.assert_array_equal(depth, stored(tmp_path / "out", trace, "obs/camera_depth")[..., 0])
        np.testing.assert_array_equal(confidence, stored(tmp_path / "out", trace, "obs/camera_depth_confidence")[..., 0])
        reading = held(trace, one["imu"]["origins"][0]).decode().split(", ")
        np.testing.assert_array_equal(one["imu"]["values"], np.array(reading[1:], np.float32))
        (origin,) = one["camera_image"]["origins"]
        if kind == "folder":
            check_packet(trace, origin, tmp_path / "capture/rgb.mp4")
        offset, count, _ = packets(tmp_path / "rgb.mp4")[origin["record"]["number"]]
        assert held(trace, origin) == found.video[offset : offset + count]
        # An H.264 access unit as MP4 holds it: units with their lengths before them, up to the end.
        unit, place = held(trace, origin), 0
        while place < len(unit):
            place += 4 + struct.unpack(">I", unit[place : place + 4])[0]
        assert place == len(unit)
