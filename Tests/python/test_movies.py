"""Movies: every row is its own frame at its own time, pictures are ffmpeg's, and what is no sound movie fails with a sentence."""

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from bundles import (
    box, boxes, changed, close, codes, converted, decoded, failed_with, fails, input_digest, made, measured, movie, numbers, only,
    patched, pipeline, probe, record, remade, rotated, same_for_all_jobs, samples, times, times_and_unit, together, traces,
)
from conftest import BINARY, manifest
from PIL import Image
from test_record import validator


def convert(takeset, tmp_path, data, name="pour.mov", arguments=()):
    """The record, demo, meta and path of one converted movie."""
    (tmp_path / name).write_bytes(data)
    return *converted(takeset, tmp_path / name, arguments), tmp_path / name


# Rows are frames


FRAGMENTS = dict(container="mp4", extra=("-movflags", "frag_keyframe+empty_moov"))
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


@pytest.mark.parametrize("name", STEADY)
def test_every_row_is_its_frame_at_its_time(takeset, tmp_path, name):
    settings = STEADY[name]
    suffix = settings.get("container", "mov")
    entry, demo, meta, path = convert(takeset, tmp_path, movie(**settings), f"pour.{suffix}")
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
    assert details["variable_rate"] is False and details["colour"]
    (described,) = entry["streams"]
    assert described["name"] == "camera_image" and described["samples"] == 45 and described["rate_hz"] == pytest.approx(rate, rel=0.005)


@pytest.mark.parametrize("fps, timescale, missing", [(60, 600, [1, 2, 3]), (120, 600, [7]), (240, 600, [5, 6, 20]), (30, 90000, [10, 30])])
def test_frames_that_were_dropped_are_gaps_at_true_times(takeset, tmp_path, fps, timescale, missing):
    kept = [i for i in range(45) if i not in missing]
    ticks = tuple(round(i * timescale / fps) for i in kept)
    entry, demo, meta, path = convert(takeset, tmp_path, movie(ticks=ticks, fps=fps, timescale=timescale))
    rows = len(kept)
    stamps = meta["timestamp_ns"][:]
    assert list(stamps) == times(path) and numbers(demo["obs/camera_image"][:]) == list(range(rows))
    long = [row for row in range(rows - 1) if ticks[row + 1] - ticks[row] > 1.5 * timescale / fps + 1]
    assert long and meta["gaps"][:].tolist() == [[row, stamps[row + 1] - stamps[row]] for row in long]
    assert entry["details"]["measured_fps"] == pytest.approx(fps, rel=0.01)


def test_a_gap_begins_above_one_and_a_half_periods_and_a_tick(takeset, tmp_path):
    ticks = (0, 10, 20, 30, *range(46, 200, 10), 213, *range(223, 400, 10))  # 60 fps in 600ths: 16 is none, 17 is one
    _, _, meta, _ = convert(takeset, tmp_path, movie(ticks=ticks, fps=60))
    assert len(meta["gaps"]) == 1
    row, step = meta["gaps"][0]
    assert ticks[row + 1] - ticks[row] == 17 and step == meta["timestamp_ns"][row + 1] - meta["timestamp_ns"][row]


@pytest.mark.parametrize("codec, b_frames", [("h264", 0), ("h264", 3), ("hevc", 3)])
def test_a_variable_rate_keeps_every_time(takeset, tmp_path, codec, b_frames):
    ticks = tuple(int(t) for t in np.cumsum([0, *(10 + 7 * i % 13 for i in range(39))]))
    entry, demo, meta, path = convert(takeset, tmp_path, movie(ticks=ticks, codec=codec, b_frames=b_frames))
    assert list(meta["timestamp_ns"][:]) == times(path) == [round(Fraction(t, 600) * 10**9) for t in ticks]
    assert numbers(demo["obs/camera_image"][:]) == list(range(40))
    assert entry["details"]["variable_rate"] is True and entry["details"]["nominal_fps"] is None


def test_a_minute_that_was_not_recorded_is_one_gap(takeset, tmp_path):
    ticks = (*range(0, 100, 10), *range(36100, 36300, 10))
    entry, _, meta, _ = convert(takeset, tmp_path, movie(ticks=ticks, fps=60))
    assert meta["gaps"][:].tolist() == [[9, round(Fraction(36010, 600) * 10**9)]]
    assert entry["details"]["nominal_fps"] == 60


EDITS = {
    "cut": (remade, dict(fps=30), dict(before=("-ss", "0.7")), 21),
    "cut, B-frames": (remade, dict(fps=30, b_frames=3), dict(before=("-ss", "0.7")), 21),
    "cut, HEVC": (remade, dict(fps=60, codec="hevc", b_frames=3), dict(before=("-ss", "0.4")), 24),
    "late start": (remade, dict(fps=30), dict(before=("-itsoffset", "0.5")), 0),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_list_is_followed(takeset, tmp_path, name):
    make, settings, options, first = EDITS[name]
    entry, demo, meta, path = convert(takeset, tmp_path, make(movie(**settings), **options))
    expected = times(path)
    assert list(meta["timestamp_ns"][:]) == expected
    assert numbers(demo["obs/camera_image"][:]) == list(range(first, first + len(expected)))
    assert list(meta["source_index"][:]) == list(range(len(expected)))
    assert entry["details"]["edit_list"] is True
    close(demo["obs/camera_image"][:], decoded(path))


def earlier(payload, ticks=100):
    """A table of composition offsets in which every frame is shown so much earlier."""
    (count,) = struct.unpack_from(">I", payload, 4)
    entries = struct.iter_unpack(">Ii", payload[8:])
    return struct.pack(">II", 1 << 24, count) + b"".join(struct.pack(">Ii", n, offset - ticks) for n, offset in entries)


def without_edits():
    return changed(movie(b_frames=3), "moov/trak/edts", lambda payload: None)


NO_EDITS = {
    "removed": without_edits,
    "times before zero": lambda: changed(without_edits(), "moov/trak/mdia/minf/stbl/ctts", earlier),
    "negative offsets": lambda: remade(movie(b_frames=3), "-movflags", "negative_cts_offsets", "-use_editlist", "0"),
}


@pytest.mark.parametrize("name", NO_EDITS)
def test_without_an_edit_list_the_first_frame_is_still_the_start(takeset, tmp_path, name):
    entry, demo, meta, path = convert(takeset, tmp_path, NO_EDITS[name]())
    assert list(meta["timestamp_ns"][:]) == times(path) and meta["timestamp_ns"][0] == 0
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))
    assert entry["details"]["edit_list"] is False


def test_the_origin_is_the_first_frames_media_time(takeset, tmp_path):
    _, _, meta, path = convert(takeset, tmp_path, remade(movie(), before=("-itsoffset", "0.5")))
    stream = probe(path, "-show_streams")["streams"][0]
    assert stream["start_pts"] != 0
    assert meta["timestamp_ns"].attrs["origin_ns"] == round(stream["start_pts"] * Fraction(stream["time_base"]) * 10**9)


def test_sound_is_left_out(takeset, tmp_path):
    (tmp_path / "video.mov").write_bytes(movie())
    sound = ("-f", "lavfi", "-i", "sine=duration=1.5", "-i", tmp_path / "video.mov", "-c:v", "copy", "-map", "0", "-map", "1")
    entry, demo, meta, path = convert(takeset, tmp_path, made(".mov", *sound))
    assert numbers(demo["obs/camera_image"][:]) == list(range(45)) and list(meta["timestamp_ns"][:]) == times(path)


def test_one_frame_is_a_take(takeset, tmp_path):
    entry, demo, meta, _ = convert(takeset, tmp_path, movie(count=1))
    assert demo["obs/camera_image"].shape == (1, 120, 160, 3) and list(meta["timestamp_ns"][:]) == [0]
    assert entry["details"]["nominal_fps"] is None and entry["variant"] is None


@pytest.mark.parametrize("name", ["pour.MOV", "pour.mp4", "pour.m4v", "pour.dat"])
def test_a_movie_is_known_by_its_contents(takeset, tmp_path, name):
    entry, _, _, _ = convert(takeset, tmp_path, movie(count=6, container="mp4"), name)
    assert entry["reader"] == "slow-motion-video" and entry["id"] == "pour"


# Turning


@pytest.mark.parametrize("degrees, codec", [(0, "h264"), (90, "h264"), (180, "h264"), (270, "h264"), (90, "hevc")])
def test_pictures_are_stored_upright(takeset, tmp_path, degrees, codec):
    entry, demo, meta, path = convert(takeset, tmp_path, rotated(movie(codec=codec), degrees))
    images = demo["obs/camera_image"]
    close(images[:], decoded(path, size=(160, 120) if degrees % 180 == 0 else (120, 160)), most=8)  # which turns before it makes RGB
    close(images[:], np.rot90(decoded(path, "-noautorotate"), -degrees // 90, axes=(1, 2)))
    assert numbers(images[:], degrees) == list(range(45))
    assert images.attrs["rotation_applied"] == degrees and entry["details"]["rotation"] == degrees
    assert entry["details"]["coded_size"] == [160, 120] and "rotation-suspect" not in codes(entry)
    assert list(meta["timestamp_ns"][:]) == times(path)


@pytest.mark.parametrize("option, name, degrees, size, applied", [
    ("auto", "recording_1761000000.mov", 90, (160, 120), 0),
    ("auto", "pour.mov", 90, (120, 160), 0),
    ("auto", "pour.mov", 270, (120, 160), 0),
    ("auto", "pour.mov", 180, (120, 160), 180),
    ("auto", "video_1761000000.mov", 90, (160, 120), 90),
    ("apply", "recording_1761000000.mov", 90, (160, 120), 90),
    ("apply", "pour.mov", 90, (120, 160), 90),
    ("keep", "pour.mov", 90, (160, 120), 0),
    ("keep", "pour.mov", 180, (160, 120), 0),
])
def test_a_suspect_matrix_is_kept_and_options_decide(takeset, tmp_path, option, name, degrees, size, applied):
    data = rotated(movie(count=6, size=size), degrees, *size)
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", "rotation": option}) if option != "auto" else ()
    entry, demo, _, path = convert(takeset, tmp_path, data, name, arguments)
    images = demo["obs/camera_image"]
    assert images.attrs["rotation_applied"] == applied and entry["details"]["rotation"] == degrees
    assert numbers(images[:], applied) == list(range(6))
    suspect = option == "auto" and applied == 0
    assert ("rotation-suspect" in codes(entry)) is suspect
    if applied == 0:
        close(images[:], decoded(path, "-noautorotate", size=size))


def test_a_recording_without_a_matrix_is_not_suspect(takeset, tmp_path):
    entry, _, _, _ = convert(takeset, tmp_path, movie(count=6), "recording_1761000000.mov")
    assert codes(entry) == []


# Names and times


@pytest.mark.parametrize("name, seconds", [
    ("video_1761000000.mov", 1761000000), ("recording_1761000001.mov", 1761000001), ("video_1761000000123.mov", None), ("pour.mov", None)
])
def test_the_start_is_known_from_the_phones_file_names_alone(takeset, tmp_path, name, seconds):
    _, _, meta, _ = convert(takeset, tmp_path, movie(count=6), name)
    attributes = meta["timestamp_ns"].attrs
    assert attributes.get("unix_origin_ns") == (None if seconds is None else seconds * 10**9)


@pytest.mark.parametrize("stem", ["video", "movie", "capture", "recording", "clip", "bundle", "upload", "body"])
def test_a_name_that_says_nothing_gives_way_to_the_digest(takeset, tmp_path, stem):
    data = movie(count=6)
    entry, _, _, path = convert(takeset, tmp_path, data, f"{stem}.mov")
    digest = input_digest({path.name: data})
    assert entry["input_sha256"] == digest
    assert entry["id"] == digest[:12]


def test_a_name_that_says_something_is_the_id(takeset, tmp_path):
    entry, _, _, _ = convert(takeset, tmp_path, movie(count=6), "pour-water-07.mov")
    assert entry["id"] == "pour-water-07"
    (source,) = entry["inputs"]
    assert source["path"] == "pour-water-07.mov" and source["sha256"] == hashlib.sha256(movie(count=6)).hexdigest()


def test_a_directory_is_searched_for_movies(takeset, tmp_path):
    (tmp_path / "in/deep").mkdir(parents=True)
    for name, fps in ("a.mov", 60), ("deep/b.mp4", 120), ("deep/c.mov", 30):
        (tmp_path / "in" / name).write_bytes(movie(count=12, fps=fps, container=name[-3:]))
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    found = manifest(tmp_path / "out")
    assert [(t["id"], t["variant"]) for t in found["record"]["takes"]] == [("a", "60fps"), ("b", "120fps"), ("c", None)]
    validator("manifest.schema.json").validate(found)
    takeset("verify", tmp_path / "out", check=0)


def test_times_say_their_tick_and_the_rate_that_the_movie_is_of(takeset, tmp_path):
    _, _, meta, _ = convert(takeset, tmp_path, movie(count=12, fps=120), "pour.mov")
    attributes = meta["timestamp_ns"].attrs
    assert attributes["clock"] == "media-time" and float(attributes["nominal_rate_hz"]) == 120
    # The time base is a whole part of a second, of which every time is a multiple.
    tick = int(attributes["tick_ns"])
    base = round(1e9 / tick)
    assert abs(tick - 1e9 / base) < 1
    assert all(abs(t * base / 1e9 - round(t * base / 1e9)) < 1e-3 for t in meta["timestamp_ns"][:].tolist())


def test_pictures_and_music_beside_a_movie_are_no_takes(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/pour.mov").write_bytes(movie(count=6))
    heic = box("ftyp", b"heic" + bytes(4) + b"mif1heic") + box("meta", bytes(40))
    music = made(".m4a", "-f", "lavfi", "-i", "sine=duration=0.1")
    for name, data in ("IMG_1.HEIC", heic), ("IMG_2", heic), ("song.m4a", music), ("song", music):
        assert data[4:8] == b"ftyp"
        (tmp_path / "in" / name).write_bytes(data)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert record(tmp_path / "out")["id"] == "pour"
    (told,) = json.loads(takeset("inspect", tmp_path / "in", "--json", check=0).stdout)["takes"]
    assert told["id"] == "pour"


def test_inspect_tells_frames_rate_and_gaps(takeset, tmp_path):
    (tmp_path / "pour.mov").write_bytes(movie(ticks=(0, 10, 20, 50, 60, 70, 80, 90, 100, 110, 120), fps=60))
    (told,) = json.loads(takeset("inspect", tmp_path / "pour.mov", "--json", check=0).stdout)["takes"]
    assert told["would_be"] == "written" and told["frames"] == 11 and told["gaps"] == 1
    assert told["rate_hz"] == pytest.approx(60, rel=0.02)


# Decimation


@pytest.mark.parametrize("fps, timescale, rule, first, step", [
    (120, 600, "counter", 3, 4), (120, 600, None, 0, 4), (240, 600, "counter", 7, 8), (240, 90000, None, 0, 8), (60, 600, "counter", 1, 2)
])
def test_decimating_by_the_apps_counter_or_the_nearest(takeset, tmp_path, fps, timescale, rule, first, step):
    options = {"rate": 30} | ({"rule": rule} if rule else {})
    _, demo, meta, path = convert(takeset, tmp_path, movie(fps=fps, timescale=timescale), arguments=pipeline(tmp_path, decimate=options))
    kept = list(range(first, 45, step))
    assert list(meta["source_index"][:]) == kept == numbers(demo["obs/camera_image"][:])
    stamps = times(path)
    assert list(np.diff(meta["timestamp_ns"][:])) == list(np.diff([stamps[i] for i in kept]))
    assert len(meta["gaps"]) == 0


# Colours


def flat(red, green, blue, matrix, full, pixel_format="yuv420p", size=(160, 120)):
    """A movie of one colour, turned into YUV by the definition of the matrix."""
    kr, kb = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114)}[matrix]
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - luma) / (2 - 2 * kb), (red - luma) / (2 - 2 * kr)
    levels = [255 * luma, 255 * cb + 128, 255 * cr + 128] if full else [219 * luma + 16, 224 * cb + 128, 224 * cr + 128]
    area = size[0] * size[1]
    if pixel_format == "yuv420p":
        raw = b"".join(bytes([round(level)]) * n for level, n in zip(levels, (area, area // 4, area // 4)))
    else:
        raw = b"".join(struct.pack("<H", round(level * 4)) * n for level, n in zip(levels, (area, area // 4, area // 4)))
    bounds = "pc" if full else "tv"
    arguments = ["-f", "rawvideo", "-pix_fmt", pixel_format, "-s", f"{size[0]}x{size[1]}", "-r", 30, "-color_range", bounds, "-i", "-"]
    arguments += ["-c:v", "libx264", "-qp", 4, "-colorspace", matrix, "-color_primaries", matrix, "-color_trc", "bt709"]
    arguments += ["-color_range", bounds]
    return made(".mov", *arguments, contents=raw * 3)


@pytest.mark.parametrize("matrix", ["bt709", "smpte170m"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
def test_colours_follow_matrix_and_range(takeset, tmp_path, matrix, full, pixel_format):
    colour = (0.8, 0.35, 0.15)
    _, demo, _, _ = convert(takeset, tmp_path, flat(*colour, matrix, full, pixel_format))
    close(demo["obs/camera_image"][:], np.broadcast_to(np.round(np.array(colour) * 255), (3, 120, 160, 3)), most=3, mean=2)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_ten_bits_are_brought_to_eight(takeset, tmp_path, codec):
    _, demo, meta, path = convert(takeset, tmp_path, movie(codec=codec, extra=("-pix_fmt", "yuv420p10le")))
    assert probe(path, "-show_streams")["streams"][0]["pix_fmt"] == "yuv420p10le"
    close(demo["obs/camera_image"][:], decoded(path))
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))


def test_a_picture_whose_sides_are_no_multiple_of_a_block_is_cropped(takeset, tmp_path):
    _, demo, _, path = convert(takeset, tmp_path, movie(size=(150, 106)))
    assert demo["obs/camera_image"].shape == (45, 106, 150, 3) and numbers(demo["obs/camera_image"][:]) == list(range(45))
    close(demo["obs/camera_image"][:], decoded(path, size=(150, 106)))


# What is no sound movie


def png():
    out = io.BytesIO()
    Image.new("RGB", (160, 120)).save(out, "PNG")
    return out.getvalue()


def track(kind, location):
    """A movie whose samples are said to be in another file."""
    table = struct.pack(">II", 0, 1) + box(kind, struct.pack(">I", 0) + location)
    return changed(movie(), "moov/trak/mdia/minf/dinf/dref", lambda payload: table)


def unfinished(share):
    data = movie()
    end = data.index(b"moov") - 4
    return data[: 40 + int((end - 40) * share)]


def cut(kept, codec="h264", of_next=0.5):
    """A movie with its index first that ends within the sample after those kept."""
    data = movie(codec=codec, extra=("-movflags", "+faststart"))
    offset, size = samples(data)[kept]
    return data[: offset + int(size * of_next)]


def flipped(data, which, lengths=False):
    """The movie with bytes of some samples turned over, or the length that precedes them."""
    out, places = bytearray(data), samples(data)
    for offset, size in [places[i] for i in which]:
        if lengths:
            out[offset : offset + 4] = b"\x00\xff\xff\xff"
        else:
            for k in range(offset + size // 4, offset + size // 2):
                out[k] ^= 0xFF
    return bytes(out)


def wide_colour(transfer):
    return "-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", transfer, "-color_range", "tv"


def in_high_dynamic_range(transfer):
    return movie(count=6, codec="hevc", colour=wide_colour(transfer), extra=("-pix_fmt", "yuv420p10le"))


def spliced(*movies):
    """One movie of the pictures of several H.264 movies, which keep their sizes and colours."""
    return remade(b"".join(remade(data, "-f", "h264") for data in movies), before=("-r", 30, "-f", "h264"))


def edited(*edits):
    """A movie with an edit list of these lengths and starts, in ticks; a start of -1 shows nothing for so long."""
    entries = b"".join(struct.pack(">QqI", length, start, 1 << 16) for length, start in edits)
    return changed(movie(), "moov/trak/edts", lambda payload: box("elst", struct.pack(">II", 1 << 24, len(edits)) + entries))


def two_tracks():
    with tempfile.NamedTemporaryFile(suffix=".mov") as file:
        Path(file.name).write_bytes(movie())
        return made(".mov", "-i", file.name, "-map", "0:v", "-map", "0:v", "-c", "copy")


PLAYLISTS = {
    "a playlist.mp4": b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.ts\n#EXT-X-ENDLIST\n",
    "ffconcat.mp4": b"ffconcat version 1.0\nfile secret.mov\n",
    "SDP.mp4": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
}
NO_MOVIES = {name: ("not-a-movie", [], lambda data=data: data) for name, data in PLAYLISTS.items()} | {
    "nothing.mov": ("file-empty", [], bytes),
    "text.mp4": ("not-a-movie", [], lambda: b"the movie is on the other disk\n"),
    "HTML.mov": ("not-a-movie", [], lambda: b"<!DOCTYPE html><html>404</html>"),
    "zeros.mov": ("not-a-movie", [], lambda: bytes(4096)),
    "a picture.mp4": ("not-a-movie", [], png),
    "Matroska.mp4": ("not-a-movie", [], lambda: made(".mkv", "-f", "lavfi", "-i", "testsrc=size=64x48:duration=0.2", "-c:v", "libx264")),
    "no samples yet.mov": ("movie-unfinished", [], lambda: unfinished(0)),
    "a tenth of the samples.mov": ("movie-unfinished", [], lambda: unfinished(0.1)),
    "half of the samples.mov": ("movie-unfinished", [], lambda: unfinished(0.5)),
    "all samples and no index.mov": ("movie-unfinished", [], lambda: unfinished(1)),
    "an index made free space.mov": ("movie-unfinished", [], lambda: movie().replace(b"moov", b"free")),
    "cut in sample 0.mov": ("movie-truncated", ["0 of 45"], lambda: cut(0)),
    "cut in sample 1.mov": ("movie-truncated", ["1 of 45"], lambda: cut(1)),
    "cut in sample 10.mov": ("movie-truncated", ["10 of 45"], lambda: cut(10)),
    "cut in sample 20, HEVC.mov": ("movie-truncated", ["20 of 45"], lambda: cut(20, "hevc")),
    "cut after sample 30.mov": ("movie-truncated", ["31 of 45"], lambda: cut(30, of_next=1)),
    "cut in sample 44.mov": ("movie-truncated", ["44 of 45"], lambda: cut(44)),
    "without its last byte.mov": ("movie-truncated", ["44 of 45"], lambda: cut(44, of_next=0.9999)),
    "a sample turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(), [20])),
    "many samples turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(), range(16, 45, 3))),
    "samples at the end turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(), [42, 43])),
    "a length turned over.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(), [20], lengths=True)),
    "a length turned over, HEVC.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(codec="hevc"), [20], lengths=True)),
    "many lengths turned over, HEVC.mov": ("movie-corrupt", ["of 45"], lambda: flipped(movie(codec="hevc"), range(3, 40), lengths=True)),
    "samples in a file.mov": ("movie-external-data", [], lambda: track("url ", b"file:///nowhere/x.mov\0")),
    "samples on a server.mov": ("movie-external-data", [], lambda: track("url ", b"http://127.0.0.1:9/x.mov\0")),
    "samples nowhere.mov": ("movie-external-data", [], lambda: track("url ", b"")),
    "samples behind an alias.mov": ("movie-external-data", [], lambda: track("alis", bytes(150))),
    "samples behind a name.mov": ("movie-external-data", [], lambda: track("urn ", b"x\0y\0")),
    "sound alone.mp4": ("no-video", [], lambda: made(".mp4", "-f", "lavfi", "-i", "sine=duration=1", "-c:a", "aac")),
    "two video tracks.mov": ("video-ambiguous", [], two_tracks),
    "MPEG-4.mov": ("codec-unsupported", ["mpeg4"], lambda: movie(count=6, codec="mpeg4")),
    "ProRes.mov": ("codec-unsupported", ["prores"], lambda: movie(count=6, codec="prores")),
    "PQ.mov": ("colour-unsupported", [], lambda: in_high_dynamic_range("smpte2084")),
    "HLG.mov": ("colour-unsupported", [], lambda: in_high_dynamic_range("arib-std-b67")),
    "colours that change.mov": (
        "colour-unsupported", [15], lambda: spliced(movie(count=15), movie(count=15, colour=wide_colour("smpte2084")))),
    "over ten minutes.mov": ("limit", [600], lambda: movie(ticks=(0, 20, 360_020))),
    "an empty edit of 2^62 ticks.mov": ("limit", [], lambda: edited((2**62, -1), (900, 0))),
    "65 edits.mov": ("limit", [65, 64], lambda: edited(*[(900, 0)] * 65)),
    "a size that changes.mov": (
        "image-size-changed", ["160x120", "320x240", 15], lambda: spliced(movie(count=15), movie(count=15, size=(320, 240)))),
}


@pytest.fixture(scope="module")
def failed(takeset, tmp_path_factory):
    """The entries of all of these, converted in one run with a good movie among them."""
    files = {name: make() for name, (_, _, make) in NO_MOVIES.items()} | {"good.mov": movie(count=6)}
    root = tmp_path_factory.mktemp("no-movies")
    entries = together(takeset, root, files, check=3)
    assert [p.name for p in (root / "out/episodes").iterdir()] == ["good.h5"] and entries["good"]["outcome"] == "written"
    return root, entries


@pytest.mark.parametrize("name", NO_MOVIES)
def test_what_is_no_sound_movie_fails_and_says_why(failed, name):
    code, words, _ = NO_MOVIES[name]
    failed_with(failed[1][name.rpartition(".")[0]], code, name, *words)


def test_inspect_says_what_would_fail(takeset, failed):
    root, entries = failed
    told = json.loads(takeset("inspect", *(root / "in").iterdir(), "--json", check=3).stdout)["takes"]
    assert {t["id"]: t["would_be"] for t in told} == {name: entry["outcome"] for name, entry in entries.items()}


@pytest.mark.parametrize("name", [name for name, (code, _, _) in NO_MOVIES.items() if code == "movie-corrupt"])
def test_what_is_called_corrupt_is_corrupt_to_ffmpeg_too(failed, name):
    strict = ["ffmpeg", "-v", "error", "-xerror", "-err_detect", "explode", "-i", failed[0] / "in" / name, "-f", "null", "-"]
    assert subprocess.run(strict, capture_output=True).returncode != 0


def test_a_bad_movie_stops_no_other(takeset, tmp_path):
    (tmp_path / "bad.mov").write_bytes(cut(10))
    fails(takeset, tmp_path / "bad.mov", "movie-truncated", "10 of 45")


@pytest.mark.parametrize("kind, whole", [("hoov", False), ("hoov", True), ("free", False), ("free", True), ("skip", False), ("moov", True)])
def test_a_movie_of_two_indexes_is_corrupt(takeset, tmp_path, kind, whole):
    data = movie()
    at, index = data.index(b"moov") - 4, dict(boxes(data))["moov"]
    other = index if whole else box("mvhd", dict(boxes(index))["mvhd"])
    (tmp_path / "bad.mov").write_bytes(data[:at] + box(kind, other) + data[at:])
    fails(takeset, tmp_path / "bad.mov", "movie-corrupt", kind)


FRAGMENT_CUTS = {  # number of the box, after ftyp and moov of moof and mdat by turns, and bytes of it that are left
    "in an index's size": (4, 5), "behind an index's size": (4, 12), "in an index": (4, 100), "before samples": (5, 0),
    "in the size of samples": (5, 3), "in samples": (5, 17_000), "in the last sample": (8, -1),
}


@pytest.mark.parametrize("name", FRAGMENT_CUTS)
def test_fragments_that_are_cut_are_truncated(takeset, tmp_path, name):
    data, (number, kept) = movie(**FRAGMENTS), FRAGMENT_CUTS[name]
    start = sum(8 + len(payload) for _, payload in list(boxes(data))[:number])
    (tmp_path / "bad.mp4").write_bytes(data[: start + kept])
    fails(takeset, tmp_path / "bad.mp4", "movie-truncated")


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_picture_that_others_need_is_missed_in_hevc(takeset, tmp_path, b_frames):
    data = remade(movie(codec="hevc", b_frames=b_frames), "-bsf:v", "noise=amount=0:dropamount=0:drop='eq(n,20)'")
    assert len(samples(data)) == 44
    (tmp_path / "bad.mov").write_bytes(data)
    fails(takeset, tmp_path / "bad.mov", "movie-corrupt", "of 44")


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("name", PLAYLISTS)
def test_a_playlist_opens_nothing_else(tmp_path, name):
    (tmp_path / "video.mp4").write_bytes(PLAYLISTS[name])
    for secret in "secret.ts", "secret.mov":
        (tmp_path / secret).write_bytes(movie(count=6))
    command = ["strace", "-f", "-e", "trace=openat,open,socket,connect", "-o", tmp_path / "log"]
    subprocess.run([*command, BINARY, "run", tmp_path / "video.mp4", "--output", tmp_path / "out"], capture_output=True)
    log = (tmp_path / "log").read_text()
    assert "video.mp4" in log and "secret" not in log and "AF_INET" not in log


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_an_index_that_is_cut(takeset, tmp_path, share):
    data = movie()
    start = data.index(b"moov") - 4
    (tmp_path / "bad.mov").write_bytes(data[: start + int((len(data) - start) * share)])
    takeset.convert(tmp_path / "bad.mov", output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("movie-unfinished", "movie-truncated")


@pytest.mark.parametrize("options, words", [
    ({"max-samples": 44}, [44, 45]), ({"max-seconds": 1}, [1]), ({"max-side": 199}, ["200x120", 199])
])
def test_limits_are_options(takeset, tmp_path, options, words):
    (tmp_path / "bad.mov").write_bytes(movie(size=(200, 120)))
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", **options})
    fails(takeset, tmp_path / "bad.mov", "limit", *words, arguments=arguments)


def test_what_is_just_within_the_limits_is_written(takeset, tmp_path):
    reader = {"name": "slow-motion-video", "max-samples": 45, "max-seconds": 2, "max-side": 160}
    entry, _, _, _ = convert(takeset, tmp_path, movie(), arguments=pipeline(tmp_path, reader))
    assert entry["outcome"] == "written"


def lie(path, offset, contents):
    return lambda: patched(movie(), path, offset, contents)


HOSTILE = {
    "2^31 samples in one size": lie("moov/trak/mdia/minf/stbl/stsz", 4, struct.pack(">II", 1, 2**31)),
    "2^31 samples of many sizes": lie("moov/trak/mdia/minf/stbl/stsz", 8, struct.pack(">I", 2**31)),
    "2^31 chunks": lie("moov/trak/mdia/minf/stbl/stco", 4, struct.pack(">I", 2**31)),
    "a box of 2^63 bytes": lambda: movie()[: movie().index(b"moov") - 4] + struct.pack(">I4sQ", 1, b"moov", 2**63),
    "a box that is smaller than its head": lambda: movie()[: movie().index(b"moov") - 4] + struct.pack(">I4sQ", 1, b"moov", 3),
    "boxes in boxes": lambda: movie()[: movie().index(b"moov") - 4] + nested(2000),
    "time unit 0": lie("moov/trak/mdia/mdhd", 12, bytes(4)),
    "a track of no samples": lie("moov/trak/mdia/minf/stbl/stsz", 8, bytes(4)),
}


def nested(depth):
    out = b""
    for _ in range(depth):
        out = box("trak", out)
    return box("moov", out)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_index_that_lies_costs_no_time_and_no_memory(takeset, tmp_path, name):
    (tmp_path / "bad.mov").write_bytes(HOSTILE[name]())
    code, peak, seconds = measured(BINARY, "run", tmp_path / "bad.mov", "--output", tmp_path / "out")
    assert code == 3 and peak < 300e6 and seconds < 5
    entry = record(tmp_path / "out")
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] != "internal"


def test_fragments_that_claim_millions_of_samples_cost_no_time_and_no_memory(takeset, tmp_path):
    claim = struct.pack(">III", 1, 20_000_000, 0)
    (tmp_path / "bad.mp4").write_bytes(changed(movie(**FRAGMENTS), "moof/traf/trun", lambda payload: claim))
    code, peak, seconds = measured(BINARY, "run", tmp_path / "bad.mp4", "--output", tmp_path / "out")
    assert code == 3 and peak < 300e6 and seconds < 5
    failed_with(record(tmp_path / "out"), "limit", 20_000_000)


def test_a_table_of_times_that_claims_2_31_entries_gives_true_times_or_none(takeset, tmp_path):
    (tmp_path / "bad.mov").write_bytes(lie("moov/trak/mdia/minf/stbl/stts", 4, struct.pack(">I", 2**31))())
    code, peak, seconds = measured(BINARY, "run", tmp_path / "bad.mov", "--output", tmp_path / "out")
    assert code in (0, 3) and peak < 300e6 and seconds < 5
    if code == 0:
        assert list(only(tmp_path / "out")[2]["timestamp_ns"][:]) == times(tmp_path / "bad.mov")


# Privacy


PLACES = {
    "QuickTime": ("-metadata", "location=+48.1374+011.5755/"),
    "Apple": ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.location.ISO6709=+48.1374+011.5755+519.000/"),
}


@pytest.mark.parametrize("container", ["mov", "mp4"])
@pytest.mark.parametrize("name", PLACES)
def test_places_do_not_reach_the_output(takeset, tmp_path, name, container):
    data = movie(count=6, container=container, extra=PLACES[name])
    assert b"48.1374" in data or b"loci" in data
    entry, _, _, _ = convert(takeset, tmp_path, data, f"pour.{container}")
    assert "location-removed" in codes(entry, "info", "warning")
    assert traces(tmp_path / "out", "48.13", "11.57") == []


@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path, name):
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", "keep-location": True})
    entry, _, _, _ = convert(takeset, tmp_path, movie(count=6, extra=PLACES[name]), arguments=arguments)
    assert "48.1374" in json.dumps(entry["details"]["location"]) and "location-removed" not in codes(entry)


@pytest.mark.parametrize("extra", [
    ("-metadata", "artist=Ada Example"),
    ("-metadata", "author=Ada Example"),
    ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.author=Ada Example"),
    ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.artist=Ada Example"),
])
def test_names_do_not_reach_the_output(takeset, tmp_path, extra):
    data = movie(count=6, extra=extra)
    assert b"Ada Example" in data
    entry, _, _, _ = convert(takeset, tmp_path, data)
    assert "name-removed" in codes(entry, "info", "warning") and traces(tmp_path / "out", "Ada Example") == []


def test_nothing_else_in_the_container_reaches_the_output(takeset, tmp_path):
    extra = ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.title=At home", "-metadata", "comment=kitchen of Ada")
    convert(takeset, tmp_path, movie(count=6, extra=extra))
    assert traces(tmp_path / "out", "At home", "kitchen of Ada") == []


# The same bytes, and little memory


def test_jobs_do_not_show(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    for index, settings in enumerate([dict(fps=60), dict(fps=120, codec="hevc", b_frames=3), dict(fps=240, b_frames=2), dict(fps=30)]):
        (tmp_path / f"in/take-{index}.mov").write_bytes(rotated(movie(**settings), 90 * index))
    (tmp_path / "in/take-bad.mov").write_bytes(flipped(movie(), [7, 20]))
    assert same_for_all_jobs(takeset, tmp_path / "in", check=3) == 4


def test_jobs_do_not_show_in_damage(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    noticed = set()
    for codec, b_frames in ("h264", 2), ("hevc", 0):
        sound = movie(codec=codec, b_frames=b_frames)
        for number, (offset, size) in list(enumerate(samples(sound)))[4:34:6]:
            data, path = bytearray(sound), tmp_path / f"in/{codec}-{number}.mov"
            data[offset + 5 + size // 10] ^= 8
            path.write_bytes(data)
            said = subprocess.run(["ffmpeg", "-nostdin", "-threads", "1", "-i", path, "-f", "null", "-"], capture_output=True).stderr
            noticed |= {path.stem} if b"corrupt decoded frame" in said else set()
    episodes = same_for_all_jobs(takeset, tmp_path / "in", check=3, jobs=(1, 2, 8))
    failed = {t["id"]: t for t in manifest(tmp_path / "out1")["record"]["takes"] if t["outcome"] == "failed"}
    assert noticed and noticed <= set(failed) and episodes == 10 - len(failed)
    assert any("hevc" in path.name for path in (tmp_path / "out1/episodes").iterdir())
    for entry in failed.values():
        failed_with(entry, "movie-corrupt", "of 45")


def test_a_second_run_has_nothing_to_do(takeset, tmp_path):
    convert(takeset, tmp_path, movie(count=6))
    again = takeset.convert(tmp_path / "pour.mov", output=tmp_path / "out")
    assert "nothing to do" in again.stdout


def test_memory_does_not_grow_with_the_movie(tmp_path):
    peaks = []
    for count in 200, 2000:
        (tmp_path / f"{count}.mov").write_bytes(movie(count=count, fps=60, extra=("-preset", "ultrafast")))
        code, peak, _ = measured(BINARY, "run", tmp_path / f"{count}.mov", "--output", tmp_path / f"out{count}")
        assert code == 0
        peaks.append(peak)
        shutil.rmtree(tmp_path / f"out{count}")
    assert peaks[1] <= 1.3 * peaks[0], peaks


def test_a_link_among_movies_is_not_followed(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere.mov").write_bytes(movie(count=6))
    (tmp_path / "in/pour.mov").symlink_to(tmp_path / "elsewhere.mov")
    (tmp_path / "in/good.mov").write_bytes(movie(count=6))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=None)
    found = {t["id"]: t["outcome"] for t in manifest(tmp_path / "out")["record"]["takes"]}
    assert found["good"] == "written" and found.get("pour") != "written"


def test_a_movie_is_never_touched(takeset, tmp_path):
    data = movie(count=6)
    convert(takeset, tmp_path, data)
    takeset("inspect", tmp_path / "pour.mov")
    assert (tmp_path / "pour.mov").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["out", "pour.mov"]


def test_more_movies_than_files_may_be_open_are_inspected(takeset, tmp_path):
    contents = movie(count=3)
    for number in range(60):
        (tmp_path / f"m{number:02d}.mov").write_bytes(contents)
    limited = f"ulimit -n 40; exec {BINARY} inspect {tmp_path} --json --preview {tmp_path}/sheet.png"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(t["would_be"] == "written" for t in json.loads(done.stdout)["takes"])
