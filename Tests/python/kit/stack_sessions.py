"""Generated sessions of the StackCapture app, of every variant, with a smooth path and numbered images."""

import dataclasses
import functools
import io
import json
import tarfile
import zipfile

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation
from videos import video_file

COUNT = 40
SIZE = (96, 72)
DEPTH_SIZE = (64, 48)
UPTIME = 81234.5
START, EPOCH = 1771446234, 1771446234.25  # the start time as the metadata have it, and the phone's Unix time of the first frame
STEP = 45 / 512
CHANNELS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
UNEVEN = tuple(10 * i + (10 if i >= 18 else 0) for i in range(COUNT))  # times of a video in 1/600 s: a frame was dropped


@dataclasses.dataclass
class Session:
    """The contents of a session. Poses, encoders and IMU may be given as text; there is no file for what is None."""

    poses: list | str | None
    metadata: dict | None
    rgb: dict
    depth: dict = dataclasses.field(default_factory=dict)
    encoders: list | str | None = None
    imu: list | None = None
    calib: str | None = None
    video: bytes | None = None
    files: dict = dataclasses.field(default_factory=dict)

    def contents(self):
        """Bytes of every file by its path. A count in the metadata that is None is the true one."""
        counts = {"rgbFrameCount": self.rgb, "frameCount": self.rgb, "poseCount": self.poses, "depthFrameCount": self.depth,
                  "encoderCount": self.encoders, "imuCount": self.imu}
        metadata = self.metadata and {k: len(counts[k] or []) if v is None and k in counts else v for k, v in self.metadata.items()}
        parts = {"metadata.json": metadata, "poses.json": self.poses, "encoders.json": self.encoders, "imu.json": self.imu,
                 "calib.txt": self.calib, "video.mov": self.video}
        found = {name: as_bytes(part) for name, part in parts.items() if part is not None}
        found |= {f"rgb/{number:06d}.jpg": data for number, data in self.rgb.items()}
        found |= {f"depth/{number:06d}.bin": data for number, data in self.depth.items()}
        return found | {path: as_bytes(data) for path, data in self.files.items()}

    def write(self, directory):
        write(directory, self.contents())
        return directory


def as_bytes(part):
    if isinstance(part, bytes):
        return part
    return (part if isinstance(part, str) else json.dumps(part)).encode()


def write(path, contents):
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def zipped(contents, top):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(f"{top}/{path}", (2026, 2, 18, 20, 24, 0)), data)
    return buffer.getvalue()


def tarred(contents, top):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data in contents.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@functools.cache
def jpeg(number, size=SIZE, exif=None):
    """An image of smooth colors whose top carries its number as 24 blocks."""
    width, height = size
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    pixels = np.stack([60 + 120 * x, 80 + 90 * y, 200 - 100 * x * y + 0 * x], -1).astype(np.uint8)
    bits = [number >> (19 - k) & 1 for k in range(20)]
    bits += [sum(bits[group * 5 : group * 5 + 5]) % 2 for group in range(4)]
    for k, bit in enumerate(bits):
        pixels[:8, k * width // 24 : (k + 1) * width // 24] = 255 if bit else 0
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95, subsampling=0, **({"exif": exif} if exif else {}))
    return buffer.getvalue()


def depth_map(number, size=DEPTH_SIZE):
    width, height = size
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    return (0.5 + 0.05 * number + x + 0.5 * y).astype("<f4")


def matrices(count=COUNT):
    """Camera to world along a curve that bends everywhere: no two poses are alike, and nothing moves fast."""
    t = np.arange(count) / 60
    found = np.tile(np.eye(4), (count, 1, 1))
    rotations = np.stack([0.3 + 0.2 * np.sin(2 * t), 0.7 * t + 0.1 * t * t, 0.2 * np.cos(3 * t)], 1)
    found[:, :3, :3] = Rotation.from_rotvec(rotations).as_matrix()
    found[:, :3, 3] = np.stack([0.2 + 0.3 * np.sin(1.5 * t), 0.1 + 0.2 * t * t, 0.25 * np.cos(2 * t)], 1)
    return found


def uptimes(count=COUNT):
    """About 60 Hz, in whole microseconds; never just between two readings."""
    jitter = np.random.default_rng(0).uniform(-3e-4, 3e-4, count)
    jitter[0] = 0
    return [round(UPTIME + i / 60 + jitter[i], 6) for i in range(count)]


def arkit_poses(count=COUNT):
    found = matrices(count).astype("f4").astype("f8")
    return [{"rgbIndex": i, "timestamp": t, "transform": m.tolist()} for i, (t, m) in enumerate(zip(uptimes(count), found))]


def slam_poses(numbers=range(COUNT)):
    found = matrices(max(numbers) + 1)
    return [{"timestamp": i / 60, "rgbIndex": i, "depth": None, "transform": found[i].tolist()} for i in numbers]


def readings(seconds=COUNT / 60, late=0.0):
    """50 Hz from the first frame on, none of them delayed. The first joint passes through 0, the last is beyond 180."""
    found = []
    for k in range(round(seconds * 50) + 2):
        angles = [center - (8 + 4 * joint) * np.sin(4 * k / 50 + joint) for joint, center in enumerate([1, 40, 120, 200])]
        times = {"timestamp": round(EPOCH + late + k / 50, 6), "esp_timestamp_ms": 37218 + 20 * k}
        found.append(times | {channel: float(angle % 360 // STEP * STEP) for channel, angle in zip(CHANNELS, angles)})
    return found


def inertial(seconds=COUNT / 60):
    """100 Hz, handled up to 2 ms late; it turns about as fast as the camera, evenly, so that nothing looks like the camera's motion."""
    random = np.random.default_rng(3)
    late = random.uniform(0, 2e-3, round(seconds * 100) + 1)
    late[0] = 0
    times = [round(EPOCH + k / 100 + late[k], 6) for k in range(len(late))]
    return [{"timestamp": t, "accel": random.normal(0, 0.01, 3).tolist(), "gyro": random.normal([0.4, 0.6, 0.3], 0.01, 3).tolist()} for t in times]


PHONE = {"deviceModel": "iPhone16,1", "iosVersion": "17.2", "startTime": "2026-02-18T20:23:54Z", "endTime": "2026-02-18T20:23:55Z",
         "rgbResolution": list(SIZE), "rgbFrameCount": None, "poseCount": None}


def numbered_images(numbers=range(COUNT)):
    return {number: jpeg(number) for number in numbers}


def v1(frames_with_depth=tuple(i for i in range(COUNT) if i % 5 in (0, 2))):
    """Depth maps after two or three frames each."""
    poses = arkit_poses()
    for index, frame in enumerate(frames_with_depth):
        poses[frame]["depthIndex"] = index
    depth = {index: depth_map(index).tobytes() for index in range(len(frames_with_depth))}
    metadata = PHONE | {"depthResolution": list(DEPTH_SIZE), "depthFrameCount": None, "durationSeconds": 0.65}
    return Session(poses, metadata, numbered_images(), depth=depth)


def v2(count=COUNT):
    poses = arkit_poses(count)
    for i, entry in enumerate(poses):
        entry["depth"] = 0.5 + i / 64
    metadata = PHONE | {"bleConnected": True, "hasVideo": False, "encoderCount": None, "durationSeconds": count / 60}
    return Session(poses, metadata, numbered_images(range(count)), encoders=readings(count / 60))


def still():
    """A session of ARKit without encoders or depth, for what concerns poses and images alone."""
    session = v2()
    del session.metadata["encoderCount"]
    session.encoders = None
    for entry in session.poses:
        del entry["depth"]
    return session


def v3_raw():
    metadata = PHONE | {"bleConnected": True, "captureSource": "iphone_ultrawide", "encoderCount": None, "imuCount": None, "hasVideo": True,
                        "slamProcessed": False}
    return Session([], metadata, numbered_images(), encoders=readings(late=0.003), imu=inertial(), video=video_file(COUNT, 60))


def v3_slam():
    session = v3_raw()
    session.poses = slam_poses()
    session.calib = "360.0000 360.0000 240.0000 180.0000"
    session.metadata["slamProcessed"] = True
    return session


def v3_scaled():
    session = v3_slam()
    session.metadata["scale_factor"] = 2.625
    return session


def slam_alone():
    """SLAM's poses without any source of times."""
    session = v3_slam()
    session.video = session.imu = session.encoders = None
    for key in "imuCount", "encoderCount":
        del session.metadata[key]
    session.metadata["hasVideo"] = False
    return session


def packed():
    session = v3_slam()
    session.metadata["rgbResolution"] = [480, 360]
    session.metadata["imuCount"] = len(session.imu)
    session.video = session.imu = None
    session.rgb = {number: jpeg(number, (224, 224)) for number in range(COUNT)}
    return session


def synthetic():
    poses = [{"timestamp": 1_000_000 + i / 60, "rgbIndex": i, "depth": None, "transform": m.tolist()} for i, m in enumerate(matrices())]
    angles = [{channel: float(10 * joint + i // 2 * STEP) for joint, channel in enumerate(CHANNELS)} for i in range(COUNT)]
    encoders = [{"timestamp": 1_739_000_000 + i / 60, "esp_timestamp_ms": round(i * 1000 / 60)} | a for i, a in enumerate(angles)]
    metadata = {"deviceModel": "synthetic", "rgbResolution": list(SIZE), "frameCount": None, "poseCount": None, "encoderCount": None,
                "durationSeconds": COUNT / 60, "bleConnected": True, "synthetic": True, "seed": 7}
    return Session(poses, metadata, numbered_images(), encoders=encoders)
