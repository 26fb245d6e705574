"""Defects of the first versions, each with the smallest input that showed it: none of them comes back."""

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import h5py
import numpy as np
import pytest
from bundles import BT709, ENCODERS, NAMES, bundle, changed, made, measured, movie, numbers, picture
from conftest import BINARY, demos, manifest, take
from quirks import (
    COUNT, EPOCH, SIZE, all_joints_masked, finding, jpeg, tarred, unwrapped, v1, v2, warnings, write, zipped,
)
from stray import session as scan
from test_faults import mount_tmpfs
from test_syscalls import preload  # noqa: F401, a fixture


def converted(takeset, session, root, check=0, arguments=(), name="session"):
    """The entry, demo and meta of one session."""
    write(root / name, session.contents())
    takeset.convert(root / name, output=root / "out", check=check, arguments=arguments)
    return take(root / "out", name), *demos(root / "out").get(name, (None, None))


def pipeline(root, text):
    (root / "p.yaml").write_text("version: 1\n" + text)
    return ["--pipeline", root / "p.yaml"]


# 1. A header that claims too much


def with_size(data, width, height):
    """A JPEG whose frame header says another size."""
    at = next(data.index(marker) for marker in (b"\xff\xc0", b"\xff\xc2") if marker in data)
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


@pytest.mark.parametrize("steps", [None, "transforms: [align]\n"])
@pytest.mark.parametrize("make", [v1, v2])
@pytest.mark.parametrize("number", [0, 7, COUNT - 1])
def test_a_picture_that_claims_a_huge_size_is_a_row_with_its_mask_off(takeset, tmp_path, make, number, steps):
    """The first picture tells no size that the others would have to keep to."""
    session = make()
    session.rgb = {**session.rgb, number: with_size(session.rgb[number], 65500, 65500)}
    entry, demo, meta = converted(takeset, session, tmp_path, arguments=pipeline(tmp_path, steps) if steps else ())
    valid = meta["streams/camera_image/valid"][:]
    assert len(valid) == COUNT and np.flatnonzero(valid == 0).tolist() == [number]
    assert not demo["obs/camera_image"][number].any()
    others = [n for n in range(COUNT) if n != number]
    assert [numbers(demo["obs/camera_image"][n : n + 1])[0] for n in others] == others
    found = finding(entry, "image-undecodable")
    assert found["count"] == 1 and found["file"] == f"rgb/{number:06d}.jpg"


# 2. Sizes in the metadata that are none


@pytest.mark.parametrize("value", [[1e9, 1e9], "480x360", [-480, 360], [480], {"width": 480, "height": 360}, [2**63, 1]])
@pytest.mark.parametrize("make", [v1, v2])
def test_a_size_in_the_metadata_that_is_none_costs_a_finding(takeset, tmp_path, make, value):
    session = make()
    session.metadata["rgbResolution"] = value
    entry, demo, _ = converted(takeset, session, tmp_path)
    assert entry["outcome"] == "written" and demo["obs/camera_image"].shape == (COUNT, SIZE[1], SIZE[0], 3)
    assert any(
        f["severity"] in ("warning", "info") and "rgbResolution" in f["message"] + f.get("field", "") for f in entry["findings"]
    ), entry["findings"]


# 3. Poses that begin late


@pytest.mark.parametrize("late", [9, 18])
def test_joints_are_not_shifted_by_poses_that_begin_late(takeset, tmp_path, late):
    """The encoders' first reading is at the recording's start, which is the first picture and not the first pose."""
    session = v2()
    session.poses = session.poses[late:]
    entry, demo, meta = converted(takeset, session, tmp_path)
    rows = meta["source_index"][:]
    assert rows.tolist() == list(range(late, COUNT))
    (alignment,) = [a for a in entry["alignment"] if a["stream"] == "joints"]
    residual = alignment["residual_ns"] / 1e9
    assert 0 < residual <= 0.05 and not all_joints_masked(demo, meta)
    true_times = rows / 60
    stream = meta["streams/joints"]
    index = stream["source_index"][:]
    assert (index >= 0).sum() > len(rows) * 0.8
    used = index >= 0
    # A reading is the nearest to a time that is wrong by no more than was claimed; half a period of 50 Hz is its own.
    apart = np.abs(index[used] / 50 - true_times[used])
    assert apart.max() <= residual + 0.01 + 1e-3, apart.max()
    stored = demo["obs/joints"][:].astype("f8")
    for joint, centre in enumerate([1, 40, 120, 200]):
        swing = 8 + 4 * joint
        truth = centre - swing * np.sin(4 * true_times + joint)
        difference = (stored[:, joint] - truth + 180) % 360 - 180
        assert np.abs(difference[used]).max() <= 4 * swing * (residual + 0.011) + 0.1, (joint, np.abs(difference[used]).max())


# 4. A movie whose parameter set claims too much


class Bits:
    """The bits of a parameter set, read from the front and copied as they are read."""

    def __init__(self, data):
        self.bits = "".join(f"{byte:08b}" for byte in data)
        self.at = 0
        self.out = ""

    def take(self, count):
        found = self.bits[self.at : self.at + count]
        self.at += count
        return found

    def copy(self, count):
        found = self.take(count)
        self.out += found
        return int(found, 2) if found else 0

    def golomb(self):
        zeros = self.bits.index("1", self.at) - self.at
        return int(self.take(2 * zeros + 1), 2) - 1

    def copied_golomb(self):
        value = self.golomb()
        self.put_golomb(value)
        return value

    def put_golomb(self, value):
        text = f"{value + 1:b}"
        self.out += "0" * (len(text) - 1) + text

    def rest(self):
        """What is left up to the stop bit, and the bytes of all that was copied."""
        self.out += self.bits[self.at :].rstrip("0")
        self.out += "0" * (-len(self.out) % 8)
        return bytes(int(self.out[k : k + 8], 2) for k in range(0, len(self.out), 8))


def sps_with_size(unit, width, height):
    """A sequence parameter set of H.264 (ITU-T H.264, 7.3.2.1.1) that says another size."""
    bits = Bits(unit[1:].replace(b"\0\0\3", b"\0\0"))
    profile = bits.copy(8)
    bits.copy(8)
    bits.take(8)
    bits.out += f"{62:08b}"  # the highest level, which allows the most
    bits.copied_golomb()
    if profile in (100, 110, 122, 244):
        assert bits.copied_golomb() == 1  # 4:2:0
        bits.copied_golomb(), bits.copied_golomb()
        bits.copy(1)
        assert bits.copy(1) == 0  # no scaling matrices
    bits.copied_golomb()
    order = bits.copied_golomb()
    assert order in (0, 2)
    if order == 0:
        bits.copied_golomb()
    bits.copied_golomb()
    bits.copy(1)
    before = (bits.golomb() + 1) * 16, (bits.golomb() + 1) * 16
    bits.put_golomb(width // 16 - 1)
    bits.put_golomb(height // 16 - 1)
    assert bits.copy(1) == 1  # no fields
    bits.copy(1)
    if bits.take(1) == "1":
        for _ in range(4):
            bits.golomb()
    bits.out += "0"  # nothing is cut off
    written = bits.rest()
    escaped = bytearray()
    for byte in written:
        if len(escaped) > 1 and escaped[-1] == escaped[-2] == 0 and byte <= 3:
            escaped.append(3)
        escaped.append(byte)
    return unit[:1] + bytes(escaped), before


def with_movie_size(data, width, height):
    """The movie whose avcC says another size, and the size that it said before; all else is as it was."""
    before = None

    def change(payload):
        nonlocal before
        at = payload.index(b"avcC") + 4
        length = struct.unpack_from(">I", payload, at - 8)[0]
        config = payload[at : at - 8 + length]
        assert config[5] & 31 == 1
        (size,) = struct.unpack_from(">H", config, 6)
        unit, before = sps_with_size(config[8 : 8 + size], width, height)
        config = config[:6] + struct.pack(">H", len(unit)) + unit + config[8 + size :]
        grown = len(config) + 8 - length
        entry = struct.unpack_from(">I", payload, 8)[0]
        out = payload[: at - 8] + struct.pack(">I", len(config) + 8) + b"avcC" + config + payload[at - 8 + length :]
        return out[:8] + struct.pack(">I", entry + grown) + out[12:]

    return changed(data, "moov/trak/mdia/minf/stbl/stsd", change), before


def test_the_parameter_set_is_rewritten_as_meant(tmp_path):
    """With the size that it has, but for what is cut off, the movie is as ffmpeg made it."""
    sound = movie(count=10, size=(320, 192))
    same, before = with_movie_size(sound, 320, 192)
    assert before == (320, 192)
    (tmp_path / "same.mov").write_bytes(same)
    (tmp_path / "sound.mov").write_bytes(sound)
    frames = [
        subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / name, "-f", "rawvideo", "-"], capture_output=True, check=True).stdout
        for name in ("same.mov", "sound.mov")
    ]
    assert frames[0] == frames[1] and len(frames[0]) == 10 * 320 * 192 * 3 // 2


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_movie_whose_parameter_set_claims_a_huge_picture_is_refused_and_costs_no_memory(takeset, tmp_path, command):
    data, before = with_movie_size(movie(count=30, size=(320, 180)), 14400, 14400)
    assert before == (320, 192)  # whole macroblocks
    (tmp_path / "pour.mov").write_bytes(data)
    if command == "run":
        arguments = ["run", tmp_path / "pour.mov", "--output", tmp_path / "out"]
    else:
        arguments = ["inspect", tmp_path / "pour.mov", "--json"]
    code, peak, seconds = measured(BINARY, *arguments)
    assert peak < 300 << 20 and seconds < 10, f"{peak >> 20} MiB, {seconds} s"
    assert code == 3
    if command == "run":
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
    else:
        (entry,) = json.loads(takeset(*arguments).stdout)["takes"]
    assert [f["code"] for f in entry["findings"] if f["severity"] == "error"] == ["limit"], entry["findings"]
    assert "14400x14400" in entry["reason"]


# 5. Bundles in archives


def arrays(demo, meta):
    """The digest of every dataset of a take that has one."""
    found = {}
    for group in demo, meta:
        group.visititems(lambda name, item: found.update({f"{group.name}/{name}": item.attrs["sha256"]}) if "sha256" in item.attrs else None)
    return {name.split("/", 3)[-1]: digest for name, digest in found.items()}


@pytest.mark.parametrize("top", ["pour", ""])
@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_a_bundle_in_an_archive_is_what_its_folder_is(takeset, tmp_path, ending, top):
    sound = bundle(count=12)
    contents = {NAMES[part]: data for part, data in sound.parts().items()}
    sound.write(tmp_path / "folder/pour")
    archive = (zipped if ending == "zip" else tarred)(contents, top)
    if not top:
        archive = remade_without_top(contents, ending)
    (tmp_path / "archive").mkdir()
    (tmp_path / f"archive/pour.{ending}").write_bytes(archive)
    takeset.convert(tmp_path / "folder", output=tmp_path / "out1")
    takeset.convert(tmp_path / "archive", output=tmp_path / "out2")
    (one,), (other,) = demos(tmp_path / "out1").values(), demos(tmp_path / "out2").values()
    assert other[0].attrs["reader"] == "realitycam-bundle"
    expected = arrays(*one)
    assert len(expected) > 8 and any("camera_depth" in name for name in expected)
    assert {k: v for k, v in arrays(*other).items() if k != "statistics"} == {k: v for k, v in expected.items() if k != "statistics"}
    assert list(demos(tmp_path / "out2")) == ["pour"]


def remade_without_top(contents, ending):
    """An archive whose members stand at its root."""
    import io
    import tarfile
    import zipfile

    buffer = io.BytesIO()
    if ending == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in contents.items():
                archive.writestr(path, data)
    else:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, data in contents.items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


# 6. Whole numbers that JSON readers cannot hold


HUGE = [2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 1e300]


def whole_numbers(text):
    """Every number without fraction or exponent."""
    found = []
    json.loads(text, parse_int=lambda digits: found.append(int(digits)))
    return found


def record_text(text):
    """The part of a manifest that is the record."""
    return text[text.index('"record":') + 9 : text.index(',\n"record_sha256"')]


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("key", ["imuCount", "encoderCount", "poseCount", "frameCount", "rgbFrameCount", "depthFrameCount", "seed", "other"])
def test_counts_beyond_doubles_are_nowhere_in_the_record(takeset, tmp_path, key, value):
    session = v2()
    session.metadata[key] = value
    write(tmp_path / "session", session.contents())
    takeset.convert(tmp_path / "session", output=tmp_path / "out", check=None)
    assert len(manifest(tmp_path / "out")["record"]["takes"]) == 1
    found = whole_numbers(record_text((tmp_path / "out/manifest.json").read_text()))
    assert found and max(map(abs, found)) < 2**53
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("key", ["frame_count", "depth_keyframe_count", "duration_ms", "resolution"])
def test_counts_of_bundles_beyond_doubles_are_nowhere_in_the_record(takeset, tmp_path, key, value):
    bundle(count=12, **{key: {"width": value, "height": 120} if key == "resolution" else value}).write(tmp_path / "pour")
    takeset.convert(tmp_path / "pour", output=tmp_path / "out", check=None)
    assert len(manifest(tmp_path / "out")["record"]["takes"]) == 1
    found = whole_numbers(record_text((tmp_path / "out/manifest.json").read_text()))
    assert found and max(map(abs, found)) < 2**53
    takeset("verify", tmp_path / "out", check=0)


# 7. Another app's export


def record3d(root, count=12):
    """An export as Record3D makes it: numbers without zeros in front, depth as EXR, poses in the metadata."""
    contents = {f"rgb/{n}.jpg": jpeg(n) for n in range(count)}
    contents |= {f"depth/{n}.exr": b"\x76\x2f\x31\x01\x02\0\0\0" + bytes(500) for n in range(count)}
    metadata = {
        "w": SIZE[0], "h": SIZE[1], "dw": 64, "dh": 48, "fps": 60, "K": [80, 0, 0, 0, 80, 0, 48, 36, 1],
        "poses": [[0, 0, 0, 1, 0.01 * n, 0, 0] for n in range(count)], "frameTimestamps": [n / 60 for n in range(count)],
        "initPose": [0, 0, 0, 1, 0, 0, 0],
    }
    write(root, contents | {"metadata.json": json.dumps(metadata).encode()})


@pytest.mark.parametrize("with_times", [True, False])
def test_an_export_of_record3d_is_not_taken_for_a_session(takeset, tmp_path, with_times):
    root = tmp_path / "in"
    record3d(root / "export")
    if not with_times:
        metadata = json.loads((root / "export/metadata.json").read_text())
        del metadata["frameTimestamps"], metadata["initPose"], metadata["dw"], metadata["dh"]
        (root / "export/metadata.json").write_text(json.dumps(metadata))
    write(root / "session", v1().contents())
    inspected = takeset("inspect", root, "--json")
    readers = {t["id"]: t.get("reader") for t in json.loads(inspected.stdout)["takes"]}
    assert readers["session"] == "stack-session" and readers.get("export") != "stack-session"
    takeset.convert(root, output=tmp_path / "out", check=None)
    entries = {t["id"]: t for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert entries["session"]["outcome"] == "written"
    if "export" in entries:
        assert entries["export"]["reader"] != "stack-session" and entries["export"]["outcome"] != "written"
        assert "poses.json" not in entries["export"]["reason"], "what is missing is told by this app's names"


# 8. Killed while pruning


def files_of(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*.*") if path.is_file()}


@pytest.mark.parametrize("kind", ["remove", "rename"])
def test_a_run_killed_while_it_prunes_resumes_to_a_valid_dataset(takeset, preload, tmp_path, kind):  # noqa: F811
    """Killed before each file it removes or publishes; with or without --prune in the run after it, nothing is linked that is gone."""
    takes, aside, log = tmp_path / "takes", tmp_path / "aside", tmp_path / "log"
    for index in range(8):
        takeset.simulate(takes / f"t{index}", "--variant", "v2", "--seconds", 0.05, "--size", "32x24", "--seed", index)
    takeset.convert(takes, output=tmp_path / "whole")
    aside.mkdir()
    for index in range(0, 8, 2):
        (takes / f"t{index}").rename(aside / f"t{index}")
    kept = [f"t{index}" for index in range(1, 8, 2)]
    begun, number = 0, 0
    while True:
        number += 1
        output = shutil.copytree(tmp_path / "whole", tmp_path / f"out{number}")
        log.unlink(missing_ok=True)
        prune = [BINARY, "run", takes, "--output", output, "--prune"]
        environment = {
            **os.environ, "LD_PRELOAD": str(preload), "FAIL_KIND": kind, "FAIL_BELOW": str(output), "FAIL_AT": str(number), "FAIL_ERRNO": "0", "FAIL_LOG": str(log),
        }
        process = subprocess.Popen(prune, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):  # there is no such call any more
            assert os.waitstatus_to_exitcode(status) == 0 and not log.exists()
            break
        process.kill()
        process.wait()
        begun += files_of(output) != files_of(tmp_path / "whole")
        subprocess.run(prune if number % 2 else prune[:-1], check=True, capture_output=True)
        takeset("verify", output, check=0)
        found = demos(output)
        assert set(kept) <= set(found), number
        assert {path.stem for path in (output / "episodes").iterdir()} == set(found) == {t["id"] for t in manifest(output)["record"]["takes"]}
        if number % 2:
            assert sorted(found) == kept
        assert all(demo["obs/pose"].shape[0] for demo, _ in found.values())
    assert number > (4 if kind == "remove" else 2) and begun > 0, (number, begun)


# 9. One key, two units


def test_depth_in_two_units_has_two_statistics(takeset, tmp_path):
    root = tmp_path / "in"
    for index in range(3):
        session = v1()
        session.depth = {number: (np.frombuffer(data, "<f4") * (1 + index)).tobytes() for number, data in session.depth.items()}
        write(root / f"session_{index}", session.contents())
        scan(count=12 + index, times="time").write(root / f"scan_{index}")
    takeset.convert(root, output=tmp_path / "out", arguments=pipeline(tmp_path, "transforms: [align, split: {group: take, valid: 0.34, seed: 5}]\n"))
    record = manifest(tmp_path / "out")["record"]
    found = [f for f in record["findings"] if f["code"] == "mixed-units" and "camera_depth" in f["message"]]
    assert len(found) == 1 and found[0]["severity"] == "warning"
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        train = [name.decode() for name in file["mask/train"][:]]
        assert 2 <= len(train) < 6
        assert "camera_depth" not in file["stats"]
        for unit in "m", "mm":
            values = []
            for name in train:
                depth = file[f"data/{name}/obs/camera_depth"]
                if depth.attrs["unit"] == unit:
                    values.append(depth[:][file[f"data/{name}/obs/camera_depth_valid"][:] == 1].astype("f8"))
            values = np.concatenate(values)
            stats = {key: item[:] for key, item in file[f"stats/camera_depth@{unit}"].items()}
            assert file[f"stats/camera_depth@{unit}"].attrs["unit"] == unit
            assert stats["count"][0] == values.size > 1000
            assert stats["min"][0] == values.min() and stats["max"][0] == values.max()
            assert stats["mean"][0] == pytest.approx(values.mean(), rel=1e-9) and stats["std"][0] == pytest.approx(values.std(), rel=1e-6)
    assert {"camera_depth@m", "camera_depth@mm"} <= set(record["statistics"]) and "camera_depth" not in record["statistics"]


# 10. Interpolation


def test_linear_alignment_says_what_was_blended(takeset, tmp_path):
    """The value is (1 - w) a + w b of the two readings that are named, at the row's own time."""
    session = v2()
    del session.encoders[9:23]  # a pause in which there is nothing to blend
    entry, demo, meta = converted(takeset, session, tmp_path, arguments=pipeline(tmp_path, "transforms: [align: {method: linear}]\n"))
    stream = meta["streams/joints"]
    first, second, weight, dt, valid = (stream[name][:] for name in ("source_index", "next_index", "weight", "dt_ns", "valid"))
    frames = meta["timestamp_ns"][:] / 1e9
    times = np.array([reading["timestamp"] for reading in session.encoders]) - EPOCH
    angles = unwrapped(session.encoders)
    blended = valid == 1
    between = blended & (first != second)
    assert between.sum() > COUNT / 3 and (valid == 0).any()
    assert (second[between] == first[between] + 1).all() and (dt[between] == 0).all()
    assert (weight[between] > 0).all() and (weight[between] < 1).all()
    single = blended & ~between
    assert (weight[single] == 0).all()
    w = weight[blended, None].astype("f8")
    expected = (1 - w) * angles[first[blended]] + w * angles[second[blended]]
    assert np.abs(demo["obs/joints"][:][blended] - expected).max() < 1e-3
    true_weight = (frames[between] - times[first[between]]) / (times[second[between]] - times[first[between]])
    assert np.abs(weight[between] - true_weight).max() < 1e-3
    # No row is made up: both readings are within the tolerance of the row.
    assert (np.abs(times[first[between]] - frames[between]) <= 0.05 + 1e-4).all()
    assert (np.abs(times[second[between]] - frames[between]) <= 0.05 + 1e-4).all()
    masked = ~blended
    assert (first[masked] == -1).all() and not demo["obs/joints_valid"][:][masked].any()


# 11. A full disk


def test_a_full_disk_names_the_space_of_the_outputs_own_file_system(takeset, tmp_path):
    write(tmp_path / "session", v1().contents())
    unmount = mount_tmpfs(tmp_path / "disk", "1m")
    try:
        (tmp_path / "disk/ballast").write_bytes(bytes(700_000))
        done = takeset("run", tmp_path / "session", "--output", tmp_path / "disk/out", cwd=tmp_path)
        assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
        told = re.search(r"([\d.]+) ?(bytes|kB|KB|KiB|MB|MiB|GB|GiB)[^.\n]* free", done.stderr)
        assert told, done.stderr
        scale = {"b": 1, "k": 1000, "m": 10**6, "g": 10**9}[told[2][0].lower()]
        assert float(told[1]) * scale <= 1.1e6, done.stderr  # the disk of the inputs has more
        assert shutil.disk_usage(tmp_path).free > 10**7
    finally:
        unmount()


# 12. Progressive pictures of many scans


def progressive(width, height, scans):
    """A grey picture, sound and without a warning, of so many scans, each for one coefficient of one component at one depth of bits."""

    def segment(marker, data):
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    def padded(bits):
        bits += "1" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")

    blocks = -(-width // 8) * -(-height // 8)
    runs, left = "", blocks  # the blocks whose coefficients are all zero, in runs of up to 2^14 + ...
    lengths = []
    while left:
        power = min(left.bit_length() - 1, 14)
        run = min(left, 2 ** (power + 1) - 1)
        lengths.append((power, run))
        left -= run
    powers = sorted({power for power, _ in lengths})
    width_of_code = max((len(powers)).bit_length(), 1)
    for power, run in lengths:
        runs += f"{powers.index(power):0{width_of_code}b}" + (f"{run - 2**power:0{power}b}" if power else "")
    counts = bytes(len(powers) if k == width_of_code else 0 for k in range(1, 17))
    data = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    data += segment(0xC2, struct.pack(">BHHB", 8, height, width, 3) + b"".join(bytes([k, 0x11, 0]) for k in (1, 2, 3)))
    data += segment(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0") + segment(0xC4, b"\x10" + counts + bytes(power << 4 for power in powers))
    data += segment(0xDA, b"\3\1\0\2\0\3\0" + b"\0\0\0") + padded("0" * (3 * blocks))
    made = 1
    for high, low in (0, 2), (2, 1), (1, 0):
        for component in 1, 2, 3:
            for coefficient in range(1, 64):
                if made < scans:
                    data += segment(0xDA, bytes([1, component, 0, coefficient, coefficient, high << 4 | low])) + padded(runs)
                    made += 1
    assert made == scans
    return data + b"\xff\xd9"


def test_the_pictures_of_many_scans_are_sound(tmp_path):
    """So that nothing but their number can be against them."""
    import io

    from PIL import Image, ImageFile

    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    for scans in 12, 150, 568:
        image = Image.open(io.BytesIO(progressive(*SIZE, scans)))
        assert image.size == SIZE and image.info.get("progressive") and (np.asarray(image.convert("RGB")) == 128).all()


@pytest.mark.parametrize("scans, refused", [(12, False), (40, False), (150, True), (568, True)])
def test_a_picture_of_many_scans_is_not_decoded(takeset, tmp_path, scans, refused):
    session = v1()
    session.rgb = {**session.rgb, 0: progressive(*SIZE, scans), 5: progressive(*SIZE, scans)}
    entry, demo, meta = converted(takeset, session, tmp_path)
    valid = meta["streams/camera_image/valid"][:]
    if refused:
        assert np.flatnonzero(valid == 0).tolist() == [0, 5] and not demo["obs/camera_image"][5].any()
        found = finding(entry, "image-undecodable")
        assert found["count"] == 2 and "scans" in found["message"]
    else:
        assert valid.all() and (demo["obs/camera_image"][5] == 128).all() and "image-undecodable" not in warnings(entry)


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_large_pictures_of_many_scans_cost_no_time(takeset, tmp_path, command):
    session = v1()
    session.rgb = dict.fromkeys(session.rgb, progressive(4096, 4096, 541))
    session.metadata["rgbResolution"] = [4096, 4096]
    write(tmp_path / "session", session.contents())
    arguments = ["run", tmp_path / "session", "--output", tmp_path / "out"] if command == "run" else ["inspect", tmp_path / "session"]
    code, _, seconds = measured(BINARY, *arguments)
    assert code == 3 and seconds < 8
    if command == "run":
        assert take(tmp_path / "out", "session")["findings"][-1]["code"] == "image-undecodable"


# 13. Datasets of the first format


@pytest.mark.parametrize("sealed", [True, False])
def test_a_dataset_of_the_first_format_is_sent_back_to_its_inputs(takeset, dataset, tmp_path, sealed):
    copy = shutil.copytree(dataset, tmp_path / "copy")
    text = (copy / "manifest.json").read_text()
    assert text.count('"manifest_version":2') == 1
    first = text.replace('"manifest_version":2', '"manifest_version":1')
    digests = [hashlib.sha256(record_text(one).replace("\n", "").encode()).hexdigest() for one in (text, first)]
    assert first.count(digests[0]) == 1
    (copy / "manifest.json").write_text(first.replace(digests[0], digests[1]) if sealed else first)
    done = takeset("verify", copy, check=64)
    assert "rebuild" in done.stderr and "takeset run" in done.stderr and "format 1" in done.stderr


def test_a_file_of_the_first_format_is_sent_back_to_its_inputs(takeset, dataset, tmp_path):
    path = shutil.copy(next((dataset / "episodes").iterdir()), tmp_path / "old.h5")
    with h5py.File(path, "r+") as file:
        file.attrs.modify("format_version", "1.0.0")
    done = takeset("verify", path, check=64)
    assert "rebuild" in done.stderr and "takeset run" in done.stderr


# 14. Inputs that change while they are read


def rewritten(path, data):
    """Other bytes in the same file, with the time of modification that it had."""
    before = path.stat()
    assert before.st_size == len(data)
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def same_length(files):
    """JPEGs with a comment that makes them as long as the longest."""
    longest = max(map(len, files)) + 4
    return [data[:2] + struct.pack(">BBH", 0xFF, 0xFE, longest - len(data) - 2) + b" " * (longest - len(data) - 4) + data[2:] for data in files]


def one_version(entry, demo, versions, shown):
    """That a written take has pictures and digests of one version alone; `shown` gives the version of a picture's number."""
    seen = {shown(number) for number in numbers(demo["obs/camera_image"][:])}
    assert len(seen) == 1, "pictures of two versions"
    digests = {i["path"]: i["sha256"] for i in entry["inputs"]}
    expected = {path: hashlib.sha256(data).hexdigest() for path, data in versions[seen.pop()].items()}
    assert {path: digests[path] for path in expected} == expected, "digests of another version"


def disturbed(takeset, preload, tmp_path, path, versions, shown, kind, share):
    """Runs that stand still at one call of a kind while a take is rewritten; how many failed by it."""
    arguments = ["run", path, "--output", tmp_path / "out", "--jobs", "1"]
    environment = {**os.environ, "LD_PRELOAD": str(preload), "FAIL_KIND": kind, "FAIL_BELOW": str(path), "FAIL_COUNT": str(tmp_path / "count")}
    takeset(*arguments, check=0, env=environment)
    count = int((tmp_path / "count").read_text())
    del environment["FAIL_COUNT"]

    def place(version):
        for name, data in versions[version].items():
            rewritten(path / name if path.is_dir() else path, data)

    failed, tried = 0, [round(1 + (count - 1) * k / share) for k in range(share + 1)]
    assert len(set(tried)) > 5
    for number in tried:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        place(0)
        process = subprocess.Popen(
            [BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**environment, "FAIL_AT": str(number), "FAIL_ERRNO": "0"})
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        place(1)
        process.send_signal(signal.SIGCONT)
        code = process.wait(timeout=60)
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
        if entry["outcome"] == "written":
            assert code == 0
            one_version(entry, demos(tmp_path / "out")[entry["id"]][0], versions, shown)
        else:
            assert code == 3 and entry["findings"][-1]["code"] == "changed-while-reading", (number, count, entry["findings"])
            failed += 1
        takeset(*arguments, check=0)
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
        assert entry["outcome"] == "written"
        one_version(entry, demos(tmp_path / "out")[entry["id"]][0], [None, versions[1]], lambda number: 1)
        assert {shown(number) for number in numbers(demos(tmp_path / "out")[entry["id"]][0]["obs/camera_image"][:])} == {1}
    return failed


def test_a_session_that_is_rewritten_while_it_is_read_is_never_of_two_versions(takeset, preload, tmp_path):
    session = v2(60)
    files = same_length([jpeg(number) for number in [*range(60), *range(1000, 1060)]])
    session.rgb = dict(enumerate(files[:60]))
    write(tmp_path / "session", session.contents())
    versions = [{f"rgb/{n:06d}.jpg": data for n, data in enumerate(half)} for half in (files[:60], files[60:])]
    assert disturbed(takeset, preload, tmp_path, tmp_path / "session", versions, lambda number: int(number >= 1000), "open", 12) > 0


def test_a_movie_that_is_rewritten_while_it_is_read_is_never_of_two_versions(takeset, preload, tmp_path):
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "320x240", "-r", 60, "-i", "-", *ENCODERS["h264"], "-g", 15, "-threads", 1, *BT709]
    pair = [made(".mp4", *arguments, contents=b"".join(picture(first + k, 320, 240) for k in range(120))) for first in (0, 1000)]
    longest = max(map(len, pair)) + 8
    pair = [data + struct.pack(">I4s", longest - len(data), b"free") + bytes(longest - len(data) - 8) for data in pair]
    (tmp_path / "pour.mp4").write_bytes(pair[0])
    versions = [{"pour.mp4": data} for data in pair]
    assert disturbed(takeset, preload, tmp_path, tmp_path / "pour.mp4", versions, lambda number: int(number >= 1000), "pread", 12) > 0
