"""Sessions with every quirk that the recorder's are known to have, made from nothing, all converted in one run.

The tests beside this are numbered by the rows of the table in docs/formats/stack-session.md. Each take is a function that says what it
looks like, and with which findings it is to be converted.
"""

import dataclasses
import functools
import io
import json
import tarfile
import zipfile

import numpy as np
import yaml
from bundles import movie
from conftest import demos, manifest
from PIL import Image
from scipy.spatial.transform import Rotation
from test_takes import frame_code

COUNT = 40
SIZE = (96, 72)
DEPTH_SIZE = (64, 48)
UPTIME = 81234.5
START, EPOCH = 1771446234, 1771446234.25  # the start time as the metadata have it, and the phone's Unix time of the first frame
STEP = 45 / 512
CHANNELS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
UNEVEN = tuple(10 * i + (10 if i >= 18 else 0) for i in range(COUNT))  # times of a movie in 1/600 s: a frame was dropped


# Sessions


@dataclasses.dataclass
class Session:
    """The contents of a session. Poses, encoders and IMU may be given as text; of what is None there is no file."""

    poses: list | str | None
    metadata: dict | None
    rgb: dict
    depth: dict = dataclasses.field(default_factory=dict)
    encoders: list | str | None = None
    imu: list | None = None
    calib: str | None = None
    movie: bytes | None = None
    files: dict = dataclasses.field(default_factory=dict)

    def contents(self):
        """Bytes of every file by its path. A count in the metadata that is None is the true one."""
        counts = {"rgbFrameCount": self.rgb, "frameCount": self.rgb, "poseCount": self.poses, "depthFrameCount": self.depth,
                  "encoderCount": self.encoders, "imuCount": self.imu}
        metadata = self.metadata and {k: len(counts[k] or []) if v is None and k in counts else v for k, v in self.metadata.items()}
        parts = {"metadata.json": metadata, "poses.json": self.poses, "encoders.json": self.encoders, "imu.json": self.imu,
                 "calib.txt": self.calib, "video.mov": self.movie}
        found = {name: as_bytes(part) for name, part in parts.items() if part is not None}
        found |= {f"rgb/{number:06d}.jpg": data for number, data in self.rgb.items()}
        found |= {f"depth/{number:06d}.bin": data for number, data in self.depth.items()}
        return found | {path: as_bytes(data) for path, data in self.files.items()}


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
    """A picture of smooth colours whose top carries its number as 24 blocks."""
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
    turns = np.stack([0.3 + 0.2 * np.sin(2 * t), 0.7 * t + 0.1 * t * t, 0.2 * np.cos(3 * t)], 1)
    found[:, :3, :3] = Rotation.from_rotvec(turns).as_matrix()
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
        angles = [centre - (8 + 4 * joint) * np.sin(4 * k / 50 + joint) for joint, centre in enumerate([1, 40, 120, 200])]
        times = {"timestamp": round(EPOCH + late + k / 50, 6), "esp_timestamp_ms": 37218 + 20 * k}
        found.append(times | {channel: float(angle % 360 // STEP * STEP) for channel, angle in zip(CHANNELS, angles)})
    return found


def inertial(seconds=COUNT / 60):
    """100 Hz, handled up to 2 ms late; nothing that looks like the camera's motion."""
    random = np.random.default_rng(3)
    late = random.uniform(0, 2e-3, round(seconds * 100) + 1)
    late[0] = 0
    times = [round(EPOCH + k / 100 + late[k], 6) for k in range(len(late))]
    return [{"timestamp": t, "accel": random.normal(0, 0.01, 3).tolist(), "gyro": random.normal(0, 0.01, 3).tolist()} for t in times]


PHONE = {"deviceModel": "iPhone16,1", "iosVersion": "17.2", "startTime": "2026-02-18T20:23:54Z", "endTime": "2026-02-18T20:23:55Z",
         "rgbResolution": list(SIZE), "rgbFrameCount": None, "poseCount": None}


def pictures(numbers=range(COUNT)):
    return {number: jpeg(number) for number in numbers}


def v1(frames_with_depth=tuple(i for i in range(COUNT) if i % 5 in (0, 2))):
    """Depth maps after two or three frames each."""
    poses = arkit_poses()
    for index, frame in enumerate(frames_with_depth):
        poses[frame]["depthIndex"] = index
    depth = {index: depth_map(index).tobytes() for index in range(len(frames_with_depth))}
    metadata = PHONE | {"depthResolution": list(DEPTH_SIZE), "depthFrameCount": None, "durationSeconds": 0.65}
    return Session(poses, metadata, pictures(), depth=depth)


def v2(count=COUNT):
    poses = arkit_poses(count)
    for i, entry in enumerate(poses):
        entry["depth"] = 0.5 + i / 64
    metadata = PHONE | {"bleConnected": True, "hasVideo": False, "encoderCount": None, "durationSeconds": count / 60}
    return Session(poses, metadata, pictures(range(count)), encoders=readings(count / 60))


def still():
    """A session of ARKit without encoders or depth, for what concerns poses and pictures alone."""
    session = v2()
    del session.metadata["encoderCount"]
    session.encoders = None
    for entry in session.poses:
        del entry["depth"]
    return session


def v3_raw():
    metadata = PHONE | {"bleConnected": True, "captureSource": "iphone_ultrawide", "encoderCount": None, "imuCount": None, "hasVideo": True,
                        "slamProcessed": False}
    return Session([], metadata, pictures(), encoders=readings(late=0.003), imu=inertial(), movie=movie(COUNT, 60))


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
    """SLAM's poses with nothing that tells times."""
    session = v3_slam()
    session.movie = session.imu = session.encoders = None
    for key in "imuCount", "encoderCount":
        del session.metadata[key]
    session.metadata["hasVideo"] = False
    return session


def packed():
    session = v3_slam()
    session.metadata["rgbResolution"] = [480, 360]
    session.metadata["imuCount"] = len(session.imu)
    session.movie = session.imu = None
    session.rgb = {number: jpeg(number, (224, 224)) for number in range(COUNT)}
    return session


def synthetic():
    poses = [{"timestamp": 1_000_000 + i / 60, "rgbIndex": i, "depth": None, "transform": m.tolist()} for i, m in enumerate(matrices())]
    angles = [{channel: float(10 * joint + i // 2 * STEP) for joint, channel in enumerate(CHANNELS)} for i in range(COUNT)]
    encoders = [{"timestamp": 1_739_000_000 + i / 60, "esp_timestamp_ms": round(i * 1000 / 60)} | a for i, a in enumerate(angles)]
    metadata = {"deviceModel": "synthetic", "rgbResolution": list(SIZE), "frameCount": None, "poseCount": None, "encoderCount": None,
                "durationSeconds": COUNT / 60, "bleConnected": True, "synthetic": True, "seed": 7}
    return Session(poses, metadata, pictures(), encoders=encoders)


# Quirks: each a take, and what is to be found


@dataclasses.dataclass
class Quirk:
    row: int
    name: str
    build: object
    codes: set
    outcome: str


QUIRKS = {}
SLAM = ("scale-arbitrary",)
ASSUMED = (*SLAM, "times-assumed")


def quirk(row, *codes, outcome="written"):
    """Registers a take with all that is to be warned of in it, or, if it is to fail, with the error.

    The function gives a session, or several files or sessions by the ending of their names."""

    def register(build):
        QUIRKS[build] = Quirk(row, f"q{row:02}-{build.__name__.replace('_', '-')}", build, set(codes), outcome)
        return build

    return register


def place(root, name, build):
    """Writes a take below a directory; the paths made."""
    found = build()
    paths = []
    for ending, part in (found if isinstance(found, dict) else {"": found}).items():
        path = root / (name + ending)
        paths.append(path)
        if isinstance(part, Session) and ending not in (".zip", ".tar"):
            write(path, part.contents())
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            make = {".zip": zipped, ".tar": tarred}.get(ending)
            path.write_bytes(make(part.contents(), name) if make else part)
    return paths


CLEAN = {"clean-v1": v1, "clean-v2": v2, "clean-v3-slam": v3_slam, "clean-still": still}


class Batch:
    """One run over every take that the test modules at hand have registered, and over clean ones."""

    def __init__(self, takeset, root):
        self.root = root
        for name, build in CLEAN.items():
            place(root / "in", name, build)
        self.paths = {one.name: place(root / "in", one.name, one.build) for one in QUIRKS.values()}
        self.done = takeset.convert(root / "in", output=root / "out", check=None)
        self.entries = {entry["id"]: entry for entry in manifest(root / "out")["record"]["takes"]}
        self.demos = demos(root / "out")
        inspected = takeset("inspect", root / "in", "--json")
        self.inspected = {entry["id"]: entry for entry in json.loads(inspected.stdout)["takes"]}

    def __call__(self, build):
        """The entry, demo and meta of a take, after what was found in it has been compared with what should be."""
        one = QUIRKS[build]
        entry = self.entries[one.name]
        assert entry["outcome"] == one.outcome, (entry["outcome"], entry["reason"])
        if one.outcome == "failed":
            assert [f["code"] for f in entry["findings"] if f["severity"] == "error"] == list(one.codes)
            assert entry["reason"]
        else:
            assert warnings(entry) == one.codes, entry["findings"]
        return entry, *self.demos.get(one.name, (None, None))

    def told(self, build):
        """That inspect tells the same before anything is converted."""
        one = QUIRKS[build]
        entry = self.inspected[one.name]
        assert entry["would_be"] == one.outcome, (entry["would_be"], entry["reason"])
        assert one.codes <= {f["code"] for f in entry["findings"]}, (one.codes, entry["findings"])


def warnings(entry):
    return {f["code"] for f in entry["findings"] if f["severity"] == "warning"}


def finding(entry, code):
    (found,) = [f for f in entry["findings"] if f["code"] == code]
    return found


def dropped(entry):
    return {d["reason"]: d["count"] for step in entry["steps"] for d in step["dropped"]}


def methods(entry):
    return {a["stream"]: a["method"] for a in entry["alignment"]}


def bits(meta):
    names = meta["quality"].attrs["bits"].split()
    return {name: (meta["quality"][:] >> bit & 1).nonzero()[0].tolist() for bit, name in enumerate(names)}


def nanoseconds(seconds):
    """Of a time of at most six decimals."""
    return round(seconds * 10**6) * 1000


def same(one, other):
    """That two takes hold the same in every dataset."""

    def digests(take):
        found = {}
        for group in take:
            group.visititems(lambda name, item: found.update({name: item.attrs["sha256"]}) if "sha256" in item.attrs else None)
        return found

    assert digests(one) == digests(other) and len(digests(one)) > 8


def same_rotations(quaternions, rotations, tolerance=1e-6):
    expected = Rotation.from_matrix(rotations).as_quat()
    difference = np.minimum(np.abs(quaternions - expected).max(1), np.abs(quaternions + expected).max(1))
    assert difference.max() < tolerance, difference.argmax()


def rows_are(demo, meta, numbers, pose_of=None):
    """Each row has the picture, the pose and the number that belong together."""
    numbers = list(numbers)
    assert meta["source_index"][:].tolist() == numbers
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers
    truth = matrices(max(numbers) + 1)[[(pose_of or {}).get(n, n) for n in numbers]]
    pose = demo["obs/pose"][:].astype("f8")
    assert np.abs(pose[:, :3] - truth[:, :3, 3]).max() < 1e-6
    same_rotations(pose[:, 3:], truth[:, :3, :3])
    assert pose[0, 6] >= 0 and ((pose[1:, 3:] * pose[:-1, 3:]).sum(1) > 0).all()


def times_are(meta, seconds, tolerance=0):
    found = meta["timestamp_ns"][:] + int(meta["timestamp_ns"].attrs["origin_ns"])
    assert np.abs(found - np.array([round(s * 1e9) for s in seconds])).max() <= tolerance


def unwrapped(found):
    """Angles without the jumps of 360 degrees, channel by channel, from within (-180, 180]; NaN where there is none."""
    angles = np.array([[np.nan if r[c] is None else r[c] for c in CHANNELS] for r in found], "f8")
    angles[angles == -1] = np.nan
    for column in angles.T:
        valid = np.isfinite(column)
        if valid.any():
            turns = np.unwrap(column[valid], period=360)
            column[valid] = turns - np.ceil((turns[0] - 180) / 360) * 360
    return angles


def joints_are(demo, meta, found, seconds, tolerance=0.05):
    """Each row has the nearest reading; `seconds` are the readings' times after the first frame's, as they truly are."""
    frames = meta["timestamp_ns"][:] / 1e9
    steps = np.abs(np.array(seconds)[None] - frames[:, None])
    nearest = steps.argmin(1)
    near = steps.min(1) <= tolerance
    stream = meta["streams/joints"]
    assert stream["source_index"][:].tolist() == np.where(near, nearest, -1).tolist()
    expected = np.where(near[:, None], unwrapped(found)[nearest], np.nan)
    assert np.allclose(demo["obs/joints"][:], expected, atol=1e-4, rtol=0, equal_nan=True)
    assert np.array_equal(demo["obs/joints_valid"][:], np.isfinite(expected))
    deltas = np.where(near, np.array(seconds)[nearest] - frames, 0) * 1e9
    assert np.abs(stream["dt_ns"][:] - deltas).max() < 1e5
    return near


def all_joints_masked(demo, meta):
    return not demo["obs/joints_valid"][:].any() and not meta["streams/joints/valid"][:].any() and np.isnan(demo["obs/joints"][:]).all()


def depth_is(demo, meta, times, named, maps):
    """Each row has the nearest of the maps within 50 ms, of two equally near the earlier. `named`: frame to map. The rows that have one."""
    index, dt = meta["streams/camera_depth/source_index"][:], meta["streams/camera_depth/dt_ns"][:]
    valid = []
    for row, frame in enumerate(meta["source_index"][:]):
        time = nanoseconds(times[frame])
        nearest = min(named, key=lambda f: (abs(nanoseconds(times[f]) - time), f))
        step = nanoseconds(times[nearest]) - time
        if abs(step) <= 50_000_000:
            valid.append(row)
            assert (index[row], dt[row]) == (named[nearest], step)
            assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], maps[named[nearest]])
        else:
            assert index[row] == -1 and not demo["obs/camera_depth"][row].any() and not demo["obs/camera_depth_valid"][row].any()
    assert meta["streams/camera_depth/valid"][:].nonzero()[0].tolist() == valid
    return valid


def named_maps(session):
    return {e["rgbIndex"]: e["depthIndex"] for e in session.poses if e.get("depthIndex") is not None}


def pipeline(directory, *transforms, **reader):
    path = directory / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "reader": {"name": "stack-session"} | reader, "transforms": ["align", *transforms]}))
    return ["--pipeline", path]


def alone(takeset, batch, build, output, arguments=(), check=0):
    """The entry, demo and meta of one take of the batch, converted once more by another pipeline."""
    name = QUIRKS[build].name
    takeset.convert(batch.root / "in" / name, output=output, arguments=arguments, check=check)
    (entry,) = manifest(output)["record"]["takes"]
    return entry, *demos(output).get(name, (None, None))
