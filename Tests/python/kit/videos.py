"""Generated videos: NumPy draws, ffmpeg encodes; and the boxes of a video file, to change single fields."""

import functools
import json
import struct
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np


# Images and videos


@functools.lru_cache(maxsize=1000)
def yuv_image(number, width, height):
    """A YUV 4:2:0 image of smooth colors and a little noise; 24 blocks along the top carry its number."""
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    noise = np.random.default_rng(number).integers(-6, 7, (height, width))
    luma = (60 + 90 * x + 40 * y + (3 * number) % 30 + noise).astype(np.uint8)
    bits = [number >> (19 - k) & 1 for k in range(20)]
    bits += [sum(bits[group * 5 : group * 5 + 5]) % 2 for group in range(4)]
    for k, bit in enumerate(bits):
        luma[: max(height // 10, 8), k * width // 24 : (k + 1) * width // 24] = 235 if bit else 20
    blue = (100 + 50 * x[::2, ::2]).astype(np.uint8)
    red = (160 - 60 * y[::2, ::2]).astype(np.uint8)
    return luma.tobytes() + blue.tobytes() + red.tobytes()


ENCODERS = {
    "h264": ["-c:v", "libx264", "-preset", "veryfast", "-b_strategy", "0", "-sc_threshold", "0", "-crf", "18"],
    "hevc": ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:b-adapt=0", "-crf", "18", "-tag:v", "hvc1"],
    "mpeg4": ["-c:v", "mpeg4", "-q:v", "3"],
    "prores": ["-c:v", "prores_ks"],
}
BT709 = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv")


def ffmpeg(*arguments, contents=None):
    command = ["ffmpeg", "-hide_banner", "-nostdin", "-y", "-v", "error", *map(str, arguments)]
    return subprocess.run(command, input=contents, capture_output=True, check=True).stdout


def made(suffix, *arguments, contents=None):
    """The bytes of a file that ffmpeg makes."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"movie{suffix}"
        ffmpeg(*arguments, path, contents=contents)
        return path.read_bytes()


@functools.cache
def video_file(count=45, fps=30, timescale=600, codec="h264", container="mov", b_frames=0, size=(160, 120), ticks=None, color=BT709, extra=()):
    """A video whose image i carries the number i, at ticks[i] or the tick nearest to i / fps."""
    width, height = size
    if ticks:
        count = len(ticks)
        time = f"{ticks[0]}+" + "+".join(f"{b - a}*gte(N,{k})" for k, (a, b) in enumerate(zip(ticks, ticks[1:]), 1))
    else:
        time = f"round(N*{timescale}/({fps}))"
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", fps, "-i", "-"]
    arguments += ["-vf", f"settb=1/{timescale},setpts='{time}'", "-fps_mode", "passthrough", "-enc_time_base", f"1:{timescale}"]
    arguments += [*ENCODERS[codec], "-bf", b_frames, "-g", 15, "-threads", 1, *color, "-video_track_timescale", timescale, *extra]
    return made(f".{container}", *arguments, contents=b"".join(yuv_image(i, width, height) for i in range(count)))


def remade(data, *arguments, before=(), suffix=".mov"):
    """A video that ffmpeg makes of another one's packets."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"source{suffix}"
        path.write_bytes(data)
        return made(suffix, *before, "-i", path, "-c", "copy", *arguments)


def probe(path, *entries):
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-of", "json", *map(str, entries), str(path)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def times(path):
    """Nanoseconds of each frame since the first, as ffprobe has them."""
    return times_and_unit(path)[0]


def times_and_unit(path):
    found = probe(path, "-show_frames", "-show_entries", "stream=time_base:frame=pts")
    unit = found["streams"][0]["time_base"]
    ticks = [frame["pts"] for frame in found["frames"]]
    return [round((tick - ticks[0]) * Fraction(unit) * 10**9) for tick in ticks], unit


def decoded(path, *options, size=(160, 120)):
    """Every frame as ffmpeg converts it to RGB, upright unless the options say otherwise."""
    flags = ["-sws_flags", "bilinear+accurate_rnd+full_chroma_int"]
    raw = ffmpeg(*options, "-i", path, "-fps_mode", "passthrough", *flags, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3)


# Boxes of a video file


def boxes(data):
    position = 0
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        yield kind.decode(), data[position + 8 : position + size]
        position += size


def box(kind, payload):
    return struct.pack(">I4s", len(payload) + 8, kind.encode()) + payload


def changed(data, path, change):
    """The video with the payload of the boxes at a path such as moov/trak/tkhd replaced; None removes the box."""
    first, _, rest = path.partition("/")
    out = b""
    for kind, payload in boxes(data):
        if kind == first:
            payload = changed(payload, rest, change) if rest else change(payload)
        out += b"" if payload is None else box(kind, payload)
    return out


def patched(data, path, offset, bytes_):
    return changed(data, path, lambda payload: payload[:offset] + bytes_ + payload[offset + len(bytes_) :])


def rotated(data, degrees, width=160, height=120):
    """The video with a display matrix that rotates it clockwise."""
    a, b, c, d, x, y = {
        0: (1, 0, 0, 1, 0, 0), 90: (0, 1, -1, 0, height, 0), 180: (-1, 0, 0, -1, width, height), 270: (0, -1, 1, 0, 0, width)
    }[degrees]
    matrix = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, x << 16, y << 16, 1 << 30)
    return patched(data, "moov/trak/tkhd", 40, matrix)


def with_reference(kind, location, flags=0):
    """A video whose only track has its samples where a data reference of this kind leads."""
    table = struct.pack(">II", 0, 1) + box(kind, struct.pack(">I", flags) + location)
    return changed(video_file(count=6), "moov/trak/mdia/minf/dinf/dref", lambda payload: table)


def samples(data):
    """Offset and size of every sample, in the order of the file."""
    with tempfile.NamedTemporaryFile(suffix=".mov") as file:
        Path(file.name).write_bytes(data)
        packets = probe(file.name, "-show_packets", "-show_entries", "packet=pos,size")["packets"]
    return sorted((int(p["pos"]), int(p["size"])) for p in packets)


FRAGMENTS = dict(container="mp4", extra=("-movflags", "frag_keyframe+empty_moov"))


def cut(kept, codec="h264", of_next=0.5):
    """A video with its index first that ends within the sample after those kept."""
    data = video_file(codec=codec, extra=("-movflags", "+faststart"))
    offset, size = samples(data)[kept]
    return data[: offset + int(size * of_next)]


def flipped(data, which, lengths=False):
    """The video with bytes of some samples inverted, or the length that precedes them."""
    out, places = bytearray(data), samples(data)
    for offset, size in [places[i] for i in which]:
        if lengths:
            out[offset : offset + 4] = b"\x00\xff\xff\xff"
        else:
            for k in range(offset + size // 4, offset + size // 2):
                out[k] ^= 0xFF
    return bytes(out)


def unfinished(share):
    data = video_file()
    end = data.index(b"moov") - 4
    return data[: 40 + int((end - 40) * share)]
