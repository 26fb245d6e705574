"""Videos: limits, and indexes and headers that claim too much."""

import json
import struct

import pytest
from command import BINARY, measured
from conversions import failed_with, fails, pipeline
from outputs import manifest, only, record
from video_checks import convert
from videos import FRAGMENTS, box, changed, patched, times, video_file


@pytest.mark.parametrize("options, words", [
    ({"max-samples": 44}, [44, 45]), ({"max-seconds": 1}, [1]), ({"max-side": 199}, ["200x120", 199])
])
def test_limits_are_options(takeset, tmp_path, options, words):
    (tmp_path / "bad.mov").write_bytes(video_file(size=(200, 120)))
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", **options})
    fails(takeset, tmp_path / "bad.mov", "limit", *words, arguments=arguments)


def test_what_is_just_within_the_limits_is_written(takeset, tmp_path):
    reader = {"name": "slow-motion-video", "max-samples": 45, "max-seconds": 2, "max-side": 160}
    entry, _, _, _ = convert(takeset, tmp_path, video_file(), arguments=pipeline(tmp_path, reader))
    assert entry["outcome"] == "written"


def lie(path, offset, contents):
    return lambda: patched(video_file(), path, offset, contents)


HOSTILE = {
    "2^31 samples in one size": lie("moov/trak/mdia/minf/stbl/stsz", 4, struct.pack(">II", 1, 2**31)),
    "2^31 samples of many sizes": lie("moov/trak/mdia/minf/stbl/stsz", 8, struct.pack(">I", 2**31)),
    "2^31 chunks": lie("moov/trak/mdia/minf/stbl/stco", 4, struct.pack(">I", 2**31)),
    "a box of 2^63 bytes": lambda: video_file()[: video_file().index(b"moov") - 4] + struct.pack(">I4sQ", 1, b"moov", 2**63),
    "a box that is smaller than its head": lambda: video_file()[: video_file().index(b"moov") - 4] + struct.pack(">I4sQ", 1, b"moov", 3),
    "boxes in boxes": lambda: video_file()[: video_file().index(b"moov") - 4] + nested(2000),
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
    (tmp_path / "bad.mp4").write_bytes(changed(video_file(**FRAGMENTS), "moof/traf/trun", lambda payload: claim))
    code, peak, seconds = measured(BINARY, "run", tmp_path / "bad.mp4", "--output", tmp_path / "out")
    assert code == 3 and peak < 300e6 and seconds < 5
    failed_with(record(tmp_path / "out"), "limit", 20_000_000)


def test_a_table_of_times_that_claims_2_31_entries_gives_true_times_or_none(takeset, tmp_path):
    (tmp_path / "bad.mov").write_bytes(lie("moov/trak/mdia/minf/stbl/stts", 4, struct.pack(">I", 2**31))())
    code, peak, seconds = measured(BINARY, "run", tmp_path / "bad.mov", "--output", tmp_path / "out")
    assert code in (0, 3) and peak < 300e6 and seconds < 5
    if code == 0:
        assert list(only(tmp_path / "out")[2]["timestamp_ns"][:]) == times(tmp_path / "bad.mov")


# A parameter set that claims too much


# As x264 writes it, but of 900 by 900 macroblocks, at the highest level, which allows the most.
HUGE_SET = bytes.fromhex("6764003eacb40070800e1320")


def with_huge_set(data):
    """The video with this sequence parameter set in its avcC; zeros behind a set are none of it."""
    at = data.index(b"avcC") + 12
    size = int.from_bytes(data[at - 2 : at])
    return data[:at] + HUGE_SET.ljust(size, b"\0") + data[at + size :]


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_video_whose_parameter_set_claims_a_huge_image_is_refused_and_costs_no_memory(takeset, tmp_path, command):
    (tmp_path / "pour.mov").write_bytes(with_huge_set(video_file(count=30, size=(320, 180))))
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
