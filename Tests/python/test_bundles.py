"""Bundles: depth of every kind goes to its frames, parts are found however they came, and what is unsound fails with a sentence."""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import time
import zipfile
import zlib
from fractions import Fraction

import numpy as np
import pytest
from bundles import (
    CONTAINERS, NAMES, STORAGE, box, bundle, changed, close, codes, converted, decoded, deflated, failed_with, fails, form_part,
    input_digest, maps, measured, movie, numbers, pipeline, record, remade, rldp, rotated, same_for_all_jobs, samples, times, together,
    traces,
)
from conftest import BINARY, manifest
from test_record import STATISTICS, validator

SMALL = {"container": "gzip", "layout": "rldp", "size": (8, 6)}


def nearest(stamps, depth_stamps, tolerance=50_000_000):
    """For each frame the number of the nearest depth map, the earlier of two, or -1."""
    found = []
    for stamp in stamps:
        distance, index = min((abs(t - stamp), k) for k, t in enumerate(depth_stamps))
        found.append(index if distance <= tolerance else -1)
    return found


def holds(demo, meta, depth, depth_stamps):
    """Every row has the nearest depth map, as it was written, with what is no distance masked."""
    stream, stamps = meta["streams/camera_depth"], meta["timestamp_ns"][:].tolist()
    expected = nearest(stamps, depth_stamps)
    assert stream["source_index"][:].tolist() == expected
    assert stream["valid"][:].tolist() == [int(index >= 0) for index in expected]
    stored, valid = demo["obs/camera_depth"], demo["obs/camera_depth_valid"]
    assert stored.dtype == np.float32 and stored.shape == (len(stamps), *depth.shape[1:], 1) == valid.shape
    for row, index in enumerate(expected):
        if index < 0:
            assert not stored[row].any() and not valid[row].any()
        else:
            assert stream["dt_ns"][row] == depth_stamps[index] - stamps[row]
            good = np.isfinite(depth[index]) & (depth[index] > 0)
            assert np.array_equal(stored[row, :, :, 0], np.where(good, depth[index], 0))
            assert np.array_equal(valid[row, :, :, 0], good)


def convert(takeset, tmp_path, found, names=NAMES, arguments=()):
    return converted(takeset, found.write(tmp_path / "take", names), arguments)


def reader(tmp_path, **options):
    """Arguments for a pipeline whose reader has these options."""
    return pipeline(tmp_path, {"name": "realitycam-bundle", **{name.replace("_", "-"): value for name, value in options.items()}})


# Depth


@pytest.mark.parametrize("layout", ["headerless", "rldp"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_depth_in_every_container_and_layout_goes_to_its_frames(takeset, tmp_path, container, layout):
    size = (256, 192) if layout == "headerless" else (64, 48)
    found = bundle(count=15, container=container, layout=layout, size=size)
    entry, demo, meta = convert(takeset, tmp_path, found)
    depth = maps(5, *size)
    stamps = [round(Fraction(k, 10) * 10**9) for k in range(5)]
    holds(demo, meta, depth, stamps)

    path = tmp_path / "take/video.mov"
    assert meta["timestamp_ns"][:].tolist() == times(path) and numbers(demo["obs/camera_image"][:]) == list(range(15))
    close(demo["obs/camera_image"][:], decoded(path))
    assert entry["reader"] == "realitycam-bundle" and entry["outcome"] == "written" and codes(entry) == []
    names = {"headerless": {"none": "raw"}, "rldp": {"none": "rldp"}}[layout]
    assert entry["variant"] == names.get(container, container + ("-rldp" if layout == "rldp" else ""))
    inner = rldp(depth, [3 * k / 30 for k in range(5)]) if layout == "rldp" else depth.tobytes()
    assert entry["details"]["depth"] == {
        "container": container, "layout": layout, "keyframes": 5, "width": size[0], "height": size[1], "bytes_inflated": len(inner),
        "sha256_inflated": hashlib.sha256(inner).hexdigest(), "alignment": "timestamps" if layout == "rldp" else "every-third",
    }
    described = {p["name"]: (p["bytes"], p["sha256"]) for p in entry["details"]["parts"]}
    assert described == {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in found.parts().items()}
    assert entry["details"]["samples"] == 15 and entry["details"]["codec"] == "h264"


WORKED = np.array([[[0.5, 1, 1.5], [2, 2.5, 3]], [[0.5, 1, np.nan], [0, 2.5, 5]]], "<f4")
WORKED_DEFLATE = bytes.fromhex("636060b067606800e20340cce0c0c0a000c40e400c17af67000390f8020700")


def test_the_worked_example_of_the_indexed_layout(takeset, tmp_path):
    inner = rldp(WORKED)
    assert len(inner) == 88 and hashlib.sha256(inner).hexdigest() == "3c9952d8974210b0b3367a749f5bf148d034996cf723e22e6d0ae400f50361fa"
    found = bundle(count=6, keyframes=2, **SMALL)
    found.depth_data = gzip.compress(inner)
    entry, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, WORKED, [0, 100_000_000])
    assert demo["obs/camera_depth"][3].reshape(-1).tolist() == [0.5, 1, 0, 0, 2.5, 5]
    assert demo["obs/camera_depth_valid"][3].reshape(-1).tolist() == [1, 1, 0, 0, 1, 1]
    details = entry["details"]["depth"]
    assert details["bytes_inflated"] == 88
    assert details["sha256_inflated"] == hashlib.sha256(inner).hexdigest() and (details["width"], details["height"]) == (3, 2)


def test_the_worked_example_without_a_header_has_no_size_that_is_known(takeset, tmp_path):
    assert zlib.decompress(WORKED_DEFLATE, -15) == WORKED.tobytes()
    found = bundle(count=6, keyframes=2, **SMALL)
    found.depth_data = WORKED_DEFLATE
    fails(takeset, found.write(tmp_path / "bad"), "depth-undecodable")


@pytest.mark.parametrize("size", [(256, 192), (320, 240), (384, 288), (640, 480)])
def test_sizes_without_a_header_are_those_of_the_sensors(takeset, tmp_path, size):
    entry, demo, meta = convert(takeset, tmp_path, bundle(count=6, size=size))
    assert (entry["details"]["depth"]["width"], entry["details"]["depth"]["height"]) == size
    holds(demo, meta, maps(2, *size), [0, 100_000_000])


def test_a_deflate_stream_may_look_like_zlib(takeset, tmp_path):
    depth = maps(2)
    head, rest = depth.tobytes()[:0x9C], depth.tobytes()[0x9C:]
    found = bundle(count=6)
    found.depth_data = b"\x78" + struct.pack("<HH", 0x9C, 0xFFFF ^ 0x9C) + head + deflated(rest)  # a stored block with odd padding
    assert zlib.decompress(found.depth_data, -15) == depth.tobytes() and int.from_bytes(found.depth_data[:2]) % 31 == 0
    entry, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, depth, [0, 100_000_000])
    assert entry["variant"] == "deflate"


@pytest.mark.parametrize("make", [
    lambda inner: gzip.compress(inner[:100]) + gzip.compress(inner[100:]),
    lambda inner: gzip.compress(inner) + b"garbage",
    lambda inner: deflated(inner) + b"x",
    lambda inner: zlib.compress(inner) + bytes(7),
], ids=["two gzip members", "bytes after gzip", "a byte after deflate", "bytes after zlib"])
def test_more_than_one_stream_is_read_with_a_warning(takeset, tmp_path, make):
    found = bundle(count=6)
    found.depth_data = make(maps(2).tobytes())
    entry, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert len(codes(entry, "warning", "info")) == 1


def test_bytes_after_the_last_map_and_maps_in_any_order_are_accepted(takeset, tmp_path):
    depth = maps(5, 8, 6)
    found = bundle(count=15, **SMALL)
    found.depth_data = gzip.compress(rldp(depth, offsets=[k * 192 for k in (3, 1, 4, 1, 0)]) + b"tail")
    _, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, depth[[3, 1, 4, 1, 0]], [k * 100_000_000 for k in range(5)])


@pytest.mark.parametrize("seconds", [
    [0, 0.1, 0.2, 0.3, 0.4],
    [0.0123456789, 0.11, 0.2371, 0.3, 0.46],
    [0, 0.033, 0.066, 0.4, 0.41],
])
def test_indexed_times_are_kept_to_the_nanosecond(takeset, tmp_path, seconds):
    found = bundle(count=15, **SMALL)
    found.depth_data = gzip.compress(rldp(maps(5, 8, 6), seconds))
    _, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, maps(5, 8, 6), [round(Fraction(s) * 10**9) for s in seconds])


def test_of_two_equally_near_maps_a_frame_gets_the_earlier(takeset, tmp_path):
    found = bundle(count=5, keyframes=2, fps=25, **SMALL)
    found.depth_data = gzip.compress(rldp(maps(2, 8, 6), [0, 0.08]))
    _, demo, meta = convert(takeset, tmp_path, found)
    assert meta["streams/camera_depth/source_index"][:].tolist() == [0, 0, 1, 1, -1]
    assert meta["streams/camera_depth/dt_ns"][1] == -40_000_000


def test_a_map_exactly_50_ms_away_still_counts(takeset, tmp_path):
    found = bundle(count=5, keyframes=1, fps=20, **SMALL)
    found.depth_data = gzip.compress(rldp(maps(1, 8, 6), [0]))
    entry, _, meta = convert(takeset, tmp_path, found)
    assert meta["streams/camera_depth/source_index"][:].tolist() == [0, 0, -1, -1, -1]
    assert codes(entry) == ["frame-rate"] and entry["findings"][0]["severity"] == "info"


@pytest.mark.parametrize("keyframes", [14, 10, 16, 1])
def test_headerless_depth_of_another_count_is_masked(takeset, tmp_path, keyframes):
    entry, demo, meta = convert(takeset, tmp_path, bundle(keyframes=keyframes))
    assert "depth-alignment-ambiguous" in codes(entry, "warning")
    assert entry["details"]["depth"]["alignment"] == "ambiguous" and entry["details"]["depth"]["keyframes"] == keyframes
    assert not meta["streams/camera_depth/valid"][:].any() and set(meta["streams/camera_depth/source_index"][:]) == {-1}
    assert not demo["obs/camera_depth"][:].any() and not demo["obs/camera_depth_valid"][:].any()


def test_indexed_depth_of_another_count_is_not_ambiguous(takeset, tmp_path):
    entry, demo, meta = convert(takeset, tmp_path, bundle(keyframes=10, layout="rldp", container="gzip"))
    holds(demo, meta, maps(10), [k * 100_000_000 for k in range(10)])
    assert codes(entry) == []


def test_a_reader_may_assume_that_no_keyframe_was_missed(takeset, tmp_path):
    entry, demo, meta = convert(takeset, tmp_path, bundle(keyframes=10), arguments=reader(tmp_path, ambiguous_depth="assume"))
    holds(demo, meta, maps(10), [k * 100_000_000 for k in range(10)])


def test_a_dropped_frame_moves_later_depth_with_its_samples(takeset, tmp_path):
    ticks = tuple(20 * i for i in range(46) if i != 7)
    found = bundle(video=movie(ticks=ticks))
    _, demo, meta = convert(takeset, tmp_path, found)
    stamps = meta["timestamp_ns"][:].tolist()
    holds(demo, meta, maps(15), stamps[::3])
    assert len(meta["gaps"]) == 1


def test_at_60_frames_a_second_depth_ends_at_150_maps(takeset, tmp_path):
    found = bundle(count=460, fps=60, video=movie(count=460, fps=60, size=(96, 72)), resolution={"width": 96, "height": 72})
    entry, demo, meta = converted(takeset, found.write(tmp_path / "take"), pipeline(tmp_path, decimate={"every": 6}))
    assert codes(entry) == ["frame-rate"] and entry["details"]["depth"]["keyframes"] == 150
    index, rows = meta["streams/camera_depth/source_index"][:], meta["source_index"][:]
    within = rows <= 447
    assert np.array_equal(index[within], rows[within] // 3) and not meta["streams/camera_depth/dt_ns"][:][within].any()
    assert set(index[rows > 450]) == {-1}


@pytest.mark.parametrize("codec, b_frames", [("hevc", 0), ("hevc", 3), ("h264", 3)])
def test_depth_follows_presentation_order(takeset, tmp_path, codec, b_frames):
    _, demo, meta = convert(takeset, tmp_path, bundle(video=movie(codec=codec, b_frames=b_frames), codec=codec, **SMALL))
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))
    holds(demo, meta, maps(15, 8, 6), [k * 100_000_000 for k in range(15)])


# Depth that cannot be read


FLAT = maps(15).tobytes()
FEW = maps(15, 8, 6)

UNREADABLE = {
    "unknown container": b"depth, but of another kind",
    "a gzip that is cut": gzip.compress(FLAT)[:-2000],
    "a gzip without its end": gzip.compress(FLAT)[:-5],
    "a gzip with a wrong sum": gzip.compress(FLAT)[:-8] + bytes(4) + gzip.compress(FLAT)[-4:],
    "a gzip with a wrong size": gzip.compress(FLAT)[:-4] + bytes(4),
    "a deflate stream that is cut": deflated(FLAT)[:-2000],
    "a deflate stream without its end": deflated(FLAT)[:-1],
    "a zlib stream that is cut": zlib.compress(FLAT)[:-2000],
    "one byte too many": deflated(FLAT + b"\0"),
    "one byte too few": deflated(FLAT[:-1]),
    "a size that no sensor has": deflated(maps(15, 255, 192).tobytes()),
    "version 2": gzip.compress(rldp(FEW, version=2)),
    "no keyframes": gzip.compress(rldp(FEW, count=0)),
    "width 0": gzip.compress(rldp(FEW, width=0)),
    "height 0": gzip.compress(rldp(FEW, height=0)),
    "wider than its data": gzip.compress(rldp(FEW, width=9)),
    "1000 by 1000 of which there is nothing": gzip.compress(rldp(FEW, width=1000, height=1000)),
    "more maps than data": gzip.compress(rldp(FEW, count=20)),
    "an offset past the end": gzip.compress(rldp(FEW, offsets=[0] * 14 + [FEW.nbytes - 191])),
    "an offset of 2^32-1": gzip.compress(rldp(FEW, offsets=[2**32 - 1] * 15)),
    "an index that is cut": gzip.compress(rldp(FEW)[:100]),
    "a header that is cut": gzip.compress(b"RLDP\1\0\0"),
    "the last byte missing": gzip.compress(rldp(FEW)[:-1]),
    "the last byte missing, not compressed": rldp(FEW)[:-1],
}


@pytest.fixture(scope="module")
def unreadable(takeset, tmp_path_factory):
    found = {name: bundle(**SMALL, depth_data=data) for name, data in UNREADABLE.items()}
    return together(takeset, tmp_path_factory.mktemp("unreadable"), found, check=3)


@pytest.mark.parametrize("name", UNREADABLE)
def test_depth_that_cannot_be_decoded(unreadable, name):
    assert unreadable[name]["outcome"] == "failed" and codes(unreadable[name], "error") == ["depth-undecodable"]
    assert "depth.gz" in unreadable[name]["reason"]


def test_depth_that_cannot_be_decoded_stops_no_other_take(takeset, tmp_path):
    fails(takeset, bundle(**SMALL, depth_data=UNREADABLE["a gzip that is cut"]).write(tmp_path / "bad"), "depth-undecodable")


def test_maps_without_a_header_of_a_size_that_their_number_does_not_give(takeset, tmp_path):
    fails(takeset, bundle(count=18, keyframes=6, depth_keyframe_count=2).write(tmp_path / "bad"), "depth-undecodable", 2)


@pytest.mark.parametrize("name", ["201 keyframes", "1001 wide", "1001 high"])
def test_depth_over_the_limits(takeset, tmp_path, name):
    found = bundle()
    depth = {"201 keyframes": lambda: maps(201, 8, 6), "1001 wide": lambda: maps(2, 1001, 2), "1001 high": lambda: maps(2, 2, 1001)}[name]()
    found.depth_data = gzip.compress(rldp(depth))
    fails(takeset, found.write(tmp_path / "bad"), "limit")


@pytest.mark.parametrize("options", [dict(width=65535, height=65535), dict(count=2**32 - 1), dict(count=2**31, width=65535, height=65535)])
def test_sizes_that_no_capture_has_cost_nothing(takeset, tmp_path, options):
    found = bundle()
    found.depth_data = gzip.compress(rldp(FEW, **options))
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "bad"), "--output", tmp_path / "out")
    assert code == 3 and peak < 300e6 and seconds < 5
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("limit", "depth-undecodable")


def zeros(mebibytes):
    """Deflated zeros, of which every mebibyte is the same thousand bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start * mebibytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
BOMBS = {
    "deflate": lambda: zeros(4096),
    "gzip": lambda: GZIP_HEAD + zeros(4096) + bytes(8),
    "many gzip members": lambda: gzip.compress(bytes(1 << 20), mtime=0) * 4096,
    "behind a true header": lambda: GZIP_HEAD + deflated_block(rldp(FEW)) + zeros(4096) + bytes(8),
}


def deflated_block(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(takeset, tmp_path, name):
    found = bundle()
    found.depth_data = BOMBS[name]()
    assert len(found.depth_data) < 20971520
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "bad"), "--output", tmp_path / "out")
    entry = record(tmp_path / "out")
    assert code == 3 and entry["findings"][-1]["code"] == "limit", entry["findings"]
    assert peak < 300e6 and seconds < 10


def test_a_map_at_the_end_of_4_gib_is_not_looked_for(takeset, tmp_path):
    found = bundle(depth_keyframe_count=1)
    found.depth_data = deflated_block(rldp(maps(1, 8, 6), offsets=[2**32 - 256])) + zeros(4097)
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "bad"), "--output", tmp_path / "out")
    assert code == 3 and peak < 300e6 and seconds < 3
    failed_with(record(tmp_path / "out"), "depth-undecodable")


def test_flat_depth_is_no_bomb(takeset, tmp_path):
    found = bundle()
    depth = np.full((15, 192, 256), 2, "<f4")
    found.depth_data = gzip.compress(depth.tobytes(), mtime=0)
    assert len(found.depth_data) < depth.nbytes / 500
    entry, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, depth, [k * 100_000_000 for k in range(15)])


@pytest.mark.parametrize("seconds", [
    [float("nan")] * 5, [float("inf")] * 5, [-1, 0, 1, 2, 3], [0, 1e300, 0.1, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1, 0]
])
def test_indexed_times_that_cannot_be_do_no_harm(takeset, tmp_path, seconds):
    found = bundle(count=15, **SMALL)
    found.depth_data = gzip.compress(rldp(maps(5, 8, 6), seconds))
    done = takeset("run", found.write(tmp_path / "take"), "--output", tmp_path / "out")
    assert done.returncode in (0, 3), done.stderr
    entry = record(tmp_path / "out")
    assert entry["findings"] and "internal" not in codes(entry)


@pytest.mark.parametrize("seconds", [[0] * 5, [0, 0.1, 0.1, 0.2, 0.3]])
def test_indexed_times_that_are_equal_are_not_used(takeset, tmp_path, seconds):
    found = bundle(count=15, **SMALL, depth_data=gzip.compress(rldp(maps(5, 8, 6), seconds)))
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert codes(entry) == ["depth-times-unordered"]
    holds(demo, meta, maps(5, 8, 6), [k * 100_000_000 for k in range(5)])


# Parts


@pytest.mark.parametrize("names", [
    NAMES,
    NAMES | {"video": "video.mp4", "depth_data": "video_depth.gz"},
    NAMES | {"depth_data": "depth.bin"},
    NAMES | {"depth_data": "depth_data"},
    {"video": "a.bin", "depth_data": "b.bin", "hash_chain": "c.bin", "metadata": "d.bin"},
    {"video": "1", "depth_data": "2", "hash_chain": "3", "metadata": "4"},
])
@pytest.mark.parametrize("container", ["deflate", "gzip"])
def test_parts_are_found_by_name_or_contents(takeset, tmp_path, names, container):
    found = bundle(count=6, container=container)
    entry, demo, meta = convert(takeset, tmp_path, found, names)
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert codes(entry) == [] and {e["path"] for e in entry["inputs"]} == set(names.values())
    assert {p["name"] for p in entry["details"]["parts"]} == {"video", "depth_data", "hash_chain", "metadata"}
    assert entry["id"] == "take"
    assert entry["input_sha256"] == input_digest({names[part]: data for part, data in found.parts().items()})


def test_the_storage_layout_has_no_metadata(takeset, tmp_path):
    found = bundle()
    found.video = movie(container="mp4")
    entry, demo, meta = convert(takeset, tmp_path, found, STORAGE)
    assert codes(entry, "warning") == ["metadata-missing"] or set(codes(entry, "warning")) == {"metadata-missing", "depth-count-mismatch"}
    holds(demo, meta, maps(15), [k * 100_000_000 for k in range(15)])
    assert entry["verification"]["chain"]["state"] == "sound" and entry["verification"]["assertion"]["state"] == "absent"
    assert {p["name"] for p in entry["details"]["parts"]} == {"video", "depth_data", "hash_chain"}


def archived(kind, path, root, files):
    """A zip or tar of files below a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(root + name, data)
    else:
        with tarfile.open(path, "w") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(root + name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path.read_bytes()


def contents(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("root", ["", "kitchen-7/", "exports/today/kitchen-7/"])
@pytest.mark.parametrize("names", [NAMES, STORAGE], ids=["uploaded", "stored"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_of_a_bundle_converts_as_its_folder(takeset, tmp_path, kind, names, root):
    folder = bundle(checkpoints=(15,), **SMALL).write(tmp_path / "in/plain", names)
    data = archived(kind, tmp_path / f"in/packed.{kind}", root, contents(folder))
    before = contents(tmp_path / "in")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    packed, plain = manifest(tmp_path / "out")["record"]["takes"]
    assert (packed["id"], packed["reader"], packed["outcome"]) == ("packed", "realitycam-bundle", "written")
    assert packed["output"]["content_sha256"] == plain["output"]["content_sha256"]
    for part in "variant", "findings", "streams", "alignment", "steps", "verification":
        assert packed[part] == plain[part], part
    assert packed["inputs"] == [{"path": f"packed.{kind}", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": "archive"}]
    assert contents(tmp_path / "in") == before
    takeset("verify", tmp_path / "out", "--inputs", check=0)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_what_is_wrong_with_a_bundle_is_wrong_in_its_archive_too(takeset, tmp_path, kind):
    parts = contents(bundle(count=6, **SMALL).write(tmp_path / "plain"))
    chain = json.loads(parts["hash_chain.json"])
    chain["final_hash"] = chain["frame_hashes"][1]
    damaged = {
        "broken": parts | {"hash_chain.json": json.dumps(chain).encode()}, "evil": parts | {"../evil": b"x"},
        "incomplete": {name: data for name, data in parts.items() if name != "depth.gz"}, "sound": parts,
    }
    for name, files in damaged.items():
        archived(kind, tmp_path / f"in/{name}.{kind}", "", files)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    broken, evil, incomplete, sound = manifest(tmp_path / "out")["record"]["takes"]
    assert broken["outcome"] == "rejected" and broken["reason"].startswith("verify-hash-chain: ")
    failed_with(evil, "archive-hostile", "../evil")
    failed_with(incomplete, "part-missing", "depth")
    assert sound["outcome"] == "written" and not (tmp_path / "evil").exists()


BODIES = {
    "as sent": lambda found: found.body(),
    "in another order": lambda found: found.body(order=("metadata", "hash_chain", "depth_data", "video")),
    "with a plain boundary": lambda found: found.body(boundary="x"),
    "with an unknown part": lambda found: form_part("b", "thumbnail", "t.jpg", "image/jpeg", b"\xff\xd8\xff") + found.body(boundary="b"),
    "with a part twice": lambda found: form_part("b", "metadata", "metadata.json", "application/json", b"{}") + found.body(boundary="b"),
    "with a boundary that almost stands in the data": lambda found: dataclasses.replace(
        found, video=found.video + box("free", b"\r\n--Bound\r\n--Boundar\r\nBoundary--")).body(boundary="Boundary"),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_upload_as_it_was_received_is_a_bundle(takeset, tmp_path, name):
    found = bundle(count=6)
    body = BODIES[name](found)
    (tmp_path / "0017-kitchen.multipart").write_bytes(body)
    entry, demo, meta = converted(takeset, tmp_path / "0017-kitchen.multipart")
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert entry["id"] == "0017-kitchen" and entry["reader"] == "realitycam-bundle" and entry["outcome"] == "written"
    (source,) = entry["inputs"]
    assert source["path"] == "0017-kitchen.multipart" and source["sha256"] == hashlib.sha256(body).hexdigest()
    parts = {p["name"]: p["sha256"] for p in entry["details"]["parts"]}
    assert parts["depth_data"] == hashlib.sha256(found.depth_data).hexdigest()
    assert entry["verification"]["chain"]["state"] == "sound"


@pytest.mark.parametrize("part", NAMES)
def test_an_upload_that_lacks_a_part(takeset, tmp_path, part):
    (tmp_path / "bad.multipart").write_bytes(bundle(count=6).body(order=[name for name in NAMES if name != part]))
    if part == "hash_chain":
        entry, _, _ = converted(takeset, tmp_path / "bad.multipart")
        assert "chain-absent" in codes(entry, "warning")
    else:
        fails(takeset, tmp_path / "bad.multipart", "part-missing", {"depth_data": "depth"}.get(part, part))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 1])
def test_an_upload_that_broke_off_is_no_take(takeset, tmp_path, share):
    body = bundle(count=6).body(end=False)
    (tmp_path / "bad.multipart").write_bytes(body[: int(len(body) * share) - 20])
    done = takeset.convert(tmp_path / "bad.multipart", output=tmp_path / "out", check=3)
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "internal", done.stderr


@pytest.mark.parametrize("stem", ["bundle", "upload", "body"])
def test_an_upload_of_no_name_is_called_by_its_digest(takeset, tmp_path, stem):
    body = bundle(count=6).body()
    (tmp_path / stem).write_bytes(body)
    entry, _, _ = converted(takeset, tmp_path / stem)
    assert entry["id"] == input_digest({stem: body})[:12]


PART_WORDS = {"video": "video", "depth_data": "depth", "metadata": "metadata"}


@pytest.mark.parametrize("part", PART_WORDS)
def test_a_part_that_is_missing(takeset, tmp_path, part):
    found = bundle(count=6)
    names = {name: file for name, file in NAMES.items() if name != part}
    fails(takeset, found.write(tmp_path / "bad", names), "part-missing", PART_WORDS[part])


@pytest.mark.parametrize("name", ["notes.txt", "notes"])
def test_a_text_is_not_taken_for_depth(takeset, tmp_path, name):
    found = bundle(count=6)
    found.depth_data = None
    directory = found.write(tmp_path / "bad")
    (directory / name).write_text("Größe der Küche\n", "utf-8")
    fails(takeset, directory, "part-missing", "depth")


@pytest.mark.parametrize("part", ["video", "depth_data"])
def test_a_part_that_is_empty(takeset, tmp_path, part):
    found = bundle(count=6)
    setattr(found, part, b"")
    fails(takeset, found.write(tmp_path / "bad"), "part-empty", PART_WORDS[part])


@pytest.mark.parametrize("code", ["part-missing", "part-empty", "depth-undecodable"])
def test_depth_may_be_optional(takeset, tmp_path, code):
    found = bundle(count=6)
    found.depth_data = {"part-missing": None, "part-empty": b"", "depth-undecodable": b"another kind"}[code]
    entry, demo, meta = convert(takeset, tmp_path, found, arguments=reader(tmp_path, depth="optional"))
    assert entry["outcome"] == "written" and entry["variant"] == "no-depth" and codes(entry, "warning") == [code]
    assert list(demo["obs"]) == ["camera_image"] and list(meta["streams"]) == ["camera_image"]


LIMITS = {"video": 104857600, "depth_data": 20971520, "hash_chain": 1048576, "metadata": 102400}


@pytest.mark.parametrize("part", LIMITS)
def test_a_part_over_its_limit(takeset, tmp_path, part):
    directory = bundle(count=6).write(tmp_path / "bad")
    with (directory / NAMES[part]).open("ab") as file:
        if part in ("hash_chain", "metadata"):
            file.write(b" " * (LIMITS[part] + 1 - file.tell()))
        file.truncate(LIMITS[part] + 1)
    fails(takeset, directory, "input-too-large", LIMITS[part] + 1, LIMITS[part])


@pytest.mark.parametrize("part", ["hash_chain", "metadata"])
def test_a_part_of_just_its_limit(takeset, tmp_path, part):
    directory = bundle(count=6).write(tmp_path / "take")
    with (directory / NAMES[part]).open("ab") as file:
        file.write(b" " * (LIMITS[part] - file.tell()))
    entry, _, _ = converted(takeset, directory)
    assert codes(entry) == []


# Metadata


@pytest.mark.parametrize("text", [b"{", b'{"started_at": ', b"not JSON", b"{,}", b"\xff\xfe{}"])
def test_metadata_that_is_no_json(takeset, tmp_path, text):
    found = bundle(count=6, **SMALL)
    found.metadata = text
    fails(takeset, found.write(tmp_path / "bad"), "json-invalid", "metadata.json")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 20_000, b"[]", b"7", b'{"frame_count": NaN}'])
def test_metadata_of_another_shape(takeset, tmp_path, text):
    found = bundle(count=6)
    found.metadata = text
    takeset.convert(found.write(tmp_path / "bad"), output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("json-invalid", "json-type", "metadata-invalid")


REQUIRED = {
    "started_at": [5, "yesterday"], "ended_at": [None, "2025-11-27"], "duration_ms": ["8333", 1.5], "frame_count": ["45", -1],
    "depth_keyframe_count": [[], "15"], "resolution": ["1920x1080", {"width": 1920}, {"width": "a", "height": 1}], "codec": [7],
    "device_model": [{}], "attestation_level": [None], "hash_chain_final": [12],
}


def without(field, *value):
    found = bundle(count=6, **SMALL)
    del found.metadata[field]
    if value:
        (found.metadata[field],) = value
    return found


@pytest.mark.parametrize("field", REQUIRED)
def test_metadata_must_have_its_fields(takeset, tmp_path, field):
    found = {"absent": without(field)} | {f"of another type {n}": without(field, value) for n, value in enumerate(REQUIRED[field])}
    for name, entry in together(takeset, tmp_path, found, check=3).items():
        assert codes(entry, "error") == ["metadata-invalid"] and field in entry["findings"][-1]["field"], name


@pytest.mark.parametrize("fields", [
    {"started_at": "2025-11-27T10:30:00Z", "ended_at": "2025-11-27T12:30:08+02:00"},
    {"duration_ms": 1540.0},
    {"location": None, "assertion": None, "checkpoints": [], "is_partial": False},
    {"type": "video", "ios_version": "18.1", "new": {"a": [1]}},
    {"codec": "H264"},
    {"device_model": "iPhone 15 Pro", "attestation_level": "unverified"},
])
def test_metadata_may_be_written_in_other_ways(takeset, tmp_path, fields):
    entry, _, _ = convert(takeset, tmp_path, bundle(**SMALL, **fields))
    assert entry["outcome"] == "written" and codes(entry, "error") == []


def other_counts(found):
    found.metadata["depth_keyframe_count"] = 14


def assumed_count(found):
    found.depth_data, found.metadata["depth_keyframe_count"] = deflated(maps(15).tobytes()), 7


MISMATCHES = {
    "depth-count-mismatch": other_counts,
    "depth-count-mismatch, no header": assumed_count,
    "frame-count-mismatch": lambda found: found.metadata.update(frame_count=47),
    "duration-mismatch": lambda found: found.metadata.update(duration_ms=3600),
    "resolution-mismatch": lambda found: found.metadata.update(resolution={"width": 1920, "height": 1440}),
    "codec-mismatch": lambda found: found.metadata.update(codec="hevc"),
    "chain-absent": lambda found: setattr(found, "hash_chain", None),
    "chain-absent, empty": lambda found: setattr(found, "hash_chain", b""),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_what_metadata_says_wrongly_is_a_warning(takeset, tmp_path, name):
    found = bundle(**SMALL)
    MISMATCHES[name](found)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert name.split(",")[0] in codes(entry, "warning") and entry["outcome"] == "written"
    holds(demo, meta, maps(15, 8, 6) if found.depth_data[:2] == b"\x1f\x8b" else maps(15), [k * 100_000_000 for k in range(15)])
    (told,) = json.loads(takeset("inspect", tmp_path / "take", "--json", check=0).stdout)["takes"]
    assert name.split(",")[0] in [f["code"] for f in told["findings"]]


def test_two_seconds_of_difference_are_none(takeset, tmp_path):
    entry, _, _ = convert(takeset, tmp_path, bundle(duration_ms=3400, **SMALL))
    assert codes(entry) == []


@pytest.mark.parametrize("fps, told", [(24, False), (25, False), (30, False), (20, True), (60, True)])
def test_another_frame_rate_is_told(takeset, tmp_path, fps, told):
    entry, _, _ = convert(takeset, tmp_path, bundle(fps=fps, **SMALL))
    assert codes(entry) == (["frame-rate"] if told else [])


@pytest.mark.parametrize("fields", [{"frame_count": 601}, {"duration_ms": 20001}, {"depth_keyframe_count": 201}, {"device_model": " "}])
def test_strict_is_as_strict_as_the_server(takeset, tmp_path, fields):
    found = bundle(**SMALL, **fields)
    found.hash_chain, found.metadata["hash_chain_final"] = None, "AAAA"
    entry, _, _ = convert(takeset, tmp_path, found)
    assert entry["outcome"] == "written"
    output = tmp_path / "strict"
    takeset.convert(tmp_path / "take", output=output, arguments=reader(tmp_path, strict=True), check=3)
    (field,) = fields
    assert field in record(output)["reason"]


# The movie in a bundle


MOVIE_FAILURES = {
    "movie-unfinished": lambda: movie()[:50_000],
    "movie-truncated": lambda: movie(extra=("-movflags", "+faststart"))[:50_000],
    "not-a-movie": lambda: b"#EXTM3U\n#EXTINF:10,\nsecret.ts\n",
    "codec-unsupported": lambda: movie(count=6, codec="mpeg4"),
    "no-video": lambda: changed(movie(), "moov/trak", lambda payload: None),
}


@pytest.mark.parametrize("code", MOVIE_FAILURES)
def test_a_bundle_fails_as_its_movie_does(takeset, tmp_path, code):
    fails(takeset, bundle(video=MOVIE_FAILURES[code](), **SMALL).write(tmp_path / "bad"), code)


def test_a_bundle_whose_movie_is_corrupt(takeset, tmp_path):
    data = bytearray(movie())
    for offset, size in samples(movie())[16:40:3]:
        data[offset : offset + 4] = b"\x00\xff\xff\xff"
    fails(takeset, bundle(video=bytes(data), **SMALL).write(tmp_path / "bad"), "movie-corrupt", 45)


def test_the_limits_of_movies_hold_for_bundles(takeset, tmp_path):
    takeset.convert(bundle(**SMALL).write(tmp_path / "bad"), output=tmp_path / "out", arguments=reader(tmp_path, max_samples=44), check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] == "limit"


def test_a_bundles_movie_is_stored_upright(takeset, tmp_path):
    entry, demo, _ = convert(takeset, tmp_path, bundle(video=rotated(movie(), 180), **SMALL))
    assert demo["obs/camera_image"].attrs["rotation_applied"] == 180 == entry["details"]["rotation"]
    assert numbers(demo["obs/camera_image"][:], 180) == list(range(45))


def test_a_bundles_edit_list_is_followed(takeset, tmp_path):
    found = bundle(count=24, video=remade(movie(), before=("-ss", "0.7")), **SMALL)
    _, demo, meta = convert(takeset, tmp_path, found)
    assert meta["timestamp_ns"][:].tolist() == times(tmp_path / "take/video.mov")
    assert numbers(demo["obs/camera_image"][:]) == list(range(21, 45))
    holds(demo, meta, maps(8, 8, 6), [k * 100_000_000 for k in range(8)])


# Privacy


@pytest.mark.parametrize("location", [
    {"latitude": 48.137154, "longitude": 11.576124}, {"latitude": 48.137154, "longitude": 11.576124, "altitude": 519.25, "accuracy": 4.75},
    {"lat": 48.137154, "lng": 11.576124},
])
def test_places_in_metadata_do_not_reach_the_output(takeset, tmp_path, location):
    entry, _, _ = convert(takeset, tmp_path, bundle(location=location, **SMALL))
    assert codes(entry, "info", "warning") == ["location-removed"]
    assert traces(tmp_path / "out", "48.13", "11.57", "519.25") == []


def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path):
    found = bundle(location={"latitude": 48.137154, "longitude": 11.576124}, **SMALL)
    entry, _, _ = convert(takeset, tmp_path, found, arguments=reader(tmp_path, keep_location=True))
    assert codes(entry) == [] and "48.137154" in json.dumps(entry["details"]["location"])


def test_places_and_names_in_the_movie_do_not_reach_the_output(takeset, tmp_path):
    video = movie(extra=("-metadata", "location=+48.1374+011.5755/", "-metadata", "artist=Ada Example"))
    entry, _, _ = convert(takeset, tmp_path, bundle(video=video, device_name="Ada's iPhone", **SMALL))
    assert {"location-removed", "name-removed"} <= set(codes(entry, "info", "warning"))
    assert traces(tmp_path / "out", "48.13", "11.57", "Ada Example", "Ada's iPhone") == []


# Depth that is a scene


X, Y = np.meshgrid(np.arange(32, dtype=np.float32), np.arange(24, dtype=np.float32))
SCENES = {
    "uniform": lambda i: np.full((24, 32), 2.0),
    "gradual": lambda i: 2 + 0.01 * i + 2 * X / 32 + 0.5 * Y / 24,
    "a splice": lambda i: (2 if i < 7 else 10) + X / 32 + 0.5 * Y / 24,
    "an insert": lambda i: (8 if i == 5 else 2) + 0.5 * X / 32,
}
METRICS = {  # scene, every: samples, consistency, coherence, stability, suspicious keyframes, real
    ("uniform", 1): (15, 1, 1, 1, [], True), ("uniform", 10): (2, 1, 1, 1, [], True),
    ("gradual", 1): (15, 0.995660, 1, 1, [], True), ("gradual", 10): (2, 0.982422, 1, 1, [], True),
    ("a splice", 1): (15, 0.933333, 0.923077, 0.928571, [7], False), ("a splice", 10): (2, 0.5, 1, 0, [10], False),
    ("an insert", 1): (15, 0.866667, 1, 0.857143, [5, 6], False), ("an insert", 10): (2, 1, 1, 1, [], True),
}


def scene(name, count=43):
    found = bundle(count=count, **SMALL)
    found.metadata["depth_keyframe_count"] = 15
    found.depth_data = gzip.compress(rldp(np.stack([SCENES[name](i) for i in range(15)]).astype("<f4")))
    return found


@pytest.mark.parametrize("name, every", METRICS)
def test_depth_is_measured_as_the_app_measures_it(takeset, tmp_path, name, every):
    steps = pipeline(tmp_path, verify_depth={"every": every})
    entry, _, _ = convert(takeset, tmp_path, scene(name), arguments=steps)
    found, (count, consistency, coherence, stability, suspicious, real) = entry["details"]["depth_metrics"], METRICS[name, every]
    assert found["samples"] == count and found["suspicious_keyframes"] == suspicious and found["is_likely_real_scene"] is real
    measured_values = [found["depth_consistency"], found["motion_coherence"], found["scene_stability"]]
    assert measured_values == pytest.approx([consistency, coherence, stability], abs=6e-7)
    assert ("depth-suspicious" in codes(entry)) is (not real) and entry["outcome"] == "written"


def test_depth_is_measured_at_every_keyframe_by_default_and_only_when_asked(takeset, tmp_path):
    directory = scene("an insert", count=45).write(tmp_path / "take")
    entry, _, _ = converted(takeset, directory)
    assert "depth_metrics" not in entry["details"]
    takeset.convert(directory, output=tmp_path / "measured", arguments=pipeline(tmp_path, verify_depth={}))
    assert record(tmp_path / "measured")["details"]["depth_metrics"]["suspicious_keyframes"] == [5, 6]


@pytest.mark.parametrize("options", [{"on-miss": "reject"}, {"on-miss": "reject", "consistency": 0, "coherence": 0, "stability": 0}])
def test_depth_that_is_no_scene_may_be_rejected(takeset, tmp_path, options):
    arguments = pipeline(tmp_path, verify_depth=options)
    takeset.convert(scene("a splice").write(tmp_path / "take"), output=tmp_path / "out", arguments=arguments, check=0)
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "rejected" and entry["reason"].startswith("verify-depth: ")
    assert entry["details"]["depth_metrics"]["suspicious_keyframes"] == [7]


def test_a_threshold_may_be_higher(takeset, tmp_path):
    arguments = pipeline(tmp_path, verify_depth={"consistency": 0.999, "on-miss": "reject"})
    takeset.convert(scene("gradual").write(tmp_path / "take"), output=tmp_path / "out", arguments=arguments, check=0)
    assert record(tmp_path / "out")["outcome"] == "rejected"


@pytest.mark.parametrize("count, every", [(3, 1), (30, 10)])
def test_fewer_than_two_maps_say_nothing(takeset, tmp_path, count, every):
    found = bundle(count=count, **SMALL)
    entry, _, _ = convert(takeset, tmp_path, found, arguments=pipeline(tmp_path, verify_depth={"every": every, "on-miss": "finding"}))
    assert "depth-metrics-unavailable" in codes(entry) and entry["outcome"] == "written"


# The same bytes


def test_jobs_do_not_show(takeset, tmp_path):
    root = tmp_path / "in"
    bundle().write(root / "one")
    bundle(container="gzip", layout="rldp").write(root / "two")
    bundle(video=movie(codec="hevc", b_frames=3), codec="hevc", keyframes=10).write(root / "three", NAMES | {"depth_data": "depth.bin"})
    bundle(count=6).write(root / "four", STORAGE)
    (root / "five.multipart").write_bytes(bundle(count=12).body())
    broken = bundle(count=6)
    broken.hash_chain = b"{"
    broken.write(root / "six")
    unreadable = bundle(count=6)
    unreadable.depth_data = b"no depth"
    unreadable.write(root / "seven")
    assert same_for_all_jobs(takeset, root, check=3) == 5
    found = manifest(tmp_path / "out1")
    assert {t["id"]: t["outcome"] for t in found["record"]["takes"]} == {
        "one": "written", "two": "written", "three": "written", "four": "written", "five": "written", "six": "rejected", "seven": "failed"
    }
    validator("manifest.schema.json").validate(found)
    takeset("verify", tmp_path / "out1", "--inputs", check=0)
    assert "nothing to do" in takeset.convert(root, output=tmp_path / "out1", check=None).stdout


def test_a_plan_is_what_a_run_writes(takeset, tmp_path):
    root = tmp_path / "in"
    bundle(**SMALL).write(root / "indexed")
    bundle(count=6).write(root / "headerless")
    bundle(count=6).write(root / "stored", STORAGE)
    (root / "sent.multipart").write_bytes(bundle(count=12, **SMALL).body())
    (root / "turned.mov").write_bytes(rotated(movie(size=(720, 480), count=3), 90, 720, 480))
    takeset.convert(root, output=tmp_path / "out")
    def layout(found):
        return sorted((d["path"], d["dtype"], d["shape"]) for d in found["datasets"])

    written = {t["id"]: layout(t["output"]) for t in manifest(tmp_path / "out")["record"]["takes"]}
    shapes = {name: [one for one in found if one[0] != STATISTICS] for name, found in written.items()}
    assert all(len(found) == len(shapes[name]) + 1 for name, found in written.items())
    plan = json.loads(takeset("plan", root, "--json", check=0).stdout)["takes"]
    assert {t["id"]: layout(t) for t in plan} == shapes and len(shapes) == 5
    assert dict((path, shape) for path, _, shape in shapes["turned"])["/data/demo_0/obs/camera_image"] == [3, 240, 160, 3]


@pytest.mark.parametrize("part", NAMES)
def test_links_are_not_followed(takeset, tmp_path, part):
    directory = bundle(count=6, **SMALL).write(tmp_path / "take")
    (directory / NAMES[part]).rename(tmp_path / "elsewhere")
    (directory / NAMES[part]).symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=None)
    entry = record(tmp_path / "out")
    if part == "hash_chain" and entry["outcome"] == "written":
        assert entry["verification"]["chain"]["state"] == "absent"
    else:
        assert entry["findings"][-1]["code"] in ("not-a-regular-file", "part-missing")


def test_a_bundle_of_no_name_that_has_a_link_keeps_its_name(takeset, tmp_path):
    directory = bundle(count=6, **SMALL).write(tmp_path / "bundle")
    (directory / "depth.gz").rename(tmp_path / "elsewhere")
    (directory / "depth.gz").symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["id"] == "bundle"
    failed_with(record(tmp_path / "out"), "not-a-regular-file", "depth.gz")


def test_a_pipe_is_not_waited_for(takeset, tmp_path):
    directory = bundle(count=6, **SMALL).write(tmp_path / "take")
    (directory / "depth.gz").unlink()
    os.mkfifo(directory / "depth.gz")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("not-a-regular-file", "part-missing")


def test_strays_of_the_file_system_are_no_parts(takeset, tmp_path):
    directory = bundle(count=6).write(tmp_path / "take")
    for name in ".DS_Store", "._video.mov", "Thumbs.db":
        (directory / name).write_bytes(b"\0\5\x16\7")
    entry, _, _ = converted(takeset, directory)
    assert entry["outcome"] == "written" and codes(entry, "error", "warning") == []


def test_a_bundle_is_not_searched_for_movies(takeset, tmp_path):
    bundle(count=6).write(tmp_path / "in/kitchen-1")
    (tmp_path / "in/loose.mov").write_bytes(movie(count=6))
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = {t["id"]: t["reader"] for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert found == {"kitchen-1": "realitycam-bundle", "loose": "slow-motion-video"}


@pytest.mark.parametrize("strays", [["metadata.json"], ["metadata.json", "depth.bin"]])
def test_movies_beside_strangers_are_no_bundle(takeset, tmp_path, strays):
    (tmp_path / "in").mkdir()
    for name in "a.mov", "b.mov":
        (tmp_path / "in" / name).write_bytes(movie(count=6))
    for name in strays:
        (tmp_path / "in" / name).write_bytes(b'{"album": 1}')
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["reader"], t["outcome"]) for t in found] == [(name, "slow-motion-video", "written") for name in "ab"]


def test_a_stray_chain_does_not_swallow_the_bundles_below_it(takeset, tmp_path):
    found = bundle(count=6, **SMALL)
    for name in "kitchen-1", "kitchen-2":
        found.write(tmp_path / "in" / name)
    (tmp_path / "in/hash_chain.json").write_bytes(found.parts()["hash_chain"])
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    takes = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["outcome"]) for t in takes] == [("kitchen-1", "written"), ("kitchen-2", "written")]


def test_depth_that_is_cut_off_meanwhile_ends_the_take(tmp_path):
    noise = np.random.default_rng(0).random((15, 480, 640), np.float32)
    directory = bundle(depth_data=zlib.compress(noise.tobytes(), 0)).write(tmp_path / "take")
    command = [BINARY, "run", directory, "--output", tmp_path / "out", "--progress", "none"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and not list((tmp_path / "out").glob("episodes/.*.partial")):
                time.sleep(0.001)
            os.truncate(directory / "depth.gz", 4_000_000)
            assert process.wait(20) == 3
        finally:
            process.kill()
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] in ("changed-while-reading", "depth-undecodable")


def test_bundles_are_never_touched(takeset, tmp_path):
    found = bundle(count=6)
    convert(takeset, tmp_path, found)
    takeset("inspect", tmp_path / "take")
    assert {p.name: p.read_bytes() for p in (tmp_path / "take").iterdir()} == {NAMES[part]: data for part, data in found.parts().items()}


def test_memory_does_not_grow_with_the_bundle(tmp_path):
    peaks = []
    for count in 150, 900:
        found = bundle(count=count, keyframes=150 if count > 450 else 50, video=movie(count=count, extra=("-preset", "ultrafast")), **SMALL)
        found.write(tmp_path / str(count))
        code, peak, _ = measured(BINARY, "run", tmp_path / str(count), "--output", tmp_path / f"out{count}")
        assert code == 0
        peaks.append(peak)
        shutil.rmtree(tmp_path / f"out{count}")
    assert peaks[1] <= 1.3 * peaks[0], peaks
