"""Generated Stray Scanner sessions: NumPy draws poses and depth, Pillow packs maps, ffmpeg encodes the video."""

import dataclasses
import functools
import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation
from videos import BT709, ENCODERS, made, yuv_image

OLD = ("timestamp", "frame", "x", "y", "z", "qx", "qy", "qz", "qw")
NEW = (*OLD, "fx", "fy", "cx", "cy")
POSE = OLD[2:]
START = 258_528_100_000_000  # ns since boot
LONG = {5: 2, 11: 3}  # steps of two and of three periods after these rows: 33.3 and 50 ms
FULL = (1920, 1440)  # what a camera matrix is for when there is no video
CAMERA = (121.25, 120.75, 79.5, 60.25)  # of images of 160x120; of others in proportion


def decimal(nanoseconds):
    """Seconds, exact to the nanosecond, without zeros that say nothing."""
    whole, part = divmod(nanoseconds, 10**9)
    return f"{whole}." + (f"{part:09d}".rstrip("0") or "0")


def periods(count, long):
    """The period of 60 Hz in which each row falls."""
    return np.cumsum([0, *(long.get(row, 1) for row in range(count - 1))]).tolist()


def smooth_poses(count):
    """Numbers as the app prints them; every quaternion's sign is drawn by lot and the first is the negative one."""
    t = np.arange(count) / 60
    positions = np.stack([0.4 * np.sin(t), 1.2 + 1e-6 * t, -0.3 * t], 1)
    quaternions = (Rotation.from_euler("xyz", [20, -30, 10], degrees=True) * Rotation.from_rotvec(np.outer(t, [0.3, 1.1, -0.2]))).as_quat()
    signs = np.random.default_rng(3).choice([-1, 1], count)
    signs[0] = -np.sign(quaternions[0, 3])
    return np.hstack([positions, quaternions * signs[:, None]])


# Files


def png(array):
    """A gray PNG of 8 or 16 bits, or a color one."""
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(out, "png")
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def flood(side):
    """A PNG whose header claims a square of 16-bit gray that its few bytes cannot hold."""
    header = struct.pack(">IIBBBBB", side, side, 16, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def wrong_crc(data):
    """The same pixels under a checksum of IDAT that does not fit them."""
    end = data.index(b"IEND") - 8
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


def depth_map(number, size):
    """Millimeters: a slope, a hole that wanders, and the largest value there is."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    found = (700 + 11 * x + 7 * y + 5 * number).astype(np.uint16)
    found[number % height, : width // 4] = 0
    found[-1, -1] = 65535
    return found


def confidence_map(number, size):
    return np.random.default_rng(1000 + number).choice(np.arange(3, dtype=np.uint8), (size[1], size[0]), p=[0.29, 0.15, 0.56])


@functools.cache
def scan_video(ticks, numbers=None, codec="h264", size=(160, 120), b_frames=0, hides=False):
    """An MP4 whose sample i shows the number numbers[i] at ticks[i] of 1/600 s; as the app's, it may hide its first image by an edit list."""
    steps = "".join(f"+{b - a}*gte(N,{k})" for k, (a, b) in enumerate(zip(ticks, ticks[1:]), 1))
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{size[0]}x{size[1]}", "-r", 60, "-i", "-"]
    arguments += ["-vf", f"settb=1/600,setpts='{ticks[0]}{steps}'", "-fps_mode", "passthrough", "-enc_time_base", "1:600"]
    arguments += [*ENCODERS[codec], "-bf", b_frames, "-g", 15, "-threads", 1, *BT709, "-video_track_timescale", 600]
    if hides:
        arguments += ["-output_ts_offset", -1 / 60, "-avoid_negative_ts", "disabled"]
    return made(".mp4", *arguments, contents=b"".join(yuv_image(n, *size) for n in numbers or range(len(ticks))))


def matrix_file(camera, separator=", "):
    fx, fy, cx, cy = camera
    return "\n".join(separator.join(map(str, row)) for row in [(fx, 0.0, cx), (0.0, fy, cy), (0.0, 0.0, 1.0)]).encode()


def imu_rows(start, seconds):
    """About 100 Hz, from 0.1 s after the first pose."""
    times = [start + 100_000_000 + k * 10_000_000 + 1_234_567 * (k % 3) for k in range(round((seconds - 0.1) * 100))]
    values = np.random.default_rng(5).normal(0, [0.2, 9.8, 0.3, 0.1, 0.2, 0.3], (len(times), 6)).round(6)
    return [[decimal(t), *map(repr, v.tolist())] for t, v in zip(times, values)]


# Sessions


@dataclasses.dataclass
class Session:
    """The parts of a capture; one that is None or empty is absent. Rows are the texts of their fields; maps are arrays or bytes."""

    rows: list
    columns: tuple = NEW
    camera: bytes | None = None
    imu: list | None = None
    imu_header: str | None = "timestamp, a_x, a_y, a_z, alpha_x, alpha_y, alpha_z"
    video: bytes | None = None
    depth: dict = dataclasses.field(default_factory=dict)
    confidence: dict = dataclasses.field(default_factory=dict)
    odometry: bytes | None = None  # instead of rows
    others: dict = dataclasses.field(default_factory=dict)

    def numbers(self, *columns):
        return np.array([[float(row[c]) for c in columns] for row in self.rows])

    def nanoseconds(self):
        """Times by their digits."""
        whole = ((row["timestamp"] + ".").split(".")[:2] for row in self.rows)
        return [int(a) * 10**9 + int(b[:9].ljust(9, "0")) for a, b in whole]

    def table(self, separator=", ", newline="\n", mark="", blanks=None, blank_header=True, last_newline=True, padded=True):
        """The text of odometry.csv; newer ones have two blank columns at the end of each line."""
        if blanks is None:
            blanks = ["", ""] if self.columns == NEW else []
        lines = [separator.join([*self.columns, *(blanks if blank_header else [])])]
        for row in self.rows:
            fields = [row[c] if c != "frame" or padded else str(int(row[c])) for c in self.columns]
            lines.append(separator.join([*fields, *blanks]))
        return (mark + newline.join(lines) + newline * last_newline).encode()

    def files(self):
        found = {"odometry.csv": self.table() if self.odometry is None else self.odometry, **self.others}
        if self.camera is not None:
            found["camera_matrix.csv"] = self.camera
        if self.imu is not None:
            lines = ([self.imu_header] if self.imu_header else []) + [", ".join(row) for row in self.imu]
            found["imu.csv"] = ("\n".join(lines) + "\n").encode()
        if self.video is not None:
            found["rgb.mp4"] = self.video
        for folder, maps in ("depth", self.depth), ("confidence", self.confidence):
            for number, data in maps.items():
                found[f"{folder}/{number:06d}.png"] = data if isinstance(data, bytes) else png(data)
        return found

    def write(self, directory):
        for name, data in self.files().items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(data)
        return directory

    def zip(self, path, top=""):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in self.files().items():
                archive.writestr(top + name, data)
        return path

    def tar(self, path, top=""):
        with tarfile.open(path, "w") as archive:
            for name, data in self.files().items():
                member = tarfile.TarInfo(top + name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path


def session(
    count=20, times=None, long=LONG, start=START, columns=NEW, codec="h264", size=(160, 120), depth_size=(32, 24), maps=True, b_frames=0
):
    """A valid capture. `times` of the video: "time" follows the rows, "number" is i / 60 s, None omits the video."""
    camera = np.array(CAMERA) * ((size if times else FULL)[0] / 160)
    at = periods(count, long)
    jitter = np.random.default_rng(9).integers(-300_000, 300_001, count)
    jitter[[0, -1]] = 0
    stamps = [start + round(p * 10**9 / 60) + int(j) for p, j in zip(at, jitter)]
    rows = []
    for number, (stamp, pose) in enumerate(zip(stamps, smooth_poses(count).tolist())):
        per_frame = camera + 0.125 * number * np.array([1, 1, -0.25, 0.5])
        rows.append(dict(zip(NEW, [decimal(stamp), f"{number:06d}", *map(repr, pose), *map(repr, per_frame.tolist())])))
    found = Session(rows, columns, matrix_file(camera.tolist()), imu_rows(start, (stamps[-1] - start) / 1e9))
    if times:
        ticks = at if times == "time" else range(count)
        found.video = scan_video(tuple(10 * t for t in ticks), codec=codec, size=size, b_frames=b_frames)
    if maps:
        found.depth = {n: depth_map(n, depth_size) for n in range(count)}
        found.confidence = {n: confidence_map(n, depth_size) for n in range(count)}
    return found
