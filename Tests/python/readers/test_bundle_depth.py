"""Bundles: depth of every container and layout is paired with its frames."""

import gzip
import hashlib
import struct
import zlib
from fractions import Fraction

import numpy as np
import pytest
from bundle_checks import convert, holds, reader
from bundles import CONTAINERS, SMALL, bundle, deflated, maps, rldp
from conversions import Together, converted, pipeline
from images import close, numbers
from outputs import codes
from videos import decoded, times, video_file


LAYOUTS = {"headerless": (256, 192), "rldp": (64, 48)}  # with the size of their maps
MORE_STREAMS = {
    "two gzip members": lambda inner: gzip.compress(inner[:100]) + gzip.compress(inner[100:]),
    "bytes after gzip": lambda inner: gzip.compress(inner) + b"garbage",
    "a byte after deflate": lambda inner: deflated(inner) + b"x",
    "bytes after zlib": lambda inner: zlib.compress(inner) + bytes(7),
}


@pytest.fixture(scope="module")
def forms(takeset, tmp_path_factory):
    """Bundles with depth in every form."""
    found = {
        f"{container}-{layout}": bundle(count=15, container=container, layout=layout, size=size)
        for container in CONTAINERS for layout, size in LAYOUTS.items()
    }
    found |= {name: bundle(count=6, depth_data=make(maps(2).tobytes())) for name, make in MORE_STREAMS.items()}
    return Together(takeset, tmp_path_factory.mktemp("forms"), found)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_depth_in_every_container_and_layout_goes_to_its_frames(forms, container, layout):
    size = LAYOUTS[layout]
    found = bundle(count=15, container=container, layout=layout, size=size)
    entry, demo, meta = forms[f"{container}-{layout}"]
    depth = maps(5, *size)
    stamps = [round(Fraction(k, 10) * 10**9) for k in range(5)]
    holds(demo, meta, depth, stamps)

    path = forms.inputs / f"{container}-{layout}/video.mov"
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


def test_a_deflate_stream_may_look_like_zlib(takeset, tmp_path):
    depth = maps(2)
    head, rest = depth.tobytes()[:0x9C], depth.tobytes()[0x9C:]
    found = bundle(count=6)
    found.depth_data = b"\x78" + struct.pack("<HH", 0x9C, 0xFFFF ^ 0x9C) + head + deflated(rest)  # a stored block with unusual padding
    assert zlib.decompress(found.depth_data, -15) == depth.tobytes() and int.from_bytes(found.depth_data[:2]) % 31 == 0
    entry, demo, meta = convert(takeset, tmp_path, found)
    holds(demo, meta, depth, [0, 100_000_000])
    assert entry["variant"] == "deflate"


@pytest.mark.parametrize("name", MORE_STREAMS)
def test_more_than_one_stream_is_read_with_a_warning(forms, name):
    entry, demo, meta = forms[name]
    holds(demo, meta, maps(2), [0, 100_000_000])
    assert len(codes(entry, "warning", "info")) == 1


# Which map belongs to which frame


INDEXED = {
    "regular": [0, 0.1, 0.2, 0.3, 0.4], "irregular": [0.0123456789, 0.11, 0.2371, 0.3, 0.46], "with a pause": [0, 0.033, 0.066, 0.4, 0.41],
}
EQUAL = {"all equal": [0] * 5, "two equal": [0, 0.1, 0.1, 0.2, 0.3]}
IMPOSSIBLE = {
    "not numbers": [float("nan")] * 5, "endless": [float("inf")] * 5, "negative": [-1, 0, 1, 2, 3], "huge": [0, 1e300, 0.1, 0.2, 0.3],
    "backwards": [0.4, 0.3, 0.2, 0.1, 0],
}
CODECS = {"hevc": 0, "hevc, B-frames": 3, "h264, B-frames": 3}


def indexed(count, depth, seconds=None, offsets=None, after=b"", **options):
    return bundle(count=count, **SMALL, **options, depth_data=gzip.compress(rldp(depth, seconds, offsets=offsets) + after))


@pytest.fixture(scope="module")
def timed(takeset, tmp_path_factory):
    """Bundles whose depth is indexed by these times or in another way, and bundles with another number of maps without times."""
    found = {name: indexed(15, maps(5, 8, 6), seconds) for name, seconds in (INDEXED | EQUAL | IMPOSSIBLE).items()}
    found["any order"] = indexed(15, maps(5, 8, 6), offsets=[k * 192 for k in (3, 1, 4, 1, 0)], after=b"tail")
    found["equally near"] = indexed(5, maps(2, 8, 6), [0, 0.08], keyframes=2, fps=25)
    found["50 ms away"] = indexed(5, maps(1, 8, 6), [0], keyframes=1, fps=20)
    found |= {f"{keyframes} maps": bundle(keyframes=keyframes) for keyframes in (14, 10, 16, 1)}
    found["10 indexed maps"] = bundle(keyframes=10, layout="rldp", container="gzip")
    found["dropped"] = bundle(video=video_file(ticks=tuple(20 * i for i in range(46) if i != 7)))
    for name, b_frames in CODECS.items():
        codec = name[:4]
        found[name] = bundle(video=video_file(codec=codec, b_frames=b_frames), codec=codec, **SMALL)
    return Together(takeset, tmp_path_factory.mktemp("timed"), found, check=None)


@pytest.mark.parametrize("name", INDEXED)
def test_indexed_times_are_kept_to_the_nanosecond(timed, name):
    _, demo, meta = timed[name]
    holds(demo, meta, maps(5, 8, 6), [round(Fraction(s) * 10**9) for s in INDEXED[name]])


@pytest.mark.parametrize("keyframes", [14, 10, 16, 1])
def test_headerless_depth_of_another_count_is_masked(timed, keyframes):
    entry, demo, meta = timed[f"{keyframes} maps"]
    assert "depth-alignment-ambiguous" in codes(entry, "warning")
    assert entry["details"]["depth"]["alignment"] == "ambiguous" and entry["details"]["depth"]["keyframes"] == keyframes
    assert not meta["streams/camera_depth/valid"][:].any() and set(meta["streams/camera_depth/source_index"][:]) == {-1}
    assert not demo["obs/camera_depth"][:].any() and not demo["obs/camera_depth_valid"][:].any()


def test_indexed_depth_of_another_count_is_not_ambiguous(timed):
    entry, demo, meta = timed["10 indexed maps"]
    holds(demo, meta, maps(10), [k * 100_000_000 for k in range(10)])
    assert codes(entry) == ["stream-incomplete"] and "before the last frame" in entry["findings"][0]["message"]


def test_a_reader_may_assume_that_no_keyframe_is_missing(takeset, tmp_path):
    entry, demo, meta = convert(takeset, tmp_path, bundle(keyframes=10), arguments=reader(tmp_path, ambiguous_depth="assume"))
    holds(demo, meta, maps(10), [k * 100_000_000 for k in range(10)])


def test_a_dropped_frame_moves_later_depth_with_its_samples(timed):
    _, demo, meta = timed["dropped"]
    holds(demo, meta, maps(15), meta["timestamp_ns"][:].tolist()[::3])
    assert len(meta["gaps"]) == 1


@pytest.mark.slow
def test_at_60_frames_a_second_depth_ends_at_150_maps(takeset, tmp_path):
    found = bundle(count=460, fps=60, video=video_file(count=460, fps=60, size=(96, 72)), resolution={"width": 96, "height": 72})
    entry, demo, meta = converted(takeset, found.write(tmp_path / "take"), pipeline(tmp_path, decimate={"every": 6}))
    assert codes(entry) == ["frame-rate"] and entry["details"]["depth"]["keyframes"] == 150
    index, rows = meta["streams/camera_depth/source_index"][:], meta["source_index"][:]
    within = rows <= 447
    assert np.array_equal(index[within], rows[within] // 3) and not meta["streams/camera_depth/dt_ns"][:][within].any()
    assert set(index[rows > 450]) == {-1}


@pytest.mark.parametrize("name", CODECS)
def test_depth_follows_presentation_order(timed, name):
    _, demo, meta = timed[name]
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))
    holds(demo, meta, maps(15, 8, 6), [k * 100_000_000 for k in range(15)])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_indexed_times_that_cannot_be_do_no_harm(timed, name):
    entry, _, _ = timed[name]
    assert entry["findings"] and "internal" not in codes(entry)


@pytest.mark.parametrize("name", EQUAL)
def test_indexed_times_that_are_equal_are_not_used(timed, name):
    entry, demo, meta = timed[name]
    assert codes(entry) == ["depth-times-unordered"]
    holds(demo, meta, maps(5, 8, 6), [k * 100_000_000 for k in range(5)])
