"""Sound videos that programs write in odd ways are converted, or named for what they are."""

import struct
import tempfile
from pathlib import Path

import pytest
from conversions import Together, failed_with
from images import numbers
from outputs import codes, finding
from videos import FRAGMENTS, box, boxes, changed, made, patched, remade, video_file

TRAILER = b"\0\0\x30\x0a\x0e\0\0\0Image_UTC_Data1690000000000SEFH\x6a\0\0\0\1\0\0\0\0\0\x30\x0a\x23\0\0\0\x23\0\0\0\x18\0\0\0SEFT"


def with_second_track(change, other=None):
    """A video with a second track of images, whose box `change` makes another one."""
    with tempfile.TemporaryDirectory() as root:
        paths = [Path(root) / f"{n}.mov" for n in range(2)]
        for path, data in zip(paths, (video_file(count=30), other or video_file(count=30))):
            path.write_bytes(data)
        data = made(".mov", "-i", paths[0], "-i", paths[1], "-map", 0, "-map", 1, "-c", "copy")
    seen = []

    def second(payload):
        seen.append(payload)
        return change(payload) if len(seen) == 2 else payload

    return changed(data, "moov/trak", second)


def auxiliary(entry=None):
    """What an iPhone's video with depth has beside the images: a track of another kind, whose codec may be unknown."""
    def change(trak):
        trak = patched(trak, "mdia/hdlr", 8, b"auxv")
        return patched(trak, "mdia/minf/stbl/stsd", 12, entry) if entry else trak
    return change


def without_a_handler(data):
    return changed(data, "moov/trak/mdia", lambda payload: b"".join(
        box("free" if kind == "hdlr" else kind, content) for kind, content in boxes(payload)))


def with_times_of_decoding(container):
    stream = remade(video_file(count=60, b_frames=3, extra=("-g", "30")), "-f", "h264")
    with tempfile.NamedTemporaryFile(suffix=".h264") as file:
        Path(file.name).write_bytes(stream)
        return made(f".{container}", "-fflags", "+genpts", "-r", 30, "-f", "h264", "-i", file.name, "-c", "copy")


SOUND = {
    "zeros.mp4": lambda: video_file(count=30, container="mp4") + bytes(4096),
    "trailer.mp4": lambda: video_file(count=30, container="mp4") + TRAILER,
    "three bytes.mp4": lambda: video_file(count=30, container="mp4") + bytes(3),
    "index first, trailer.mp4": lambda: video_file(count=30, container="mp4", extra=("-movflags", "+faststart")) + TRAILER,
    "fragments, zeros.mp4": lambda: video_file(count=30, **FRAGMENTS) + bytes(4096),
    "fragments, three bytes.mp4": lambda: video_file(count=30, **FRAGMENTS) + bytes(3),
    "no handler.mov": lambda: without_a_handler(video_file(count=30)),
    "disparity.mov": lambda: with_second_track(auxiliary()),
    "unknown disparity.mov": lambda: with_second_track(auxiliary(b"dish")),
    "small disparity.mov": lambda: with_second_track(auxiliary(), video_file(count=30, size=(96, 72))),
    "depth video.mov": lambda: with_second_track(lambda trak: trak + box("tref", box("vdep", struct.pack(">I", 1)))),
}
OTHERS = {
    "wide pixels.mp4": lambda: video_file(count=30, container="mp4", extra=("-aspect", "8:3")),
    "nearly square pixels.mp4": lambda: video_file(count=30, container="mp4", extra=("-aspect", "321:240")),
}
REFUSED = {
    "late.mp4": (lambda: with_times_of_decoding("mp4"), "movie-corrupt", ["times are those of decoding", "ctts"]),
    "late in MOV.mov": (lambda: with_times_of_decoding("mov"), "movie-corrupt", ["times are those of decoding", "ctts"]),
    "samples behind.mp4": (
        lambda: video_file(count=30, container="mp4", extra=("-movflags", "+faststart")).replace(b"mdat", b"\0\0\0\0"),
        "movie-corrupt", ["no box"]),
    "fragments, trailer.mp4": (lambda: video_file(count=30, **FRAGMENTS) + TRAILER, "movie-corrupt", ["no box"]),
}


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    files = {name: make() for name, make in (SOUND | OTHERS).items()} | {name: make() for name, (make, _, _) in REFUSED.items()}
    return Together(takeset, tmp_path_factory.mktemp("oddities"), files, check=3)


@pytest.mark.parametrize("name", SOUND)
def test_images_are_all_there_and_nothing_is_said(takes, name):
    entry, demo, _ = takes[name]
    assert entry["outcome"] == "written", entry["reason"]
    assert numbers(demo["obs/camera_image"][:]) == list(range(30)) and codes(entry) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_for_what_it_is(takes, name):
    failed_with(takes.entries[name.rpartition(".")[0]], REFUSED[name][1], *REFUSED[name][2])


def test_pixels_that_are_not_square_are_told(takes):
    entry, demo, _ = takes["wide pixels.mp4"]
    assert demo["obs/camera_image"].shape == (30, 120, 160, 3) and "2:1" in finding(entry, "pixels-not-square")["message"]
    assert codes(takes["nearly square pixels.mp4"][0]) == []
