"""Movies and bundles made from nothing: NumPy draws, ffmpeg encodes, zlib packs depth, hashlib links chains, cryptography signs."""

import base64
import dataclasses
import functools
import gzip
import hashlib
import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import yaml
from conftest import demos, manifest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from test_takes import frame_code

# Pictures and movies


@functools.lru_cache(maxsize=1000)
def picture(number, width, height):
    """A YUV 4:2:0 picture of smooth colours and a little noise; 24 blocks along the top carry its number."""
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
def movie(count=45, fps=30, timescale=600, codec="h264", container="mov", b_frames=0, size=(160, 120), ticks=None, colour=BT709, extra=()):
    """A movie whose picture i carries the number i and stands at ticks[i], or the tick nearest to i / fps."""
    width, height = size
    if ticks:
        count = len(ticks)
        time = f"{ticks[0]}+" + "+".join(f"{b - a}*gte(N,{k})" for k, (a, b) in enumerate(zip(ticks, ticks[1:]), 1))
    else:
        time = f"round(N*{timescale}/({fps}))"
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", fps, "-i", "-"]
    arguments += ["-vf", f"settb=1/{timescale},setpts='{time}'", "-fps_mode", "passthrough", "-enc_time_base", f"1:{timescale}"]
    arguments += [*ENCODERS[codec], "-bf", b_frames, "-g", 15, "-threads", 1, *colour, "-video_track_timescale", timescale, *extra]
    return made(f".{container}", *arguments, contents=b"".join(picture(i, width, height) for i in range(count)))


def remade(data, *arguments, before=(), suffix=".mov"):
    """A movie that ffmpeg makes of another one's packets."""
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
    """Every frame as ffmpeg turns it into RGB, upright unless told otherwise."""
    flags = ["-sws_flags", "bilinear+accurate_rnd+full_chroma_int"]
    raw = ffmpeg(*options, "-i", path, "-fps_mode", "passthrough", *flags, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3)


# Boxes of a movie


def boxes(data):
    position = 0
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        yield kind.decode(), data[position + 8 : position + size]
        position += size


def box(kind, payload):
    return struct.pack(">I4s", len(payload) + 8, kind.encode()) + payload


def changed(data, path, change):
    """The movie with the payload of the boxes at a path such as moov/trak/tkhd replaced; None removes the box."""
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
    """The movie with a display matrix that turns it clockwise."""
    a, b, c, d, x, y = {
        0: (1, 0, 0, 1, 0, 0), 90: (0, 1, -1, 0, height, 0), 180: (-1, 0, 0, -1, width, height), 270: (0, -1, 1, 0, 0, width)
    }[degrees]
    matrix = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, x << 16, y << 16, 1 << 30)
    return patched(data, "moov/trak/tkhd", 40, matrix)


def samples(data):
    """Offset and size of every sample, in the order of the file."""
    with tempfile.NamedTemporaryFile(suffix=".mov") as file:
        Path(file.name).write_bytes(data)
        packets = probe(file.name, "-show_packets", "-show_entries", "packet=pos,size")["packets"]
    return sorted((int(p["pos"]), int(p["size"])) for p in packets)


# Depth


def maps(count, width=256, height=192):
    """Depth maps that differ from each other and in every corner; some pixels are no distance."""
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    found = np.stack([1 + 0.05 * k + x + 0.5 * y for k in range(count)]).astype("<f4")
    found.reshape(count, -1)[:, :5] = [np.nan, np.inf, -np.inf, -1, 0]
    return found


def deflated(data):
    packer = zlib.compressobj(5, zlib.DEFLATED, -15, 8)
    return packer.compress(data) + packer.flush()


CONTAINERS = {"deflate": deflated, "gzip": lambda data: gzip.compress(data, mtime=0), "zlib": zlib.compress, "none": bytes}


def rldp(depth, seconds=None, version=1, count=None, width=None, height=None, offsets=None):
    """The indexed layout; what is given replaces what the maps say."""
    n, h, w = depth.shape
    seconds = [k / 10 for k in range(n)] if seconds is None else seconds
    offsets = [k * w * h * 4 for k in range(n)] if offsets is None else offsets
    said = [theirs if given is None else given for given, theirs in ((count, n), (width, w), (height, h))]
    header = struct.pack("<4sIIHH", b"RLDP", version, *said)
    return header + b"".join(struct.pack("<dI", *entry) for entry in zip(seconds, offsets)) + depth.tobytes()


@functools.cache
def depth_part(keyframes, container, layout, fps, size):
    depth = maps(keyframes, *size)
    return CONTAINERS[container](rldp(depth, [3 * k / fps for k in range(keyframes)]) if layout == "rldp" else depth.tobytes())


# Hash chains and assertions


def base64_text(data):
    return base64.b64encode(data).decode()


def linked(frames):
    """H(n) over each frame's bytes and the hash before; the first frame has none before it."""
    found = []
    for frame in frames:
        found.append(hashlib.sha256(frame + (found[-1] if found else b"")).digest())
    return found


def chain(count=45, checkpoints=(), fps=30):
    """The hash_chain part of a capture of so many frames, as an object; checkpoints are frame numbers."""
    digests = linked(struct.pack("<Qd", n, n / fps) for n in range(count))
    return {
        "checkpoint_count": len(checkpoints),
        "checkpoints": [
            {"frame_number": n, "hash": base64_text(digests[n - 1]), "index": index, "timestamp": (n - 1) / fps}
            for index, n in enumerate(checkpoints)
        ],
        "final_hash": base64_text(digests[-1]),
        "frame_count": count,
        "frame_hashes": [base64_text(digest) for digest in digests],
    }


def chain_json(found):
    """As the app writes it: compact, keys sorted, slashes escaped."""
    return json.dumps(found, sort_keys=True, separators=(",", ":")).replace("/", "\\/").encode()


APP = "TEAM123456.org.example.capture"


class Device:
    """A phone's App Attest key."""

    def __init__(self, number=1):
        self.key = ec.derive_private_key(1000 + number, ec.SECP256R1())

    @property
    def point(self):
        return self.key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)

    def assertion(self, client_data, app=APP, counter=1, once=False, swapped=False):
        """Base64 of what the phone signs over client data. `once` leaves out one of the two hashes."""
        data = hashlib.sha256(app.encode()).digest() + b"\x40" + struct.pack(">I", counter)
        signed = data + hashlib.sha256(client_data).digest()
        if not once:
            signed = hashlib.sha256(signed).digest()
        entries = [("signature", self.key.sign(signed, ec.ECDSA(hashes.SHA256()))), ("authenticatorData", data)]
        return base64_text(bytes([0xA2]) + b"".join(cbor_text(key) + cbor_bytes(value) for key, value in entries[:: -1 if swapped else 1]))


def cbor_text(text):
    return bytes([0x60 + len(text)]) + text.encode()


def cbor_bytes(data):
    return bytes([0x58, len(data)]) + data


def keys_file(path, devices, apps=(APP,)):
    path.write_text(json.dumps({"app_ids": list(apps), "devices": {name: base64_text(device.point) for name, device in devices.items()}}))
    return path


# Bundles

NAMES = {"video": "video.mov", "depth_data": "depth.gz", "hash_chain": "hash_chain.json", "metadata": "metadata.json"}
STORAGE = {"video": "video.mp4", "depth_data": "video_depth.gz", "hash_chain": "hash_chain.json"}


@dataclasses.dataclass
class Bundle:
    """The four parts of a capture; a part that is None is not there. Chain and metadata may be objects or bytes."""

    video: bytes | None = None
    depth_data: bytes | None = None
    hash_chain: dict | bytes | None = None
    metadata: dict | bytes | None = None

    def parts(self):
        found = {"video": self.video, "depth_data": self.depth_data, "hash_chain": self.hash_chain, "metadata": self.metadata}
        if isinstance(self.hash_chain, dict):
            found["hash_chain"] = chain_json(self.hash_chain)
        if isinstance(self.metadata, dict):
            found["metadata"] = json.dumps(self.metadata).encode()
        return {name: data for name, data in found.items() if data is not None}

    def write(self, directory, names=NAMES):
        directory.mkdir(parents=True)
        for part, data in self.parts().items():
            if part in names:
                (directory / names[part]).write_bytes(data)
        return directory

    def body(self, order=tuple(NAMES), boundary="RialVideo-0E36A7E2-6B4B-4BC2-A86C-6E1E5A1A8F10", end=True):
        types = {"video": "video/mp4", "depth_data": "application/gzip"}
        parts = self.parts()
        out = b"".join(
            form_part(boundary, name, STORAGE.get(name, NAMES[name]), types.get(name, "application/json"), parts[name])
            for name in order if name in parts
        )
        return out + (f"--{boundary}--\r\n".encode() if end else b"")


def form_part(boundary, name, filename, kind, data):
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: {kind}\r\n\r\n'
    return head.encode() + data + b"\r\n"


def bundle(
    count=45, keyframes=None, container="deflate", layout="headerless", fps=30, checkpoints=(), video=None, depth_data=None,
    size=(256, 192), **metadata
):
    """A sound capture, or one with another movie or depth; further keywords replace fields of its metadata."""
    keyframes = min(150, -(-count // 3)) if keyframes is None else keyframes
    found = chain(count, checkpoints, fps)
    fields = {
        "started_at": "2025-11-27T10:30:00.123Z", "ended_at": "2025-11-27T10:30:02.456Z", "duration_ms": round(count * 1000 / fps) + 40,
        "frame_count": count, "depth_keyframe_count": keyframes, "resolution": {"width": 160, "height": 120}, "codec": "h264",
        "device_model": "iPhone", "attestation_level": "secure_enclave", "hash_chain_final": found["final_hash"], "assertion": "",
    }
    return Bundle(
        video=video or movie(count, fps),
        depth_data=depth_data or depth_part(keyframes, container, layout, fps, size),
        hash_chain=found,
        metadata={**fields, **metadata},
    )


# Running


def pipeline(directory, reader="auto", **transforms):
    """A pipeline file: reader options, then align and what is given."""
    steps = [{"align": {}}, *({name.replace("_", "-"): options} for name, options in transforms.items())]
    path = directory / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "reader": reader, "transforms": steps}, sort_keys=False))
    return ["--pipeline", path]


def record(output):
    """The entry of the only take."""
    (found,) = manifest(output)["record"]["takes"]
    return found


def codes(entry, *severities):
    """The codes of its findings, of some severities or all; not those that repeat the state of the assertion."""
    found = [f["code"] for f in entry["findings"] if not severities or f["severity"] in severities]
    return [code for code in found if not code.startswith("assertion-")]


def only(output):
    """The entry, demo and meta of a dataset of one take."""
    ((demo, meta),) = demos(output).values()
    return record(output), demo, meta


def converted(takeset, path, arguments=()):
    """The entry, demo and meta of one take, converted beside itself."""
    takeset.convert(path, output=path.parent / "out", arguments=arguments)
    return only(path.parent / "out")


def together(takeset, root, found, arguments=(), check=0):
    """The entries of takes by their names, all converted in one run: bundles, or the contents of files named with their suffix."""
    paths = []
    for name, one in found.items():
        paths.append(one.write(root / "in" / name) if isinstance(one, Bundle) else root / "in" / name)
        if not isinstance(one, Bundle):
            paths[-1].parent.mkdir(exist_ok=True)
            paths[-1].write_bytes(one)
    takeset.convert(*paths, output=root / "out", arguments=arguments, check=check)
    return {entry["id"]: entry for entry in manifest(root / "out")["record"]["takes"]}


def close(stored, expected, most=3, mean=1):
    difference = np.abs(stored.astype(int) - expected)
    assert stored.shape == expected.shape, (stored.shape, expected.shape)
    assert difference.max() <= most and difference.mean() <= mean, (difference.max(), difference.mean())


def numbers(images, degrees=0):
    """The numbers in pictures that are stored turned clockwise."""
    return [frame_code(np.rot90(image, degrees // 90)) for image in images]


def input_digest(files):
    """input_sha256 of files given by name."""
    lines = sorted(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode() for name, data in files.items())
    return hashlib.sha256(b"".join(lines)).hexdigest()


def traces(directory, *words):
    """Which of these words stand anywhere in an output directory."""
    contents = [p.read_bytes() for p in directory.rglob("*") if p.is_file()]
    return [word for word in words if any(word.encode() in data for data in contents)]


def same_for_all_jobs(takeset, source, check=0, jobs=(1, 3)):
    """Converts with one job and with more; everything must be equal. The number of episodes."""
    seen = []
    for count in jobs:
        output = source.parent / f"out{count}"
        takeset.convert(source, output=output, check=check, arguments=["--jobs", count])
        shards = {p.name: p.read_bytes() for p in (output / "episodes").iterdir()}
        seen.append((manifest(output)["record"], shards, (output / "dataset.h5").read_bytes()))
    assert all(one == seen[0] for one in seen)
    return len(seen[0][1])


def measured(*command):
    """Exit code, peak resident bytes and seconds of a command, started by a process so small that its own size does not count."""
    text = (
        "import resource, subprocess, sys, time\n"
        "start = time.monotonic()\n"
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
        "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, time.monotonic() - start)\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", text, *map(str, command)], capture_output=True, text=True, check=True)
    code, peak, seconds = done.stdout.split()
    return int(code), int(peak), float(seconds)


def failed_with(entry, code, *words):
    """That a take failed with this code, and that the reason has these words and numbers."""
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] == code, entry["findings"]
    assert entry["findings"][-1]["severity"] == "error"
    for word in words:
        assert re.search(rf"(?<![0-9]){re.escape(str(word))}(?![0-9])", entry["reason"]), entry["reason"]


def fails(takeset, bad, code, *words, arguments=()):
    """The bad take fails with this code and these words; the good one beside it is written."""
    good = bad.parent / "good.mov"
    good.write_bytes(movie(count=6))
    output = bad.parent / "out"
    done = takeset.convert(good, bad, output=output, check=3, arguments=arguments)
    (entry,) = [t for t in manifest(output)["record"]["takes"] if t["outcome"] == "failed"]
    failed_with(entry, code, *words)
    assert entry["reason"] in done.stderr
    assert [p.name for p in (output / "episodes").iterdir()] == ["good.h5"] and list(demos(output)) == ["good"]
    return entry
