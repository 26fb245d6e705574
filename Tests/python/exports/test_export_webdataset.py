"""Tar shards for webdataset: samples, their files and numbers, names, shards, splits."""

import io
import json
import re
import struct
import tarfile
import zlib
from collections import defaultdict

import numpy as np
import pytest
from export_checks import incomplete_takes, refuses, with_side_camera
from geometry_oracle import Runs
from images import frame_code
from outputs import demos
from PIL import Image
from scene_oracle import export, meters, record, times
from stack_sessions import v1, v2
from videos import video_file

PARTS = {"split-episodes": {"at": 0.25}}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """Sessions with depth maps and with a glove, a video, a scan with intrinsics and confidence."""
    found = Runs(takeset, tmp_path_factory.mktemp("webdataset"), {"glove": v2(), "phone": v1(), "pour.mov": video_file(count=6)})
    small = "--seconds", 0.3, "--size", "96x72", "--depth-size", "32x24"
    takeset("simulate", "stray-scanner", "--output", found.inputs / "scan", *small, check=0)
    return found


@pytest.fixture(scope="module")
def dataset(runs):
    return runs.output({"actions": {}})


def samples(*shards):
    """Samples by key: consecutive files whose names are the same up to the first dot, and no key twice."""
    found, last = {}, None
    for shard in shards:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                assert member.isreg() and (member.mtime, member.uid, member.gid, member.mode) == (0, 0, 0, 0o644)
                assert member.uname == member.gname == ""
                key, _, ending = member.name.partition(".")
                if key != last:
                    assert key not in found
                    found[key], last = {}, key
                assert ending and ending not in found[key]
                found[key][ending] = archive.extractfile(member).read()
            last = None
    return found


def shards(output):
    return sorted(output.glob("*.tar"))


def check_sample(sample, demo, meta, take, row):
    """Everything that the dataset has of a row is in its sample."""
    stamps, clock = times(meta)
    numbers = json.loads(sample["json"])
    assert (numbers["take"], numbers["row"], numbers["source_index"]) == (take, row, meta["source_index"][row])
    assert (numbers["timestamp_ns"], numbers["clock"]) == (stamps[row], clock) and isinstance(numbers["timestamp_ns"], int)
    assert np.array_equal(np.array(Image.open(io.BytesIO(sample["png"]))), demo["obs/camera_image"][row])
    keys = {"take", "row", "source_index", "timestamp_ns", "clock", "valid"}
    valid = {"camera_image": True}
    for name in "pose", "joints", "depth_point":
        if name in demo["obs"]:
            stored = demo[f"obs/{name}"][row]
            assert np.array_equal(np.array(numbers[name], "f4"), stored)
            valid[name] = True if name == "pose" else demo[f"obs/{name}_valid"][row].astype(bool).tolist()
            keys.add(name)
    if "actions" in demo:
        valid["action"] = bool(demo["actions_valid"][row])
        if valid["action"]:
            assert np.array_equal(np.array(numbers["action"], "f4"), demo["actions"][row])
        else:  # no row follows the last one of a recording
            assert numbers["action"] is None and row == len(demo["actions"]) - 1
        keys.add("action")
    if "camera_depth" in demo["obs"]:
        depth = Image.open(io.BytesIO(sample["depth.png"]))
        expected = meters(demo)[row] * 1000.0
        assert depth.mode == "I;16" and np.abs(np.array(depth) - expected).max() <= 0.5 and expected.max() > 500
        assert np.array_equal(np.array(depth) > 0, demo["obs/camera_depth_valid"][row, ..., 0] > 0)
        valid["camera_depth"] = True
    if "camera_depth_confidence" in demo["obs"]:
        assert np.array_equal(np.array(Image.open(io.BytesIO(sample["confidence.png"]))), demo["obs/camera_depth_confidence"][row, ..., 0])
        valid["camera_depth_confidence"] = True
    for name in "intrinsics", "camera_depth_intrinsics":
        if name in meta:
            key = name.removeprefix("camera_")
            assert numbers[key] == meta[name][row].tolist()
            keys.add(key)
    assert numbers["valid"] == valid and set(numbers) == keys
    endings = {"camera_image": "png", "camera_depth": "depth.png", "camera_depth_confidence": "confidence.png"}
    assert set(sample) == {"json"} | {endings[name] for name in valid if name in endings}


def test_a_sample_has_everything_of_its_row(dataset, takeset, tmp_path):
    export(takeset, dataset, "webdataset", tmp_path / "out")
    assert [p.name for p in shards(tmp_path / "out")] == ["shard-000000.tar"]
    found = samples(*shards(tmp_path / "out"))
    expected = [f"{take}-{row:06d}" for take, (demo, meta) in demos(dataset).items() for row in range(len(meta["source_index"]))]
    assert list(found) == expected and len(expected) == 104
    for take, (demo, meta) in demos(dataset).items():
        for row in range(len(meta["source_index"])):
            check_sample(found[f"{take}-{row:06d}"], demo, meta, take, row)
    assert "Depth is rounded to whole millimeters." in record(tmp_path / "out")["lost"]
    assert [frame_code(np.array(Image.open(io.BytesIO(found[f"phone-{row:06d}"]["png"])))) for row in range(40)] == list(range(40))


def test_its_library_reads_it(dataset, takeset, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    export(takeset, dataset, "webdataset", tmp_path / "out", "--shard-rows", 50, "--image", "jpeg")
    data = webdataset.WebDataset([str(p) for p in shards(tmp_path / "out")], shardshuffle=False).decode("rgb8")
    count = 0
    for sample in data:
        take, row = sample["json"]["take"], sample["json"]["row"]
        assert sample["__key__"] == f"{take}-{row:06d}" and sample["jpg"].shape[2] == 3 and sample["jpg"].dtype == np.uint8
        count += 1
    assert count == 104


# Images


@pytest.mark.parametrize("encoding, ending", [("jpeg", "jpg"), ("png", "png")])
def test_stored_files_keep_their_bytes(runs, takeset, tmp_path, encoding, ending):
    dataset = runs.output(writer={"image": encoding})
    export(takeset, dataset, "webdataset", tmp_path / "out", "--image", "png" if encoding == "jpeg" else "jpeg", "--quality", 30)
    found = samples(*shards(tmp_path / "out"))
    for take, (demo, _) in demos(dataset).items():
        for row, data in enumerate(demo["obs/camera_image"][:]):
            assert found[f"{take}-{row:06d}"][ending] == data.tobytes()
    assert found["phone-000003"].get("jpg") == (v1().rgb[3] if encoding == "jpeg" else None)


def test_jpeg_files_have_the_quality_that_is_asked_for(dataset, takeset, tmp_path):
    sizes = []
    for quality in 30, 95:
        export(takeset, dataset, "webdataset", tmp_path / f"out{quality}", "--image", "jpeg", "--quality", quality, "--episodes", "phone")
        found = samples(*shards(tmp_path / f"out{quality}"))
        reference = io.BytesIO()
        Image.new("RGB", (8, 8)).save(reference, "JPEG", quality=quality)
        for row, pixels in enumerate(demos(dataset)["phone"][0]["obs/camera_image"][:]):
            image = Image.open(io.BytesIO(found[f"phone-{row:06d}"]["jpg"]))
            assert image.quantization == Image.open(io.BytesIO(reference.getvalue())).quantization
            assert np.abs(np.array(image).astype(int) - pixels).mean() < (12 if quality == 30 else 3)
        sizes.append(sum(len(sample["jpg"]) for sample in found.values()))
        assert f"Images are compressed as JPEG of quality {quality}." in record(tmp_path / f"out{quality}")["lost"]
    assert sizes[0] < 0.6 * sizes[1]


def test_several_cameras_have_their_names(dataset, takeset, tmp_path):
    export(takeset, with_side_camera(dataset, tmp_path / "set"), "webdataset", tmp_path / "out", "--episodes", "phone")
    for row in 0, 39:
        sample = samples(*shards(tmp_path / "out"))[f"phone-{row:06d}"]
        assert set(sample) == {"camera_image.png", "side_image.png", "depth.png", "json"}
        pixels = demos(dataset)["phone"][0]["obs/camera_image"][row]
        for ending, expected in ("camera_image.png", pixels), ("side_image.png", 255 - pixels):
            assert np.array_equal(np.array(Image.open(io.BytesIO(sample[ending]))), expected)
        assert json.loads(sample["json"])["valid"]["side_image"] is True


# Depth


def test_depth_in_millimeters_is_exact(runs, takeset, tmp_path):
    dataset = runs.output({"resample-depth": {"unit": "mm"}})
    export(takeset, dataset, "webdataset", tmp_path / "out", "--episodes", "phone,scan")
    found = samples(*shards(tmp_path / "out"))
    for take in "phone", "scan":
        for row, expected in enumerate(demos(dataset)[take][0]["obs/camera_depth"][..., 0]):
            assert np.array_equal(np.array(Image.open(io.BytesIO(found[f"{take}-{row:06d}"]["depth.png"]))), expected)
    assert not any("millimeters" in sentence for sentence in record(tmp_path / "out")["lost"])


def test_depth_beyond_16_bits_is_unknown_and_counted(takeset, tmp_path):
    found = v1()
    far = np.frombuffer(found.depth[0], "<f4").copy()
    far[[7, 100]] = 65.6, 70
    found.depth[0] = far.tobytes()
    dataset = Runs(takeset, tmp_path / "takes", {"phone": found}).output()
    export(takeset, dataset, "webdataset", tmp_path / "out")
    stored = demos(dataset)["phone"][0]["obs/camera_depth"][..., 0]
    assert (stored > 65.535).sum() >= 2
    assert f"{(stored > 65.5355).sum()} depth values above 65.535 m are 0." in record(tmp_path / "out")["lost"]
    sample = samples(*shards(tmp_path / "out"))["phone-000000"]
    assert np.array_equal(np.array(Image.open(io.BytesIO(sample["depth.png"]))) == 0, (stored[0] > 65.5) | (stored[0] == 0))


# Incomplete rows


def test_rows_without_a_value_have_null_and_a_mask(takeset, tmp_path):
    dataset = incomplete_takes(takeset, tmp_path / "takes").output({"actions": {"joints": "absolute"}})
    export(takeset, dataset, "webdataset", tmp_path / "out")
    found, seen = samples(*shards(tmp_path / "out")), defaultdict(int)
    for take, (demo, meta) in demos(dataset).items():
        for row in range(len(meta["source_index"])):
            sample = found[f"{take}-{row:06d}"]
            numbers = json.loads(sample["json"])
            assert ("png" in sample) == numbers["valid"]["camera_image"] == bool(meta["streams/camera_image/valid"][row])
            assert (numbers["action"] is not None) == numbers["valid"]["action"] == bool(demo["actions_valid"][row])
            known = demo["obs/joints_valid"][row].astype(bool).tolist()
            assert numbers["valid"]["joints"] == [v is not None for v in numbers["joints"]] == known
            for name in "camera_image", "action":
                seen[name] += not numbers["valid"][name]
            seen["joints"] += not all(numbers["valid"]["joints"])
    assert seen["camera_image"] == 3 and seen["action"] > 3 and seen["joints"] > 3
    assert "3 images are missing in the dataset, and their files in the samples." in record(tmp_path / "out")["lost"]


# Names and shards


@pytest.mark.parametrize("rows", [1, 7, 40, 103, 104, 105])
def test_shards_have_the_rows_that_are_asked_for(dataset, takeset, tmp_path, rows):
    export(takeset, dataset, "webdataset", tmp_path / "out", "--shard-rows", rows, "--image", "jpeg", "--name", "train set")
    names = [p.name for p in shards(tmp_path / "out")]
    assert names == [f"train set-{k:06d}.tar" for k in range(-(-104 // rows))]
    counts = [len(samples(p)) for p in shards(tmp_path / "out")]
    assert counts[:-1] == [rows] * (len(counts) - 1) and sum(counts) == 104
    described = record(tmp_path / "out")["shards"]
    assert [(e["file"], e["samples"]) for e in described] == list(zip(names, counts))
    for shard, entry in zip(shards(tmp_path / "out"), described):
        assert list(samples(shard)) == [f"{e['take']}-{e['first_row'] + k:06d}" for e in entry["episodes"] for k in range(e["rows"])]


def test_dots_of_ids_become_underscores(runs, takeset, tmp_path):
    dataset = runs.output(PARTS)
    assert "phone.0" in demos(dataset)
    export(takeset, dataset, "webdataset", tmp_path / "out", "--episodes", "phone")
    found = samples(*shards(tmp_path / "out"))
    assert "phone_0-000000" in found and "phone_2-000001" in found and all(re.fullmatch(r"phone_\d-\d{6}", key) for key in found)
    assert json.loads(found["phone_1-000000"]["json"])["take"] == "phone.1"


def test_ids_that_would_be_the_same_are_refused(takeset, tmp_path):
    takes = Runs(takeset, tmp_path / "takes", {"cup.1": v2(), "cup_1": v2(), "cup-1": v2()})
    sentence = refuses(takeset, takes.output(), "webdataset", tmp_path / "out")
    assert "cup.1" in sentence and "cup_1" in sentence and "--episodes" in sentence
    export(takeset, takes.output(), "webdataset", tmp_path / "out", "--episodes", "cup.1,cup-1")
    assert len(samples(*shards(tmp_path / "out"))) == 80


def test_long_and_foreign_names(takeset, tmp_path):
    long, foreign = "session_" + "x" * 110, "küche_7"
    takes = Runs(takeset, tmp_path / "takes", {long: v2(), foreign: v2()})
    ids = sorted(demos(takes.output()))
    export(takeset, takes.output(), "webdataset", tmp_path / "out")
    found = samples(*shards(tmp_path / "out"))
    assert {key.rpartition("-")[0] for key in found} == set(ids) and long in ids and len(found) == 80
    assert {json.loads(sample["json"])["take"] for sample in found.values()} == set(ids)


def test_the_parts_of_a_split_have_shards_of_their_own(takeset, tmp_path):
    takes = Runs(takeset, tmp_path / "takes", {f"take{k}": v2(12 + k) for k in range(10)})  # equal ones would stay together
    dataset = takes.output({"split": {"valid": 0.2, "test": 0.1, "group": "take", "seed": 3}})
    export(takeset, dataset, "webdataset", tmp_path / "out", "--by-split", "--shard-rows", 50)
    manifest = json.loads((dataset / "manifest.json").read_text())["record"]["splits"]
    for part, count in ("train", 7), ("valid", 2), ("test", 1):
        found = samples(*sorted((tmp_path / "out").glob(f"shard-{part}-*.tar")))
        assert {key.rpartition("-")[0] for key in found} == set(manifest[part]) and len(manifest[part]) == count
        assert len(found) == sum(12 + int(take.removeprefix("take")) for take in manifest[part])
        assert len(list((tmp_path / "out").glob(f"shard-{part}-*.tar"))) == -(-len(found) // 50)


# The output


def test_headers_are_ustar(dataset, takeset, tmp_path):
    """Checksums, and an end mark of two blocks of zeros."""
    export(takeset, dataset, "webdataset", tmp_path / "out", "--episodes", "phone")
    data = (tmp_path / "out/shard-000000.tar").read_bytes()
    at, count = 0, 0
    while any(header := data[at : at + 512]):
        assert header[257:265] == b"ustar\x0000" and header[156:157] == b"0" and header[345:] == bytes(167)
        assert int(header[148:154], 8) == sum(header[:148]) + 8 * 32 + sum(header[156:])
        size = int(header[124:135], 8)
        at += 512 + -(-size // 512) * 512
        count += 1
    assert count == 3 * 40 and data[at:] == bytes(1024)


def test_png_files_are_sound(dataset, takeset, tmp_path):
    export(takeset, dataset, "webdataset", tmp_path / "out", "--episodes", "phone")
    data = samples(*shards(tmp_path / "out"))["phone-000000"]["depth.png"]
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        assert zlib.crc32(data[at + 4 : at + 8 + length]) == struct.unpack_from(">I", data, at + 8 + length)[0]
        at += 12 + length
    assert struct.unpack_from(">IIBB", data, 16) == (64, 48, 16, 0)
