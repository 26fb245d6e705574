"""Generated bundles: zlib packs depth, hashlib links chains, cryptography signs."""

import base64
import dataclasses
import functools
import gzip
import hashlib
import json
import struct
import zlib

import numpy as np
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from videos import video_file


# Depth


def maps(count, width=256, height=192):
    """Depth maps that differ from each other and in every corner; some pixels are not valid depth values."""
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
        """Base64 of what the phone signs over client data. `once` skips one of the two hashes."""
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
    """The four parts of a capture; a part that is None is absent. Chain and metadata may be objects or bytes."""

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
    """A valid capture, or one with another video or depth; further keywords replace fields of its metadata."""
    keyframes = min(150, -(-count // 3)) if keyframes is None else keyframes
    found = chain(count, checkpoints, fps)
    fields = {
        "started_at": "2025-11-27T10:30:00.123Z", "ended_at": "2025-11-27T10:30:02.456Z", "duration_ms": round(count * 1000 / fps) + 40,
        "frame_count": count, "depth_keyframe_count": keyframes, "resolution": {"width": 160, "height": 120}, "codec": "h264",
        "device_model": "iPhone", "attestation_level": "secure_enclave", "hash_chain_final": found["final_hash"], "assertion": "",
    }
    return Bundle(
        video=video or video_file(count, fps),
        depth_data=depth_data or depth_part(keyframes, container, layout, fps, size),
        hash_chain=found,
        metadata={**fields, **metadata},
    )


SMALL = {"container": "gzip", "layout": "rldp", "size": (8, 6)}


def in_movie(journal):
    """Frames in the last whole segment of which the journal of a recording tells."""
    data, at, frames = journal.read_bytes(), 0, 0
    while at + 5 <= len(data):
        size, kind = struct.unpack_from("<IB", data, at)
        if at + 9 + size > len(data):
            break
        if kind == 3:
            frames = struct.unpack_from("<I", data, at + 13)[0]
        at += size + 9
    return frames
