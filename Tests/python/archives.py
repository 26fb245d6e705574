"""Sessions made from nothing, and zip and tar archives made byte by byte, so that each field of them can lie."""

import dataclasses
import functools
import io
import json
import struct
import tarfile
import zlib

import numpy as np
from bundles import movie
from PIL import Image

# Sessions

START = 1771446234.25  # Unix seconds at which the simulated phone starts to record
BOOT = 81234.5  # the same moment in seconds since boot
SLAM = {"v3-slam", "v3-scaled", "packed"}


@functools.cache
def picture(number, width, height):
    """A JPEG whose top row of 24 blocks carries its number, in shades that differ from picture to picture."""
    bits = [number >> (19 - k) & 1 for k in range(20)]
    bits += [sum(bits[group * 5 : group * 5 + 5]) % 2 for group in range(4)]
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    image = np.stack([60 + 100 * x, 60 + 100 * y, np.full_like(x, 60 + 7 * number % 120)], -1).astype(np.uint8)
    for k, bit in enumerate(bits):
        image[: max(height // 5, 8), k * width // 24 : (k + 1) * width // 24] = 235 if bit else 20
    return jpeg(Image.fromarray(image))


def jpeg(image):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=85)
    return out.getvalue()


def depth_map(number, width=16, height=12):
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    return (1 + 0.1 * number + x + 0.5 * y).astype("<f4").tobytes()


def transform(number, seed=0):
    """A rigid motion on a smooth path of which no two places are the same."""
    turn, tilt = 0.3 + 0.02 * number + seed, 0.1 + 0.01 * number
    about_y = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    matrix = np.eye(4)
    matrix[:3, :3] = about_y @ about_x
    matrix[:3, 3] = [0.1 + 0.01 * number, 0.02 * np.sin(number), -0.3 + 0.005 * number + seed]
    return matrix.tolist()


def pose(variant, number, seed):
    entry = {"rgbIndex": number, "transform": transform(number, seed)}
    if variant in SLAM:
        return {"timestamp": number / 60, **entry, "depth": None}
    entry["timestamp"] = BOOT + number / 60
    if variant == "v1" and number % 2 == 0:
        entry["depthIndex"] = number // 2
    if variant == "v2":
        entry["depth"] = 1.25 + number / 64
    return entry


def reading(number):
    angles = {"index_mcp": 10, "index_pip": 40, "three_finger_mcp": 120, "three_finger_pip": 200}
    angles = {name: (first + number) * 45 / 512 for name, first in angles.items()}
    return {"timestamp": START + 0.01 + 0.02 * number, "esp_timestamp_ms": 5000 + 20 * number, **angles}


def motion(number):
    return {"timestamp": START + 0.01 * number, "accel": [0.01, -0.02, 0.001 * number], "gyro": [0.1, 0.5 - 0.003 * number, 0.2]}


def session(variant="v2", count=8, seed=0, size=(96, 48)):
    """The files of a sound session by path. The movie of v3 has as many pictures as rgb/."""
    size = (224, 224) if variant == "packed" else size
    files = {f"rgb/{number:06d}.jpg": picture(number, *size) for number in range(count)}
    said = {"deviceModel": "iPhone17,1", "iosVersion": "18.3", "startTime": "2026-02-18T20:23:54Z", "rgbFrameCount": count}
    said["rgbResolution"] = [480, 360] if variant == "packed" else list(size)
    if variant == "synthetic":
        said = {"deviceModel": "synthetic", "rgbResolution": list(size), "frameCount": count, "synthetic": True, "seed": seed}
    entries = [] if variant == "v3-raw" else [pose(variant, number, seed) for number in range(count)]
    said["poseCount"] = len(entries)
    if variant == "v1":
        files |= {f"depth/{number:06d}.bin": depth_map(number) for number in range((count + 1) // 2)}
        said |= {"depthResolution": [16, 12], "depthFrameCount": (count + 1) // 2}
    else:
        readings = [reading(number) for number in range(count // 3 + 3)]
        files["encoders.json"] = dumped(readings)
        said |= {"bleConnected": True, "encoderCount": len(readings)}
    if variant in ("v3-raw", "v3-slam", "v3-scaled"):
        motions = [motion(number) for number in range(count * 2)]
        files |= {"imu.json": dumped(motions), "video.mov": movie(count, fps=60)}
        said |= {"imuCount": len(motions), "hasVideo": True}
    if variant in SLAM | {"v3-raw"}:
        said |= {"captureSource": "iphone_ultrawide", "slamProcessed": variant in SLAM}
    if variant in SLAM:
        files["calib.txt"] = b"183.5000 183.5000 240.0000 180.0000"
    if variant == "v3-scaled":
        said["scale_factor"] = 0.4375
    return files | {"poses.json": dumped(entries), "metadata.json": dumped(said)}


def dumped(value):
    return json.dumps(value).encode()


def changed(files, name, **fields):
    """The session with fields of a JSON object replaced."""
    return files | {name: dumped(json.loads(files[name]) | fields)}


def put(directory, files):
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


# Zip

FILE, DIRECTORY, LINK, FIFO, CHARACTERS, BLOCKS, SOCKET = 0o100644, 0o040755, 0o120777, 0o010644, 0o020644, 0o060644, 0o140644
NOTHING, MOST16, MOST32, MOST64 = 0, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


@dataclasses.dataclass
class Member:
    """A member of a zip. What is None is worked out; `packed`, `crc` and `size` can be made to lie."""

    name: str | bytes
    data: bytes = b""
    method: int = 8
    mode: int = FILE
    flags: int = 0
    streamed: str = ""  # "signed" or "bare": sizes stand behind the data, with or without a signature
    zip64: bool = False
    packed: bytes | None = None
    crc: int | None = None
    size: int | None = None
    at: int | None = None  # where the directory says that it stands

    def written(self, position):
        """What stands at a position of the file, and the entry of the directory."""
        name = self.name if isinstance(self.name, bytes) else self.name.encode()
        flags = self.flags | (0x800 if not name.isascii() else 0) | (8 if self.streamed else 0)
        packed = self.packed if self.packed is not None else deflated(self.data) if self.method == 8 else self.data
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        size = len(self.data) if self.size is None else self.size
        position = position if self.at is None else self.at
        large = self.zip64 or size > MOST32
        sizes = (MOST32, MOST32) if large else (len(packed), size)
        extra = struct.pack("<HHQQ", 1, 16, size, len(packed)) if large else b""
        version = 45 if large else 20
        said = (0, 0, 0) if self.streamed else (crc, *sizes)
        there = b"" if self.streamed else extra
        local = struct.pack("<4s5H3I2H", b"PK\3\4", version, flags, self.method, 0, 0x5A52, *said, len(name), len(there)) + name + there
        if self.streamed:
            packed += (b"PK\7\x08" if self.streamed == "signed" else b"") + struct.pack("<III", crc, len(packed), size)
        entry = struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 3 << 8 | version, version, flags, self.method, 0, 0x5A52, crc, *sizes, len(name), len(extra),
            0, 0, 0, self.mode << 16 | (0x10 if self.mode == DIRECTORY else 0), position,
        )
        return local + packed, entry + name + extra


@functools.lru_cache(maxsize=2000)
def deflated(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def members(files, root="session_X", **options):
    """A member for each file, below a root or, with an empty one, none."""
    return [Member(f"{root}/{name}" if root else name, data, **options) for name, data in files.items()]


def directories(files, root="session_X"):
    names = {root} | {f"{root}/{name.rpartition('/')[0]}" for name in files if "/" in name}
    return [Member(f"{name}/", mode=DIRECTORY, method=0) for name in sorted(names)]


def zipped(found, zip64=False, comment=b"", count=None, length=None, start=None):
    """A zip of members; what the end of its directory says can be replaced."""
    body, directory = bytearray(), bytearray()
    for one in found:
        local, entry = one.written(len(body))
        body += local
        directory += entry
    said = (len(found) if count is None else count, len(directory) if length is None else length, len(body) if start is None else start)
    end = b""
    if zip64 or said[0] > MOST16 or max(said[1:]) > MOST32:
        end += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, said[0], *said)
        end += struct.pack("<4sIQI", b"PK\6\7", 0, len(body) + len(directory), 1)
        said = (MOST16, MOST32, MOST32)
    return bytes(body + directory + end + struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, said[0], *said, len(comment)) + comment)


def zip_of(files, root="session_X", **options):
    return zipped(members(files, root, **options))


@functools.cache
def zeros(mebibytes, before=b"", after=b""):
    """Zeros between other bytes, deflated, with check sum and length, made without ever having them all."""
    packed, crc = b"", 0
    for data, times in (before, 1), (bytes(1 << 20), mebibytes), (after, 1):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed += (packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)) * times
        for _ in range(times):
            crc = zlib.crc32(data, crc)
    return packed + zlib.compressobj(9, zlib.DEFLATED, -15).flush(), crc, len(before) + (mebibytes << 20) + len(after)


def bomb(name, mebibytes, before=b"", after=b"", **lies):
    """A member of so many zeros."""
    packed, crc, size = zeros(mebibytes, before, after)
    return Member(name, packed=packed, **({"crc": crc, "size": size} | lies))


def overlapping(name, copies, mebibytes):
    """A zip whose directory names the same bytes many times over."""
    one = bomb(name, mebibytes)
    body, _ = one.written(0)
    directory = b"".join(dataclasses.replace(one, name=f"{name}{k}", at=0).written(0)[1] for k in range(copies))
    return body + directory + struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, copies, copies, len(directory), len(body), 0)


# Tar

END = bytes(1024)


def header(name, size=0, kind=b"0", link="", prefix="", magic=b"ustar\x0000", field=None, checksum=None):
    """A tar header; `field` replaces the twelve bytes of the size, `checksum` the eight of the sum."""
    def text(value, length):
        value = value if isinstance(value, bytes) else value.encode()
        assert len(value) <= length, value
        return value.ljust(length, b"\0")

    size = field or b"%011o\0" % size
    block = text(name, 100) + b"0000644\0" + b"0000000\0" * 2 + size + b"00000000000\0" + b" " * 8 + kind + text(link, 100)
    block += magic + bytes(64) + b"0000000\0" * 2 + text(prefix, 155) + bytes(12)
    return summed(block) if checksum is None else block[:148] + checksum + block[156:]


def summed(block):
    """The header with the sum that its other bytes have."""
    blank = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % sum(blank) + block[156:]


def entry(name, data=b"", **options):
    return header(name, len(data), **options) + data + bytes(-len(data) % 512)


def base256(number):
    return (number & (1 << 95) - 1 | 1 << 95 if number >= 0 else number & (1 << 96) - 1).to_bytes(12, "big")


def pax(records, kind=b"x"):
    """An extended header of these records, each with its own length in front."""
    out = b""
    for key, value in records.items():
        line = b" %b=%b\n" % (key.encode(), value if isinstance(value, bytes) else str(value).encode())
        length = len(line) + len(str(len(line)))
        length += len(str(length)) > len(str(len(line)))
        out += str(length).encode() + line
    return entry("PaxHeaders/x", out, kind=kind)


def long_name(name):
    return entry("././@LongLink", name.encode() + b"\0", kind=b"L", magic=b"ustar  \0")


def tar_of(files, root="session_X", format=tarfile.USTAR_FORMAT, folders=False):
    """A tar as Python's own library writes it, with or without entries of directories."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        made = set()
        for name, data in files.items():
            path = f"{root}/{name}" if root else name
            parents = path.split("/")[:-1]
            for depth in range(1, len(parents) + 1) if folders else ():
                folder = tarfile.TarInfo("/".join(parents[:depth]))
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                if folder.name not in made:
                    archive.addfile(folder)
                made.add(folder.name)
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_entries(files, root="session_X", **options):
    """The entries of a tar, each header by hand, without the end."""
    return b"".join(entry(f"{root}/{name}" if root else name, data, **options) for name, data in files.items())
