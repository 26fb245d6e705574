"""Videos: limits, and indexes and headers that claim too much."""

import json
import struct
import subprocess

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
        """Copies the rest up to the stop bit; the bytes of everything copied."""
        self.out += self.bits[self.at :].rstrip("0")
        self.out += "0" * (-len(self.out) % 8)
        return bytes(int(self.out[k : k + 8], 2) for k in range(0, len(self.out), 8))


def sps_with_size(unit, width, height):
    """A sequence parameter set of H.264 (ITU-T H.264, 7.3.2.1.1) that states another size."""
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


def with_coded_size(data, width, height):
    """The video with another size in its avcC, and the size before; all else is unchanged."""
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
    """With the size that it has, but for what is cut off, the video is as ffmpeg made it."""
    intact = video_file(count=10, size=(320, 192))
    same, before = with_coded_size(intact, 320, 192)
    assert before == (320, 192)
    (tmp_path / "same.mov").write_bytes(same)
    (tmp_path / "sound.mov").write_bytes(intact)
    frames = [
        subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / name, "-f", "rawvideo", "-"], capture_output=True, check=True).stdout
        for name in ("same.mov", "sound.mov")
    ]
    assert frames[0] == frames[1] and len(frames[0]) == 10 * 320 * 192 * 3 // 2


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_video_whose_parameter_set_claims_a_huge_image_is_refused_and_costs_no_memory(takeset, tmp_path, command):
    data, before = with_coded_size(video_file(count=30, size=(320, 180)), 14400, 14400)
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
