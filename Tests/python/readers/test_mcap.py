"""Recordings in MCAP, as the libraries of others write them, and Takeset's own exports read again."""

import base64
import io
import json
import random
import struct
import zipfile
from datetime import UTC, datetime

import numpy as np
import pytest
from foxglove_schemas_protobuf import CompressedImage_pb2
from images import frame_code
from mcap.reader import make_reader
from mcap.writer import CompressionType, IndexType, Writer
from mcap_protobuf.decoder import DecoderFactory
from mcap_ros2.decoder import DecoderFactory as ROSDecoderFactory
from mcap_takes import (
    COMPRESSIONS, PERIOD, START, FoxgloveRecording, ROSRecording, at, depth, foxglove, image, jpeg, pose, ros,
)
from outputs import codes, demos, finding, manifest, only, record
from phone_takes import absolute, problem
from PIL import Image
from scipy.spatial.transform import Rotation
from videos import ffmpeg, yuv_image

PLAIN = "align: {tolerance: 0.02}"


def converted(takeset, take, output, reader="", check=0, steps=PLAIN, writer="image: raw"):
    """The entry, demo and meta, or what the command said."""
    output.mkdir(exist_ok=True, parents=True)
    (output / "p.yaml").write_text(f"version: 1\nreader: {{name: mcap{', ' + reader if reader else ''}}}\ntransforms: [{{{steps}}}]\nwriter: {{hdf5: {{{writer}}}}}\n")
    done = takeset.convert(take, output=output / "out", arguments=["--pipeline", output / "p.yaml"], check=check)
    return only(output / "out") if check == 0 else done


def failure(takeset, take, output, reader=""):
    converted(takeset, take, output, reader, check=3)
    return problem(record(output / "out"))


def problems(entry):
    """The codes of warnings, without those that all takes of a few frames have."""
    return [code for code in codes(entry, "warning", "error") if code not in ("short-episode", "imu-implausible")]


def check(demo, meta, frames=12):
    """The rows of `ros` and `foxglove`, by what was written."""
    assert absolute(meta).tolist() == [at(n) for n in range(frames)]
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == list(range(frames))
    expected = [pose(n * PERIOD / 1e9) for n in range(frames)]
    # Poses are of every 10 ms: between them, positions are those of a line.
    assert demo["obs/pose"][:, :3] == pytest.approx(np.array([p for p, _ in expected]), abs=1e-4)
    angles = (Rotation.from_quat(demo["obs/pose"][:, 3:]).inv() * Rotation.from_quat([q for _, q in expected])).magnitude()
    assert angles.max() < 1e-3
    assert demo["obs/camera_depth"][..., 0].tolist() == [depth(n).tolist() for n in range(frames)]
    # Messages count from the middle of the first pixel.
    assert meta["intrinsics"][0].tolist() == [90, 91, 48, 36]
    assert meta["timestamp_ns"].attrs["clock"] == "phone-unix"


# The container


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"use_chunking": False}, {"chunk_size": 1}, {"chunk_size": 1 << 26}, {"index_types": IndexType.NONE}, {"index_types": IndexType.MESSAGE},
        {"repeat_channels": False, "repeat_schemas": False}, {"use_statistics": False, "use_summary_offsets": False}, {"enable_crcs": False},
        {"enable_data_crcs": True}, {"enable_data_crcs": True, "use_chunking": False},
    ],
    ids=lambda options: " ".join(f"{key}={value}" for key, value in options.items()) or "defaults",
)
def test_every_option_of_the_writer_gives_the_same_rows(takeset, tmp_path, compression, options):
    take = foxglove(tmp_path / "take.mcap", frames=4, compression=COMPRESSIONS[compression], **options)
    entry, demo, meta = converted(takeset, take, tmp_path / "out")
    check(demo, meta, 4)
    assert problems(entry) == []


def test_attachments_metadata_and_unknown_records_are_passed_over(takeset, tmp_path):
    recording = FoxgloveRecording(tmp_path / "take.mcap", enable_data_crcs=True)
    recording.writer.add_attachment(1, 2, "notes.txt", "text/plain", bytes(3 << 20))
    recording.writer.add_metadata("robot", {"name": "arm", "": ""})
    for number in range(3):
        recording.image(number)
    recording.finish()
    data = (tmp_path / "take.mcap").read_bytes()
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "own")
    assert len(demo["obs/camera_image"]) == 3
    # Opcodes from 0x80 on are for private records.
    header = 8 + 9 + struct.unpack_from("<Q", data, 9)[0]
    foreign = data[:header] + b"\x91" + struct.pack("<Q", 5) + b"hello" + data[header:]
    (tmp_path / "private.mcap").write_bytes(foreign)
    entry, demo, _ = converted(takeset, tmp_path / "private.mcap", tmp_path / "private")
    assert len(demo["obs/camera_image"]) == 3
    # The chunks have checksums, and are intact; that of the file says that something else was changed.
    place = data.find(b"notes.txt")
    (tmp_path / "changed.mcap").write_bytes(data[:place] + b"N" + data[place + 1 :])
    entry, demo, _ = converted(takeset, tmp_path / "changed.mcap", tmp_path / "changed")
    assert "checksum of the file" in finding(entry, "messages-unreadable")["message"] and len(demo["obs/camera_image"]) == 3


def test_a_damaged_chunk_costs_its_messages_and_nothing_else(takeset, tmp_path):
    for compression in COMPRESSIONS.values():
        take = foxglove(tmp_path / f"{compression.name}.mcap", compression=compression, chunk_size=8000)
        data = bytearray(take.read_bytes())
        whole = only_numbers(takeset, take, tmp_path / f"whole-{compression.name}")
        found = chunks(data)
        # The first chunk has the definitions, which the summary repeats.
        start, end = found[0] if compression == CompressionType.LZ4 else found[len(found) // 2]
        data[(start + end) // 2] ^= 0x40
        take.write_bytes(data)
        entry, demo, _ = converted(takeset, take, tmp_path / f"out-{compression.name}")
        left = [frame_code(found) for found in demo["obs/camera_image"][:]]
        assert set(left) < set(whole) and len(left) >= len(whole) - 4 and finding(entry, "messages-unreadable")["count"] == 1


def only_numbers(takeset, take, output):
    _, demo, _ = converted(takeset, take, output)
    return [frame_code(found) for found in demo["obs/camera_image"][:]]


def chunks(data):
    """Starts and ends of the bodies of chunks."""
    found, offset = [], 8
    while offset + 9 <= len(data) and data[offset : offset + 8] != b"\x89MCAP0\r\n":
        (length,) = struct.unpack_from("<Q", data, offset + 1)
        if data[offset] == 6:
            found.append((offset + 9, offset + 9 + length))
        offset += 9 + length
    return found


def test_an_unfinished_file_is_read_to_its_last_whole_chunk(takeset, tmp_path):
    take = foxglove(tmp_path / "take.mcap", chunk_size=8000)
    data = take.read_bytes()
    ends = [end for _, end in chunks(data)]
    numbers = {}
    for cut in (ends[3], ends[3] + 1, ends[4] - 1, ends[3] + 700):
        take.write_bytes(data[:cut])
        entry, demo, _ = converted(takeset, take, tmp_path / f"out-{cut}")
        assert "up to byte" in finding(entry, "recording-unfinished")["message"]
        numbers[cut] = [frame_code(found) for found in demo["obs/camera_image"][:]]
    first = numbers[ends[3]]
    assert all(found == first for found in numbers.values()) and first == list(range(len(first))) and 2 <= len(first) < 12


def test_what_is_no_recording_fails_with_a_reason(takeset, tmp_path):
    take = foxglove(tmp_path / "take.mcap", frames=3)
    data = take.read_bytes()
    take.write_bytes(data.replace(b"zstd", b"lzma"))
    assert "lzma" in failure(takeset, take, tmp_path / "lzma")["message"]
    take.write_bytes(data[:40])
    assert failure(takeset, take, tmp_path / "cut")["code"] == "no-frames"
    # A chunk that claims more than it has, and one that claims more than is allowed.
    start, _ = chunks(data)[0]
    for size, code in (1 << 20, "no-frames"), (1 << 40, "limit"):
        take.write_bytes(data[: start + 16] + struct.pack("<Q", size) + data[start + 24 :])
        assert failure(takeset, take, tmp_path / f"size-{size}")["code"] == code
    # A record that claims to be larger than the file.
    take.write_bytes(data[: start - 8] + struct.pack("<Q", 1 << 62) + data[start:])
    assert failure(takeset, take, tmp_path / "record")["code"] == "no-frames"


def test_what_follows_the_end_is_named(takeset, tmp_path):
    take = foxglove(tmp_path / "take.mcap", frames=3)
    data = take.read_bytes()
    take.write_bytes(data + data)
    entry, demo, _ = converted(takeset, take, tmp_path / "out")
    assert len(demo["obs/camera_image"]) == 3 and f"{len(data)} bytes follow" in finding(entry, "messages-unreadable")["message"]


def test_a_channel_that_is_defined_twice_is_not_mixed(takeset, tmp_path):
    """Records as they are, because no library writes such a file."""
    def record(kind, body):
        return bytes([kind]) + struct.pack("<Q", len(body)) + body

    def text(value):
        return struct.pack("<I", len(value)) + value.encode()

    def channel(topic):
        return record(4, struct.pack("<HH", 1, 1) + text(topic) + text("json") + text(""))

    def joints(number):
        message = json.dumps({"header": {"stamp": {"sec": at(number) // 10**9, "nanosec": at(number) % 10**9}}, "name": ["a"], "position": [number]})
        return record(5, struct.pack("<HIQQ", 1, 0, at(number), at(number)) + message.encode())

    images = foxglove(tmp_path / "images.mcap", frames=6, use_chunking=False, index_types=IndexType.NONE).read_bytes()
    end = images.rfind(b"\x0f" + struct.pack("<Q", 4))
    schema = record(3, struct.pack("<H", 9) + text("sensor_msgs/JointState") + text("jsonschema") + text("{}"))
    more = schema + channel("/leader").replace(struct.pack("<HH", 1, 1), struct.pack("<HH", 77, 9))
    more += b"".join(joints(n).replace(struct.pack("<HI", 1, 0), struct.pack("<HI", 77, 0), 1) for n in range(3))
    more += channel("/follower").replace(struct.pack("<HH", 1, 1), struct.pack("<HH", 77, 9))
    more += b"".join(joints(n).replace(struct.pack("<HI", 1, 0), struct.pack("<HI", 77, 0), 1) for n in range(3, 6))
    (tmp_path / "take.mcap").write_bytes(images[:end] + more + images[end : end + 13] + record(2, bytes(20)) + images[:8])
    entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert set(demo["obs/joints"][:][demo["obs/joints_valid"][:].astype(bool)].ravel()) <= {0, 1, 2}
    assert "/follower" in finding(entry, "messages-unreadable")["message"]


def test_a_definition_is_bounded(takeset, tmp_path):
    text = "a/A[1000000] zz\nstd_msgs/Header header\nstring format\nuint8[] data\n====\nMSG: a/A\na/B[1000000] b\n====\nMSG: a/B\nint32[0] x\n====\nMSG: std_msgs/Header\nstring frame_id\n"
    with open(tmp_path / "take.mcap", "wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel("/x", "cdr", writer.register_schema("sensor_msgs/msg/CompressedImage", "ros2msg", text.encode()))
        writer.add_message(channel, START, bytes([0, 1, 0, 0]) + bytes(1_100_000), START)
        writer.finish()
    assert "too large" in failure(takeset, tmp_path / "take.mcap", tmp_path / "out")["message"]


def test_a_bomb_is_bounded(takeset, tmp_path):
    with open(tmp_path / "bomb.mcap", "wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD, chunk_size=1 << 28)
        writer.start()
        channel = writer.register_channel("/x", "json", writer.register_schema("X", "jsonschema", b"{}"))
        for number in range(3):
            writer.add_message(channel, number, bytes(100 << 20), number)
        writer.finish()
    assert (tmp_path / "bomb.mcap").stat().st_size < 1 << 20
    found = failure(takeset, tmp_path / "bomb.mcap", tmp_path / "one")
    assert found["code"] == "limit" and "max-chunk-mebibytes" in found["message"]
    found = failure(takeset, tmp_path / "bomb.mcap", tmp_path / "all", "max-chunk-mebibytes: 1000, max-archive-gibibytes: 0.1")
    assert found["code"] == "limit" and "max-archive-gibibytes" in found["message"]


# Messages


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_messages_of_ros_2(takeset, tmp_path, compression):
    entry, demo, meta = converted(takeset, ros(tmp_path / "take.mcap", compression=COMPRESSIONS[compression], chunk_size=10_000), tmp_path / "out")
    check(demo, meta)
    # Nothing says whose poses /pose has.
    assert entry["reader"] == "mcap" and problems(entry) == ["axes-unknown"]
    assert demo["obs/joints"].attrs["order"] == "shoulder elbow"
    assert demo["obs/joints"][1] == pytest.approx([1 / 30 + 0.005, 1 + 1 / 30 + 0.005], abs=1e-5)
    assert demo["obs/gripper_width"][:, 0].tolist() == [0.5 + n / 64 for n in range(12)]
    assert meta["imu/accel"][3] == pytest.approx([0.5, 0.25, 9.75]) and meta["imu/gyro"][3] == pytest.approx([0.1, -0.2, 0.01])
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y down, z forward"


@pytest.mark.parametrize("json_", [False, True])
def test_messages_of_foxglove(takeset, tmp_path, json_):
    entry, demo, meta = converted(takeset, foxglove(tmp_path / "take.mcap", json=json_), tmp_path / "out")
    check(demo, meta)
    assert problems(entry) == []


def test_raw_images_of_every_encoding(takeset, tmp_path):
    pixels = image(5)
    for encoding, values in {
        "rgb8": pixels, "bgr8": pixels[..., ::-1], "8UC3": pixels[..., ::-1], "rgba8": np.dstack([pixels, pixels[..., 0]]),
        "bgra8": np.dstack([pixels[..., ::-1], pixels[..., 0]]), "mono8": pixels[..., 1],
    }.items():
        recording = ROSRecording(tmp_path / f"{encoding}.mcap")
        for number in range(3):
            recording.raw(number, encoding, values, topic="/image", step=values[0].nbytes + 7)
        recording.finish()
        _, demo, _ = converted(takeset, tmp_path / f"{encoding}.mcap", tmp_path / encoding)
        expected = np.repeat(pixels[..., 1:2], 3, axis=2) if encoding == "mono8" else pixels
        assert (demo["obs/camera_image"][1] == expected).all(), encoding
    recording = ROSRecording(tmp_path / "yuv.mcap")
    recording.raw(0, "yuv422", pixels[..., :2], topic="/image")
    recording.finish()
    assert "yuv422" in failure(takeset, tmp_path / "yuv.mcap", tmp_path / "yuv")["message"]


@pytest.mark.parametrize("big", [False, True])
def test_depth_in_meters_and_millimeters_of_both_orders(takeset, tmp_path, big):
    for encoding, values in {"32FC1": depth(3).astype(np.float32) / 1000, "16UC1": depth(3)}.items():
        if encoding == "32FC1":
            values[2, 3], values[2, 4] = np.nan, -1
        recording = ROSRecording(tmp_path / f"{encoding}.mcap")
        for number in range(3):
            recording.image(number)
            recording.raw(number, encoding, values, big=big)
        recording.finish()
        _, demo, _ = converted(takeset, tmp_path / f"{encoding}.mcap", tmp_path / encoding)
        stored = demo["obs/camera_depth"]
        expected = np.where(np.isfinite(values) & (values > 0), values, 0) if encoding == "32FC1" else values
        assert stored.attrs["unit"] == ("m" if encoding == "32FC1" else "mm") and (stored[1, ..., 0] == expected).all()


def test_compressed_depth_of_ros(takeset, tmp_path):
    """Twelve bytes and a PNG: of millimeters; of meters it holds inverse values, which are not read."""
    for kind in "16UC1", "32FC1":
        recording = ROSRecording(tmp_path / f"{kind}.mcap")
        for number in range(3):
            recording.image(number)
            file = io.BytesIO()
            Image.fromarray(depth(number)).save(file, "PNG")
            message = {"header": recording.header(at(number)), "format": f"{kind}; compressedDepth png", "data": bytes(12) + file.getvalue()}
            recording.add("/cam/depth/compressedDepth", "sensor_msgs/msg/CompressedImage", message, at(number))
        recording.finish()
    _, demo, _ = converted(takeset, tmp_path / "16UC1.mcap", tmp_path / "16UC1")
    assert demo["obs/camera_depth"][..., 0].tolist() == [depth(n).tolist() for n in range(3)] and demo["obs/camera_depth"].attrs["unit"] == "mm"
    assert "32FC1" in failure(takeset, tmp_path / "32FC1.mcap", tmp_path / "32FC1")["message"]


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_compressed_video_is_decoded_frame_by_frame(takeset, tmp_path, codec):
    frames, (width, height) = 40, (96, 72)
    contents = b"".join(yuv_image(number, width, height) for number in range(frames))
    encoder = ["-c:v", "libx264", "-x264-params", "keyint=10:scenecut=0:bframes=0:aud=1:repeat-headers=1"]
    if codec == "h265":
        encoder = ["-c:v", "libx265", "-x265-params", "log-level=error:keyint=10:scenecut=0:bframes=0:aud=1:repeat-headers=1"]
    movie = tmp_path / f"movie.{codec}"
    ffmpeg("-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", 30, "-i", "-", *encoder, "-crf", 12, "-f", {"h264": "h264", "h265": "hevc"}[codec], movie, contents=contents)
    # Each frame begins with a delimiter.
    mark = b"\x00\x00\x00\x01\x09" if codec == "h264" else b"\x00\x00\x00\x01\x46\x01"
    units = [mark + unit for unit in movie.read_bytes().split(mark)[1:]]
    assert len(units) == frames
    expected = np.frombuffer(ffmpeg("-i", movie, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"), np.uint8).reshape(frames, height, width, 3)

    def recorded(name, numbers):
        recording = FoxgloveRecording(tmp_path / name)
        for number in numbers:
            recording.video(number, units[number], codec)
        recording.finish()
        return tmp_path / name

    entry, demo, meta = converted(takeset, recorded("take.mcap", range(frames)), tmp_path / "out")
    assert absolute(meta).tolist() == [at(n) for n in range(frames)]
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == list(range(frames))
    assert np.abs(demo["obs/camera_image"][:].astype(int) - expected).mean() < 2
    # It begins between two frames at which decoding can start.
    entry, demo, _ = converted(takeset, recorded("late.mcap", range(3, frames)), tmp_path / "late")
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == list(range(10, frames)) and finding(entry, "image-missing")["count"] == 7
    # A lost frame is never guessed, nor those after it: also a key frame, or as many as the frames' numbers count to.
    for name, lost, expected in ("hole", [15], [15, 16, 17, 18, 19]), ("key", [20], [*range(20, 30)]), ("many", [*range(2, 18)], [*range(2, 20)]):
        entry, demo, meta = converted(takeset, recorded(f"{name}.mcap", [n for n in range(frames) if n not in lost]), tmp_path / name)
        left = [n for n in range(frames) if n not in expected]
        assert [frame_code(found) for found in demo["obs/camera_image"][:]] == left and absolute(meta).tolist() == [at(n) for n in left]
        (step,) = (step for step in entry["steps"] if step.get("dropped"))
        assert step["dropped"] == [{"reason": "image-missing", "count": len(expected) - len(lost)}]


def test_messages_of_any_name_will_do_that_have_the_fields(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(4):
        recording.image(number)
        message = {
            "note": "x" * number, "header": recording.header(at(number)), "ok": True, "counts": [1, 2][: number % 3], "unused": 1.0,
            "inner": [{"a": -1, "b": 2.0}, {"a": 3, "b": 4.0}], "data": [number / 4, 1.5],
        }
        recording.add("/grip", "my_msgs/msg/Grip", message, at(number), log=at(number) + 999)
    recording.finish()
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out", "topics: {camera_image: /cam/image/compressed, grip: /grip}")
    assert demo["obs/grip"][:].tolist() == [[n / 4, 1.5] for n in range(4)]


def test_arrays_of_numbers_with_a_layout(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number)
        layout = {"dim": [{"label": "x" * number, "size": 2, "stride": 2}] * number, "data_offset": 0}
        recording.add("/touch", "std_msgs/msg/Float64MultiArray", {"layout": layout, "data": [number, -1.25]}, at(number))
    recording.finish()
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert demo["obs/touch"][:].tolist() == [[n, -1.25] for n in range(3)]


# Times


def test_times_are_those_of_headers_or_of_logging(takeset, tmp_path):
    late = 40_000_000
    recording = FoxgloveRecording(tmp_path / "take.mcap")
    for number in range(5):
        recording.image(number, log=at(number) + late)
    recording.finish()
    for option, shift in ("", 0), ("time: log", late), ("time: header", 0):
        _, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / f"out{shift}{option[:6]}", option)
        assert absolute(meta).tolist() == [at(n) + shift for n in range(5)]


def test_a_time_of_0_gives_that_of_logging(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(5):
        message = {"header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "c"}, "format": "jpeg", "data": jpeg(number)}
        recording.add("/image", "sensor_msgs/msg/CompressedImage", message, at(number))
    recording.finish()
    entry, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert absolute(meta).tolist() == [at(n) for n in range(5)] and finding(entry, "stamps-missing")["count"] == 5


def test_a_message_that_cannot_be_read_has_no_part_in_times_of_0(takeset, tmp_path):
    recording = FoxgloveRecording(tmp_path / "take.mcap")
    for number in range(12):
        stamp = 0 if number in (3, 4) else number * PERIOD + 10**9
        data = b"" if number == 3 else jpeg(number)
        recording.add("/cam/image", recording.stamped(CompressedImage_pb2.CompressedImage(data=data, format="jpeg", frame_id="c"), stamp), at(number))
    recording.finish()
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == [0, 1, 2, *range(5, 12)]


def test_messages_in_another_order_are_sorted(takeset, tmp_path):
    recording = FoxgloveRecording(tmp_path / "take.mcap")
    for number in [0, 1, 3, 2, 4, 4, 5, 6]:
        recording.image(number, log=START)
    recording.finish()
    entry, demo, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == list(range(7))
    assert absolute(meta).tolist() == [at(n) for n in range(7)] and codes(entry, "warning").count("time-not-ascending") == 2


def in_json(path, messages, schema="foxglove.CompressedImage", topic="/cam/image"):
    """A recording of messages in JSON: each with the time of its logging."""
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel(topic, "json", writer.register_schema(schema, "jsonschema", b"{}"))
        for message, log in messages:
            writer.add_message(channel, log, json.dumps(message).encode(), log)
        writer.finish()
    return path


def test_times_in_json_are_numbers_texts_or_dates(takeset, tmp_path):
    def message(number, stamp):
        return {"timestamp": stamp, "frame_id": "c", "format": "jpeg", "data": base64.b64encode(jpeg(number)).decode()}, START + 10**9

    texts = [message(n, {"sec": str(at(n) // 10**9), "nsec": at(n) % 10**9}) for n in range(4)]
    _, _, meta = converted(takeset, in_json(tmp_path / "texts.mcap", texts), tmp_path / "texts")
    assert absolute(meta).tolist() == [at(n) for n in range(4)]
    dates = [message(n, f"2026-05-28T20:26:{40 + n}.250000001Z") for n in range(4)]
    _, _, meta = converted(takeset, in_json(tmp_path / "dates.mcap", dates), tmp_path / "dates")
    assert absolute(meta).tolist() == [int(datetime(2026, 5, 28, 20, 26, 40 + n, tzinfo=UTC).timestamp()) * 10**9 + 250_000_001 for n in range(4)]
    # What a number counts is unknown, and nobody may guess that it is the time of logging.
    wrong = [message(n, at(n)) for n in range(4)]
    assert "its time is" in failure(takeset, in_json(tmp_path / "wrong.mcap", wrong), tmp_path / "wrong")["message"]


def test_a_time_of_0_among_those_of_another_clock_is_left_out(takeset, tmp_path):
    recording = FoxgloveRecording(tmp_path / "take.mcap")
    for number in range(6):
        message = recording.stamped(CompressedImage_pb2.CompressedImage(data=jpeg(number), format="jpeg", frame_id="c"), number * PERIOD)
        recording.add("/cam/image", message, at(number))
    recording.finish()
    entry, demo, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == [1, 2, 3, 4, 5]
    assert meta["timestamp_ns"].attrs["clock"] == "device-uptime" and finding(entry, "messages-unreadable")["count"] == 1


# Topics


def test_two_topics_of_a_kind_need_the_option(takeset, tmp_path):
    recording = FoxgloveRecording(tmp_path / "take.mcap")
    for number in range(4):
        recording.image(number, "/front")
        recording.image(number + 100, "/wrist")
        recording.depth(number, "/wrist/depth")
    recording.finish()
    found = failure(takeset, tmp_path / "take.mcap", tmp_path / "none")
    assert found["code"] == "topics-ambiguous" and all(word in found["message"] for word in ("/front", "/wrist", "topics: {", "/wrist/depth (depth, 30.0 Hz)"))
    _, demo, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "named", "topics: {camera_image: /front, wrist_image: /wrist, wrist_depth: /wrist/depth}")
    assert [frame_code(found) for found in demo["obs/camera_image"][:]] == list(range(4))
    assert set(demo["obs"]) >= {"camera_image", "wrist_image", "wrist_depth"} and meta["wrist_image" if "wrist_image" in meta else "timestamp_ns"] is not None


def test_a_named_topic_that_is_not_there_or_of_another_kind_fails(takeset, tmp_path):
    take = ros(tmp_path / "take.mcap", frames=3)
    for option, words in {
        "camera_image: /nope": ["/nope", "/cam/image/compressed"], "camera_image: /imu": ["/imu", "images"],
        "camera_image: /cam/image/compressed, pose: /imu": ["/imu", "poses"],
    }.items():
        found = failure(takeset, take, tmp_path / f"out{len(option)}", f"topics: {{{option}}}")
        assert found["code"] == "topic-missing" and all(word in found["message"] for word in words), found
    for option, words in {"Camera: /x": "Camera", "pose: /pose": "camera_image", "camera_image: /a, pose: /a": "one topic", "camera_image: /a, actions: /b": "reserved"}.items():
        said = converted(takeset, take, tmp_path / "bad", f"topics: {{{option}}}", check=64)
        assert words in said.stderr


def test_only_named_topics_are_decoded(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number)
        recording.add("/other", "sensor_msgs/msg/CompressedImage", {"header": recording.header(at(number)), "format": "jpeg", "data": b""}, at(number))
    recording.finish()
    entry, _, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out", "topics: {camera_image: /cam/image/compressed}")
    assert problems(entry) == ["intrinsics-absent"]


def test_inspect_lists_the_topics(takeset, tmp_path):
    take = ros(tmp_path / "take.mcap")
    said = takeset("inspect", take, check=0).stdout
    for words in ["/cam/image/compressed", "30.00 Hz", "camera_image", "/imu", "100.00 Hz", "sensor_msgs/msg/Imu"]:
        assert words in said
    (found,) = json.loads(takeset("inspect", "--json", take, check=0).stdout)["takes"] if "takes" in json.loads(takeset("inspect", "--json", take, check=0).stdout) else [json.loads(takeset("inspect", "--json", take, check=0).stdout)]
    topics = {topic["topic"]: topic for topic in found["details"]["topics"]}
    assert topics["/pose"] == {"kind": "pose", "messages": 50, "rate_hz": 100.0, "schema": "geometry_msgs/msg/PoseStamped", "stream": "pose", "topic": "/pose"}
    assert topics["/cam/depth"]["kind"] == "depth" and topics["/cam/camera_info"]["stream"] is None


# Frames


def test_transforms_give_the_pose_of_the_camera(takeset, tmp_path):
    mount = ([0.1, -0.2, 0.3], Rotation.from_euler("xyz", [-90, 5, -90], degrees=True).as_quat().tolist())
    recording = ROSRecording(tmp_path / "take.mcap")
    recording.transform("base", "camera", START - 10**12, *mount, topic="/tf_static")
    for number in range(6):
        recording.image(number)
    for step in range(-1, 24):
        position, rotation = pose(step / 100)
        recording.transform("odom", "base", START + step * 10_000_000, position, rotation)
        recording.transform("map", "odom", START + step * 10_000_000, [1.0, 2.0, 3.0], [0.0, 0.0, 1.0, 0.0])
    recording.finish()
    entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert demo["obs/pose"].attrs["world_axes"] == "those of the frame map"
    for row, found in enumerate(demo["obs/pose"][:]):
        position, rotation = pose(row * PERIOD / 1e9)
        base = Rotation.from_quat([0, 0, 1, 0])
        turned = base * Rotation.from_quat(rotation)
        place = np.array([1, 2, 3]) + base.apply(position) + turned.apply(mount[0])
        assert found[:3] == pytest.approx(place, abs=2e-4)
        assert (Rotation.from_quat(found[3:]).inv() * turned * Rotation.from_quat(mount[1])).magnitude() < 1e-3


def test_odometry_of_a_body_is_moved_to_the_camera(takeset, tmp_path):
    mount = ([0.1, -0.2, 0.3], Rotation.from_euler("xyz", [-90, 5, -90], degrees=True).as_quat().tolist())
    for static in "child", "sibling", "none":
        recording = ROSRecording(tmp_path / f"{static}.mcap")
        if static == "child":
            recording.transform("base", "camera", START, *mount, topic="/tf_static")
        if static == "sibling":
            # Both hang on a plate, which is 0.5 m above the body.
            plate = [0.0, 0.0, 0.5]
            recording.transform("plate", "base", START, [-v for v in plate], [0.0, 0.0, 0.0, 1.0], topic="/tf_static")
            recording.transform("plate", "camera", START, [m - p for m, p in zip(mount[0], plate)], mount[1], topic="/tf_static")
        for number in range(6):
            recording.image(number)
            position, rotation = pose(number * PERIOD / 1e9)
            body = {"position": dict(zip("xyz", position)), "orientation": dict(zip("xyzw", rotation))}
            message = {"header": recording.header(at(number), "odom"), "child_frame_id": "base", "pose": {"pose": body, "covariance": [0.0] * 36}, "other": [0.0] * 36}
            recording.add("/odom", "nav_msgs/msg/Odometry", message, at(number))
        recording.finish()
        entry, demo, _ = converted(takeset, tmp_path / f"{static}.mcap", tmp_path / f"out-{static}")
        position, rotation = pose(3 * PERIOD / 1e9)
        expected = np.array(position) + (Rotation.from_quat(rotation).apply(mount[0]) if static != "none" else 0)
        assert demo["obs/pose"][3, :3] == pytest.approx(expected, abs=1e-5)
        turned = Rotation.from_quat(rotation) * (Rotation.from_quat(mount[1]) if static != "none" else Rotation.identity())
        assert (Rotation.from_quat(demo["obs/pose"][3, 3:]).inv() * turned).magnitude() < 1e-5
        assert ("axes-unknown" in codes(entry)) == (static == "none")
        assert demo["obs/pose"].attrs["camera_axes"] == ("arbitrary" if static == "none" else "x right, y down, z forward")


def test_axes_say_which_frame_poses_are_of(takeset, tmp_path):
    take = foxglove(tmp_path / "take.mcap", frames=4)
    _, demo, _ = converted(takeset, take, tmp_path / "out", "axes: ros")
    assert demo["obs/pose"].attrs["camera_axes"] == "x forward, y left, z up"


def test_the_calibration_is_that_of_the_camera(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number)
        recording.info(number, "/cam/camera_info", d=[0.1, 0, 0, 0, 0])
        recording.info(number, "/other/camera_info", frame="other", k=[50.0, 0, 10, 0, 50, 10, 0, 0, 1])
    recording.finish()
    entry, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert meta["intrinsics"][0].tolist() == [90, 91, 48, 36] and problems(entry) == ["distortion-ignored"]


def test_a_fisheyes_numbers_are_left_out(takeset, tmp_path):
    for model, code in ("rational_polynomial", "distortion-ignored"), ("equidistant", "intrinsics-unusable"):
        recording = ROSRecording(tmp_path / f"{model}.mcap")
        for number in range(3):
            recording.image(number)
            recording.info(number, d=[0.1, 0, 0, 0], model=model)
        recording.finish()
        entry, _, meta = converted(takeset, tmp_path / f"{model}.mcap", tmp_path / model)
        assert problems(entry) == [code] and ("intrinsics" in meta) == (model == "rational_polynomial")


def test_another_cameras_calibration_is_not_taken(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number, "/left/image/compressed", "left")
        recording.info(number, "/left/right/camera_info", frame="right", k=[50.0, 0, 10, 0, 50, 10, 0, 0, 1])
    recording.finish()
    entry, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert problems(entry) == ["intrinsics-absent"] and "intrinsics" not in meta


def test_intrinsics_change_when_their_messages_do(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(20):
        recording.image(number)
        recording.info(number, k=[90.0 if number < 15 else 110.0, 0, 47.5, 0, 91, 35.5, 0, 0, 1])
    recording.finish()
    _, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert meta["intrinsics"][:, 0].tolist() == [90.0] * 15 + [110.0] * 5


def test_images_of_a_part_of_the_sensor_and_of_fewer_pixels(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number)
        info = {
            "header": recording.header(at(number)), "height": 200, "width": 400, "distortion_model": "", "d": [], "k": [180.0, 0, 199.5, 0, 180, 99.5, 0, 0, 1],
            "r": [1.0] * 9, "p": [0.0] * 12, "binning_x": 2, "binning_y": 2,
            "roi": {"x_offset": 104, "y_offset": 28, "height": 144, "width": 192, "do_rectify": False},
        }
        recording.add("/cam/camera_info", "sensor_msgs/msg/CameraInfo", info, at(number))
    recording.finish()
    entry, _, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert meta["intrinsics"][0].tolist() == [90, 90, 48, 36] and problems(entry) == []


def test_rectified_images_have_the_projection(takeset, tmp_path):
    """As ROS has it: `image_rect` is what P is of, and its lens has no distortion any more."""
    for topic, expected, said in (("/cam/image_rect/compressed", [80, 81, 46, 37], []), ("/cam/image_raw/compressed", [90, 91, 48, 36], ["distortion-ignored"])):
        take = tmp_path / f"{topic.split('/')[2]}.mcap"
        recording = ROSRecording(take)
        for number in range(3):
            recording.image(number, topic)
            recording.info(number, d=[0.1, 0, 0, 0, 0], p=[80.0, 0, 45.5, 3, 0, 81, 36.5, 0, 0, 0, 1, 0])
        recording.finish()
        entry, _, meta = converted(takeset, take, tmp_path / take.stem)
        assert meta["intrinsics"][0].tolist() == expected and problems(entry) == said


def test_depth_keeps_its_own_calibration(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(3):
        recording.image(number)
        recording.info(number)
        recording.raw(number, "16UC1", depth(number), "/cam/depth/image_rect_raw")
        recording.info(number, "/cam/depth/camera_info", k=[31.0, 0, 15.25, 0, 32, 11.25, 0, 0, 1], size=(32, 24))
    recording.finish()
    entry, demo, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert meta["intrinsics"][0].tolist() == [90, 91, 48, 36] and demo["obs/camera_depth"].shape[1:3] == (24, 32)
    assert meta["camera_depth_intrinsics"][0] == pytest.approx([31, 32, 15.75, 11.75]) and problems(entry) == ["intrinsics-differ"]


def test_poses_of_nobody_knows_whom_are_named(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(6):
        recording.image(number)
        recording.pose(at(number), "/ee_pose", "base_link")
    recording.finish()
    for option, warned in ("", True), ("topics: {camera_image: /cam/image/compressed, pose: /ee_pose}", False):
        entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / f"out{warned}", option)
        assert ("axes-unknown" in problems(entry)) == warned and demo["obs/pose"].attrs["camera_axes"] == "x right, y down, z forward"
    _, demo, meta = converted(takeset, tmp_path / "take.mcap", tmp_path / "hand", "topics: {camera_image: /cam/image/compressed, hand: /ee_pose}, world-up: z")
    assert "pose" not in demo["obs"] and demo["obs/hand"].attrs["camera_axes"] == "arbitrary" and demo["obs/hand"].attrs["world_axes"] == "z up, those of the frame base_link"
    for row in range(6):
        position, rotation = pose(row * PERIOD / 1e9)
        assert demo["obs/hand"][row] == pytest.approx([*position, *rotation], abs=1e-6)


def test_slow_transforms_are_named(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(30):
        recording.image(number)
        recording.transform("odom", "camera", at(number), [number, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    for number in range(3):
        recording.transform("map", "odom", at(number * 14), [0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    recording.finish()
    entry, _, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert "the transform of odom is there every 0.466666662 s" in finding(entry, "pose-missing")["message"]
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "all", "max-pose-gap: 1")
    assert demo["obs/pose"][:, 0].tolist() == list(range(29))


def test_joints_of_several_programs_on_one_topic(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(6):
        recording.image(number)
        recording.joints(at(number), ["finger"])
        names = ["shoulder", "elbow", "wrist"] if number % 2 else ["wrist", "shoulder", "elbow"]
        recording.joints(at(number), names, values=[number + {"shoulder": 0.125, "elbow": 0.25, "wrist": 0.5}[name] for name in names])
    recording.finish()
    _, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert demo["obs/joints"].attrs["order"] == "wrist shoulder elbow" and demo["obs/joints_2"].attrs["order"] == "finger"
    assert demo["obs/joints"][:].tolist() == [[n + 0.5, n + 0.125, n + 0.25] for n in range(6)]


def test_joints_without_positions_are_left_out_or_fail_where_they_are_named(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(6):
        recording.image(number)
        recording.joints(at(number), ["left", "right"], values=[])
    recording.finish()
    entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert "joints" not in demo["obs"] and "the positions of joints" in finding(entry, "messages-unreadable")["message"]
    found = failure(takeset, tmp_path / "take.mcap", tmp_path / "named", "topics: {camera_image: /cam/image/compressed, joints: /joint_states}")
    assert found["code"] == "no-frames" or "joint_states" in found["message"]


def test_one_topic_of_several_bodies_or_worlds_is_not_mixed(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(8):
        recording.image(number)
        recording.pose(at(number), frame="map" if number < 7 else "odom")
    recording.finish()
    entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert len(demo["obs/pose"]) == 7 and "odom" in finding(entry, "messages-unreadable")["message"]


def test_one_bad_transform_leaves_the_others_of_its_message(takeset, tmp_path):
    recording = ROSRecording(tmp_path / "take.mcap")
    for number in range(4):
        recording.image(number)
        bad = {"header": recording.header(at(number), "map"), "child_frame_id": "x", "transform": {"translation": dict(zip("xyz", [0.0] * 3)), "rotation": dict(zip("xyzw", [0.0] * 4))}}
        good = {"header": recording.header(at(number), "map"), "child_frame_id": "camera", "transform": {"translation": dict(zip("xyz", [1.0, 2, number])), "rotation": dict(zip("xyzw", [0.0, 0, 0, 1]))}}
        recording.add("/tf", "tf2_msgs/msg/TFMessage", {"transforms": [bad, good]}, at(number))
    recording.finish()
    entry, demo, _ = converted(takeset, tmp_path / "take.mcap", tmp_path / "out")
    assert demo["obs/pose"][:, 2].tolist() == [0, 1, 2, 3] and finding(entry, "messages-unreadable")["count"] == 4


# Bags and archives


def bag(root, files, **options):
    """A recording that is split into files, as `ros2 bag record --max-bag-size` makes it."""
    root.mkdir()
    names = [f"bag_{number}.mcap" for number in range(files)]
    for part, name in enumerate(names):
        recording = ROSRecording(root / name, **options)
        for number in range(part * 4, part * 4 + 4):
            recording.image(number)
            recording.info(number)
            recording.raw(number, "16UC1", depth(number))
            for step in range(-1, 4):
                recording.pose(at(number) + step * 10_000_000)
        recording.finish()
    lines = "\n".join(f"    - {name}" for name in names)
    text = f"rosbag2_bagfile_information:\n  version: 8\n  storage_identifier: mcap\n  relative_file_paths:\n{lines}\n  message_count: 1\n"
    (root / "metadata.yaml").write_text(text)
    return root


def test_a_split_bag_is_one_take(takeset, tmp_path):
    take = bag(tmp_path / "bag", 3)
    entry, demo, meta = converted(takeset, take, tmp_path / "out")
    check(demo, meta)
    assert entry["id"] == "bag" and entry["variant"] == "bag"
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(take.iterdir()):
            archive.write(path, f"session/{path.name}")
    packed, demo, meta = converted(takeset, tmp_path / "packed.zip", tmp_path / "packed")
    check(demo, meta)
    assert packed["output"]["content_sha256"] == entry["output"]["content_sha256"]
    (take / "bag_1.mcap").unlink()
    found = failure(takeset, take, tmp_path / "missing")
    assert found["code"] == "recording-invalid" and found["file"] == "bag_1.mcap"


def test_a_zip_of_one_recording_is_the_same(takeset, tmp_path):
    take = foxglove(tmp_path / "take.mcap")
    own, _, _ = converted(takeset, take, tmp_path / "own")
    for method in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
        with zipfile.ZipFile(tmp_path / "take.zip", "w", method) as archive:
            archive.write(take, "recordings/take.mcap")
        packed, _, _ = converted(takeset, tmp_path / "take.zip", tmp_path / f"zip-{method}")
        assert own["output"]["content_sha256"] == packed["output"]["content_sha256"]


def test_trace_finds_the_message(takeset, tmp_path):
    take = ros(tmp_path / "take.mcap", frames=4, compression=CompressionType.NONE)
    converted(takeset, take, tmp_path / "out", writer="image: jpeg")
    said = takeset("trace", tmp_path / "out" / "out", "--episode", "take", "--row", "2", "--json", check=0).stdout
    assert "message" in said
    data = take.read_bytes()
    places = [place for place in walk(json.loads(said)) if isinstance(place, dict) and place.get("range_in_file")]
    ranges = [(place["range_in_file"]["offset"], place["range_in_file"]["bytes"]) for place in places]
    assert any(data[offset : offset + count] == jpeg(2) for offset, count in ranges)


def walk(value):
    yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from walk(child)


# Damage


@pytest.mark.parametrize("seed", range(4))
def test_damaged_recordings_never_give_a_wrong_row(takeset, tmp_path, seed):
    """Flips, cuts and holes in 250 files each: a take fails, or each of its rows has its own image, pose and depth."""
    choice = random.Random(seed)
    makers = [
        lambda path: ros(path, frames=3, compression=CompressionType.ZSTD, chunk_size=4000),
        lambda path: foxglove(path, frames=3, compression=CompressionType.LZ4, chunk_size=4000),
        lambda path: foxglove(path, frames=3, compression=CompressionType.NONE, enable_data_crcs=True, use_chunking=False),
        lambda path: ros(path, frames=3, compression=CompressionType.NONE, chunk_size=4000),
    ]
    source = makers[seed](tmp_path / "source.mcap").read_bytes()
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(250):
        data = bytearray(source)
        kind = choice.randrange(4)
        place = choice.randrange(8, len(data))
        if kind == 0:
            data[place] ^= 1 << choice.randrange(8)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data[place : place + choice.randrange(1, 200)] = bytes(choice.randrange(1, 200))
        else:
            data[place : place + 8] = struct.pack("<Q", choice.choice([0, 1, 1 << 31, 1 << 62, (1 << 64) - 1]))[: len(data) - place]
        (folder / f"t{number:03}.mcap").write_bytes(data)
    (tmp_path / "p.yaml").write_text("version: 1\nreader: mcap\ntransforms: [{align: {tolerance: 0.02}}]\nwriter: {hdf5: {image: raw}}\n")
    done = takeset("run", folder, "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml")
    assert done.returncode in (0, 1, 3), done.stderr
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len(entries) == 250
    assert not [entry for entry in entries if "conversion-crashed" in codes(entry) or "time-limit" in codes(entry) or "internal" in codes(entry)]
    rows = 0
    for demo, meta in demos(tmp_path / "out").values():
        numbers = [(time - START) / PERIOD for time in absolute(meta).tolist()]
        for row, number in enumerate(numbers):
            assert number in (0, 1, 2)
            if "camera_image" in demo["obs"] and ("camera_image_valid" not in demo["obs"] or demo["obs/camera_image_valid"][row]):
                assert frame_code(demo["obs/camera_image"][row]) == number
            if "pose" in demo["obs"]:
                position, _ = pose(number * PERIOD / 1e9)
                assert demo["obs/pose"][row, :3] == pytest.approx(position, abs=1e-3)
            rows += 1
    assert rows > 100


# Round trip


@pytest.mark.parametrize("app, options", [("stray-scanner", ["--size", "96x72", "--depth-size", "32x24"]), ("arkitscenes", ["--size", "96x72"]), ("stack-session", ["--variant", "v1"])])
def test_what_was_exported_is_read_again(takeset, tmp_path, app, options):
    takeset("simulate", app, "--output", tmp_path / "take", "--seconds", 0.5, *options, check=0)
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [{align: {tolerance: 0.05}}, {pose-frame: {axes: opencv}}]\nwriter: {hdf5: {image: raw}}\n")
    takeset.convert(tmp_path / "take", output=tmp_path / "first", arguments=["--pipeline", tmp_path / "p.yaml"])
    takeset("export", tmp_path / "first", "--to", "mcap", "--output", tmp_path / "mcap", "--image", "png", check=0)
    (file,) = (tmp_path / "mcap").glob("*.mcap")
    takeset.convert(file, output=tmp_path / "second", arguments=["--pipeline", tmp_path / "p.yaml"])
    entry, demo, meta = only(tmp_path / "first")
    again, demo2, meta2 = only(tmp_path / "second")
    assert again["reader"] == "mcap" and again["variant"] == "takeset"
    origin = 0 if meta2["timestamp_ns"].attrs["clock"] == "phone-unix" else absolute(meta)[0]
    if meta["timestamp_ns"].attrs["clock"] == "device-uptime" and origin == 0:
        # The session knows the Unix time of its start, in which messages are.
        origin = absolute(meta)[0] - absolute(meta2)[0]
    assert absolute(meta2).tolist() == (absolute(meta) - origin).tolist()
    assert np.abs(demo["obs/pose"][:] - demo2["obs/pose"][:]).max() < 1e-6
    assert demo["obs/pose"].attrs["world_axes"] == demo2["obs/pose"].attrs["world_axes"]
    assert (demo["obs/camera_image"][:] == demo2["obs/camera_image"][:]).all()
    if "intrinsics" in meta:
        assert np.abs(meta["intrinsics"][:] - meta2["intrinsics"][:]).max() < 1e-3
    if "camera_depth" in demo["obs"]:
        factor = 1000 if demo["obs/camera_depth"].attrs["unit"] == "m" else 1
        assert np.abs(demo["obs/camera_depth"][:] * factor - demo2["obs/camera_depth"][:]).max() <= 0.5001
    if "joints" in demo["obs"]:
        assert demo["obs/joints"][:].tolist() == demo2["obs/joints"][:].tolist()
    if "imu" in meta and "imu" in meta2:
        assert len(meta2["imu/accel"]) and set(map(tuple, meta2["imu/accel"][:])) <= set(map(tuple, meta["imu/accel"][:]))


@pytest.mark.parametrize("form", ["ros2", "foxglove", "json", "bag"])
def test_simulated_recordings_are_those_of_other_libraries(takeset, tmp_path, form):
    """By the library mcap, with all checksums, and decoders that know neither us nor the message definitions but from the file."""
    takeset("simulate", "mcap", "--form", form, "--output", tmp_path / "take", "--seconds", 0.5, "--size", "96x72", "--depth-size", "32x24", check=0)
    truth = json.loads((tmp_path / "take/truth.json").read_text())
    found = {}
    for path in sorted((tmp_path / "take").glob("*.mcap")):
        with path.open("rb") as file:
            reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory(), ROSDecoderFactory()])
            messages = reader.iter_messages() if form == "json" else reader.iter_decoded_messages()
            for schema, channel, message, *decoded in messages:
                found.setdefault(schema.name, []).append((message.log_time, decoded[0] if decoded else json.loads(message.data)))
    images = found["foxglove.CompressedImage" if form in ("foxglove", "json") else "sensor_msgs/msg/CompressedImage"]
    assert [time for time, _ in images] == truth["frame_time_ns"]
    for number, (_, message) in enumerate(images):
        data = base64.b64decode(message["data"]) if form == "json" else bytes(message.data)
        assert frame_code(np.asarray(Image.open(io.BytesIO(data)))) == 2 * number
    if form in ("ros2", "bag"):
        assert [message.data for _, message in found["std_msgs/msg/Float32"]] == truth["gripper"]
