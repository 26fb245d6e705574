"""Bundles: depth that cannot be decoded, and depth that claims too much."""

import gzip
import os
import signal
import zlib

import numpy as np
import pytest
from bundle_checks import convert, holds
from bundles import SMALL, bundle, deflated, maps, rldp
from command import BINARY, measured
from conversions import failed_with, fails, together
from outputs import codes, record
from system import stopped

FLAT = maps(15).tobytes()
FEW = maps(15, 8, 6)
UNREADABLE = {  # DepthBlobTests have more of them
    "a gzip that is cut": gzip.compress(FLAT)[:-2000],
    "a deflate stream without its end": deflated(FLAT)[:-1],
    "an offset past the end": gzip.compress(rldp(FEW, offsets=[0] * 14 + [FEW.nbytes - 191])),
    "the last byte missing, not compressed": rldp(FEW)[:-1],
}
TOO_MUCH = {"201 keyframes": maps(201, 8, 6), "1001 wide": maps(2, 1001, 2), "1001 high": maps(2, 2, 1001)}


@pytest.fixture(scope="module")
def unreadable(takeset, tmp_path_factory):
    data = UNREADABLE | {name: gzip.compress(rldp(depth)) for name, depth in TOO_MUCH.items()}
    found = {name: bundle(**SMALL, depth_data=one) for name, one in data.items()} | {"good": bundle(**SMALL)}
    found = together(takeset, tmp_path_factory.mktemp("unreadable"), found, check=3)
    assert found.pop("good")["outcome"] == "written"
    return found


@pytest.mark.parametrize("name", UNREADABLE)
def test_depth_that_cannot_be_decoded(unreadable, name):
    assert unreadable[name]["outcome"] == "failed" and codes(unreadable[name], "error") == ["depth-undecodable"]
    assert "depth.gz" in unreadable[name]["reason"]


@pytest.mark.parametrize("name", TOO_MUCH)
def test_depth_over_the_limits(unreadable, name):
    failed_with(unreadable[name], "limit")


def test_maps_without_a_header_of_a_size_that_their_number_does_not_give(takeset, tmp_path):
    fails(takeset, bundle(count=18, keyframes=6, depth_keyframe_count=2).write(tmp_path / "bad"), "depth-undecodable", 2)


# Limits and decompression bombs


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


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(takeset, tmp_path, name):
    found = bundle()
    found.depth_data = BOMBS[name]()
    assert len(found.depth_data) < 20971520
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "bad"), "--output", tmp_path / "out")
    entry = record(tmp_path / "out")
    assert code == 3 and entry["findings"][-1]["code"] == "limit", entry["findings"]
    assert peak < 300e6 and seconds < 10


@pytest.mark.slow
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


def test_depth_that_is_cut_off_meanwhile_ends_the_take(failing_look, tmp_path):
    """Cut as the episode's file is about to be created."""
    noise = np.random.default_rng(0).random((15, 480, 640), np.float32)
    directory = bundle(depth_data=zlib.compress(noise.tobytes(), 0)).write(tmp_path / "take")
    command = [BINARY, "run", directory, "--output", tmp_path / "out", "--progress", "none", "--isolate", "never"]
    process = stopped(command, failing_look, "open", f"{tmp_path}/out/episodes/", 1)
    assert process.returncode is None
    os.truncate(directory / "depth.gz", 4_000_000)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 3
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] in ("changed-while-reading", "depth-undecodable")
