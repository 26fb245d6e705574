"""Videos: every row is its own frame at its own time."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from conversions import Together, pipeline
from images import close, numbers
from video_checks import convert
from videos import FRAGMENTS, changed, decoded, made, probe, remade, times, times_and_unit, video_file

STEADY = {
    "30 fps": dict(fps=30),
    "60 fps": dict(fps=60, container="mp4"),
    "120 fps": dict(fps=120),
    "240 fps, steps of 2 and 3 ticks": dict(fps=240),
    "30 fps, fine ticks": dict(fps=30, timescale=90000, container="mp4"),
    "60 fps, fine ticks": dict(fps=60, timescale=90000),
    "120 fps, fine ticks": dict(fps=120, timescale=90000, container="mp4"),
    "240 fps, fine ticks": dict(fps=240, timescale=90000),
    "29.97 fps": dict(fps="30000/1001", timescale=30000),
    "120 fps, B-frames": dict(fps=120, b_frames=3),
    "240 fps, B-frames": dict(fps=240, b_frames=2, container="mp4"),
    "HEVC": dict(fps=60, codec="hevc"),
    "HEVC, B-frames": dict(fps=120, codec="hevc", timescale=90000, b_frames=3, container="mp4"),
    "HEVC called hev1": dict(fps=30, codec="hevc", container="mp4", extra=("-tag:v", "hev1")),
    "index first": dict(fps=60, extra=("-movflags", "+faststart")),
    "fragments": dict(fps=60, **FRAGMENTS),
}


def file_name(name, settings):
    return f"{name}.{settings.get('container', 'mov')}"


@pytest.fixture(scope="module")
def steady(takeset, tmp_path_factory):
    found = {file_name(name, settings): video_file(**settings) for name, settings in STEADY.items()}
    return Together(takeset, tmp_path_factory.mktemp("steady"), found)


@pytest.mark.parametrize("name", STEADY)
def test_every_row_is_its_frame_at_its_time(steady, name):
    settings = STEADY[name]
    path = steady.inputs / file_name(name, settings)
    entry, demo, meta = steady[path.name]
    expected, unit = times_and_unit(path)
    assert list(meta["timestamp_ns"][:]) == expected
    assert list(meta["source_index"][:]) == list(range(45)) == numbers(demo["obs/camera_image"][:])
    assert meta["gaps"].shape == (0, 2)
    close(demo["obs/camera_image"][:], decoded(path))

    stream = meta["streams/camera_image"]
    assert not stream["dt_ns"][:].any() and stream["valid"][:].all()
    assert list(stream["source_index"][:]) == list(range(45))
    assert list(demo["obs"]) == ["camera_image"] and "obs/pose" not in demo
    assert meta["timestamp_ns"].attrs["clock"] == "media-time"
    assert "unix_origin_ns" not in meta["timestamp_ns"].attrs

    assert entry["reader"] == "slow-motion-video" and entry["outcome"] == "written"
    details = entry["details"]
    rate = float(Fraction(settings["fps"]))
    snapped = rate if rate in (60, 120, 240) else None
    assert entry["variant"] == (f"{rate:.0f}fps" if snapped else None) and details["nominal_fps"] == snapped
    assert details["measured_fps"] == pytest.approx(rate, rel=0.005)
    assert details["codec"] == settings.get("codec", "h264") and details["coded_size"] == [160, 120]
    assert details["time_base"] == unit
    assert details["samples"] == 45 and details["rotation"] == 0 and details["time_base_meaning"] == "capture-real-time"
    assert details["variable_rate"] is False and details["color"]
    (described,) = entry["streams"]
    assert described["name"] == "camera_image" and described["samples"] == 45 and described["rate_hz"] == pytest.approx(rate, rel=0.005)


@pytest.mark.parametrize("fps, timescale, missing", [(60, 600, [1, 2, 3]), (120, 600, [7]), (240, 600, [5, 6, 20]), (30, 90000, [10, 30])])
def test_frames_that_were_dropped_are_gaps_at_true_times(takeset, tmp_path, fps, timescale, missing):
    kept = [i for i in range(45) if i not in missing]
    ticks = tuple(round(i * timescale / fps) for i in kept)
    entry, demo, meta, path = convert(takeset, tmp_path, video_file(ticks=ticks, fps=fps, timescale=timescale))
    rows = len(kept)
    stamps = meta["timestamp_ns"][:]
    assert list(stamps) == times(path) and numbers(demo["obs/camera_image"][:]) == list(range(rows))
    long = [row for row in range(rows - 1) if ticks[row + 1] - ticks[row] > 1.5 * timescale / fps + 1]
    assert long and meta["gaps"][:].tolist() == [[row, stamps[row + 1] - stamps[row]] for row in long]
    assert entry["details"]["measured_fps"] == pytest.approx(fps, rel=0.01)


def test_a_gap_begins_above_one_and_a_half_periods_and_a_tick(takeset, tmp_path):
    ticks = (0, 10, 20, 30, *range(46, 200, 10), 213, *range(223, 400, 10))  # 60 fps in 600ths: 16 is none, 17 is one
    _, _, meta, _ = convert(takeset, tmp_path, video_file(ticks=ticks, fps=60))
    assert len(meta["gaps"]) == 1
    row, step = meta["gaps"][0]
    assert ticks[row + 1] - ticks[row] == 17 and step == meta["timestamp_ns"][row + 1] - meta["timestamp_ns"][row]


@pytest.mark.parametrize("codec, b_frames", [("h264", 0), ("h264", 3), ("hevc", 3)])
def test_a_variable_rate_keeps_every_time(takeset, tmp_path, codec, b_frames):
    ticks = tuple(int(t) for t in np.cumsum([0, *(10 + 7 * i % 13 for i in range(39))]))
    entry, demo, meta, path = convert(takeset, tmp_path, video_file(ticks=ticks, codec=codec, b_frames=b_frames))
    assert list(meta["timestamp_ns"][:]) == times(path) == [round(Fraction(t, 600) * 10**9) for t in ticks]
    assert numbers(demo["obs/camera_image"][:]) == list(range(40))
    assert entry["details"]["variable_rate"] is True and entry["details"]["nominal_fps"] is None


def test_a_minute_that_was_not_recorded_is_one_gap(takeset, tmp_path):
    ticks = (*range(0, 100, 10), *range(36100, 36300, 10))
    entry, _, meta, _ = convert(takeset, tmp_path, video_file(ticks=ticks, fps=60))
    assert meta["gaps"][:].tolist() == [[9, round(Fraction(36010, 600) * 10**9)]]
    assert entry["details"]["nominal_fps"] == 60


EDITS = {
    "cut": (remade, dict(fps=30), dict(before=("-ss", "0.7")), 21),
    "cut, B-frames": (remade, dict(fps=30, b_frames=3), dict(before=("-ss", "0.7")), 21),
    "cut, HEVC": (remade, dict(fps=60, codec="hevc", b_frames=3), dict(before=("-ss", "0.4")), 24),
    "late start": (remade, dict(fps=30), dict(before=("-itsoffset", "0.5")), 0),
}


@pytest.fixture(scope="module")
def edited(takeset, tmp_path_factory):
    found = {f"{name}.mov": make(video_file(**settings), **options) for name, (make, settings, options, _) in EDITS.items()}
    found |= {f"{name}.mov": make() for name, make in NO_EDITS.items()}
    return Together(takeset, tmp_path_factory.mktemp("edited"), found)


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_list_is_followed(edited, name):
    *_, first = EDITS[name]
    path = edited.inputs / f"{name}.mov"
    entry, demo, meta = edited[path.name]
    expected = times(path)
    assert list(meta["timestamp_ns"][:]) == expected
    assert numbers(demo["obs/camera_image"][:]) == list(range(first, first + len(expected)))
    assert list(meta["source_index"][:]) == list(range(len(expected)))
    assert entry["details"]["edit_list"] is True
    close(demo["obs/camera_image"][:], decoded(path))


def earlier(payload, ticks=100):
    """A table of composition offsets in which every frame is shown this much earlier."""
    (count,) = struct.unpack_from(">I", payload, 4)
    entries = struct.iter_unpack(">Ii", payload[8:])
    return struct.pack(">II", 1 << 24, count) + b"".join(struct.pack(">Ii", n, offset - ticks) for n, offset in entries)


def without_edits():
    return changed(video_file(b_frames=3), "moov/trak/edts", lambda payload: None)


NO_EDITS = {
    "removed": without_edits,
    "times before zero": lambda: changed(without_edits(), "moov/trak/mdia/minf/stbl/ctts", earlier),
    "negative offsets": lambda: remade(video_file(b_frames=3), "-movflags", "negative_cts_offsets", "-use_editlist", "0"),
}


@pytest.mark.parametrize("name", NO_EDITS)
def test_without_an_edit_list_the_first_frame_is_still_the_start(edited, name):
    entry, demo, meta = edited[f"{name}.mov"]
    assert list(meta["timestamp_ns"][:]) == times(edited.inputs / f"{name}.mov") and meta["timestamp_ns"][0] == 0
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))
    assert entry["details"]["edit_list"] is False


def test_the_origin_is_the_first_frames_media_time(takeset, tmp_path):
    _, _, meta, path = convert(takeset, tmp_path, remade(video_file(), before=("-itsoffset", "0.5")))
    stream = probe(path, "-show_streams")["streams"][0]
    assert stream["start_pts"] != 0
    assert meta["timestamp_ns"].attrs["origin_ns"] == round(stream["start_pts"] * Fraction(stream["time_base"]) * 10**9)


def test_audio_is_skipped(takeset, tmp_path):
    (tmp_path / "video.mov").write_bytes(video_file())
    intact = ("-f", "lavfi", "-i", "sine=duration=1.5", "-i", tmp_path / "video.mov", "-c:v", "copy", "-map", "0", "-map", "1")
    entry, demo, meta, path = convert(takeset, tmp_path, made(".mov", *intact))
    assert numbers(demo["obs/camera_image"][:]) == list(range(45)) and list(meta["timestamp_ns"][:]) == times(path)


def test_one_frame_is_a_take(takeset, tmp_path):
    entry, demo, meta, _ = convert(takeset, tmp_path, video_file(count=1))
    assert demo["obs/camera_image"].shape == (1, 120, 160, 3) and list(meta["timestamp_ns"][:]) == [0]
    assert entry["details"]["nominal_fps"] is None and entry["variant"] is None


def test_times_have_their_tick_and_the_nominal_rate_as_attributes(takeset, tmp_path):
    _, _, meta, _ = convert(takeset, tmp_path, video_file(count=12, fps=120), "pour.mov")
    attributes = meta["timestamp_ns"].attrs
    assert attributes["clock"] == "media-time" and float(attributes["nominal_rate_hz"]) == 120
    # Every time is a multiple of the time base, which divides a second.
    tick = int(attributes["tick_ns"])
    base = round(1e9 / tick)
    assert abs(tick - 1e9 / base) < 1
    assert all(abs(t * base / 1e9 - round(t * base / 1e9)) < 1e-3 for t in meta["timestamp_ns"][:].tolist())


# Decimation


@pytest.mark.parametrize("fps, timescale, rule, first, step", [
    (120, 600, "counter", 3, 4), (120, 600, None, 0, 4), (240, 600, "counter", 7, 8), (240, 90000, None, 0, 8), (60, 600, "counter", 1, 2)
])
def test_decimating_by_the_apps_counter_or_the_nearest(takeset, tmp_path, fps, timescale, rule, first, step):
    options = {"rate": 30} | ({"rule": rule} if rule else {})
    _, demo, meta, path = convert(takeset, tmp_path, video_file(fps=fps, timescale=timescale), arguments=pipeline(tmp_path, decimate=options))
    kept = list(range(first, 45, step))
    assert list(meta["source_index"][:]) == kept == numbers(demo["obs/camera_image"][:])
    stamps = times(path)
    assert list(np.diff(meta["timestamp_ns"][:])) == list(np.diff([stamps[i] for i in kept]))
    assert len(meta["gaps"]) == 0
