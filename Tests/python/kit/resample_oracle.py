"""Sessions whose times are known to the nanosecond, and what a uniform grid makes of them: exact fractions, NumPy and SciPy."""

import dataclasses
import json
import re
from fractions import Fraction

import numpy as np
import yaml
from images import frame_code
from scipy.interpolate import interp1d
from scipy.spatial.transform import Rotation, Slerp
from stack_sessions import CHANNELS, DEPTH_SIZE, PHONE, SIZE, Session, depth_map, jpeg, matrices

START = 100 * 10**9  # the first frame, on the clock of both phone and readings
MS = 10**6
TOLERANCE = 50 * MS


def steps(directory, *transforms, reader="auto", name="p.yaml"):
    """A pipeline file of these transforms: names, or names with options."""
    text = yaml.safe_dump({"version": 1, "reader": reader, "transforms": list(transforms)}, sort_keys=False)
    (directory / name).write_text(text)
    return ["--pipeline", directory / name]


LINEAR = {"align": {"method": "linear"}}


def split(takeset, source, output, at, *more, before=(), check=0, arguments=(), **options):
    """Converts with a pipeline that splits episodes; what the command said. The pipeline file stays next to the output."""
    output.parent.mkdir(exist_ok=True)
    pipeline = steps(output.parent, LINEAR, *before, {"split-episodes": {"at": at} | options}, *more, name=f"{output.name}.yaml")
    return takeset.convert(source, output=output, arguments=[*pipeline, *arguments], check=check)


# Sessions


def exact(entries):
    """JSON in which times, in nanoseconds, are exact decimal seconds."""
    given = [entry | {"timestamp": f"@{entry['timestamp']}"} for entry in entries]
    return re.sub(r'"@(\d+)"', lambda found: f"{int(found[1]) // 10**9}.{int(found[1]) % 10**9:09d}", json.dumps(given))


def angles(count):
    """Smooth angles that never wrap."""
    k = np.arange(count)[:, None]
    return 30 + 12 * np.arange(4) + 15 * np.sin(0.2 * k + np.arange(4))


@dataclasses.dataclass
class Take:
    """Frames at exact times with poses, a depth value each, depth maps of some, and joints at times of their own."""

    times: list  # of the frames
    numbers: list  # of the frames, as the source has them
    poses: np.ndarray  # camera to world, (n,4,4)
    joint_times: list = dataclasses.field(default_factory=list)
    joints: np.ndarray | None = None
    with_depth: list = dataclasses.field(default_factory=list)  # positions of frames
    size: tuple = SIZE
    alike: bool = False  # all images are one

    @property
    def points(self):
        return 0.5 + np.sin(np.arange(len(self.times)) / 7) / 4

    def session(self):
        entries = []
        for time, number, pose, point in zip(self.times, self.numbers, self.poses, self.points):
            entries.append({"rgbIndex": number, "timestamp": time, "transform": pose.tolist(), "depth": float(np.float32(point))})
        for index, frame in enumerate(self.with_depth):
            entries[frame]["depthIndex"] = index
        metadata = PHONE | {"poseCount": len(entries), "rgbResolution": list(self.size)}
        images = {number: jpeg(0 if self.alike else number, self.size) for number in self.numbers}
        depth = {index: depth_map(index).tobytes() for index in range(len(self.with_depth))}
        if depth:
            metadata |= {"depthResolution": list(DEPTH_SIZE), "depthFrameCount": None}
        readings = None
        if self.joint_times:
            # The sender's clock stands still, so that times of arrival are what counts.
            rows = zip(self.joint_times, self.joints.tolist())
            readings = exact([{"timestamp": time, "esp_timestamp_ms": 0} | dict(zip(CHANNELS, values)) for time, values in rows])
            metadata |= {"bleConnected": True, "encoderCount": len(self.joint_times)}
        return Session(exact(entries), metadata, images, depth=depth, encoders=readings)

    def write(self, directory):
        return self.session().write(directory)


def even(count, rate=60, start=START):
    """The frames' own exact grid, in nanoseconds."""
    return [start + round(Fraction(k * 10**9, rate)) for k in range(count)]


def take(times, numbers=None, joint_times=None, poses=None, **options):
    """A take with a smooth path; poses are those of single precision that ARKit writes."""
    numbers = list(range(len(times)) if numbers is None else numbers)
    poses = matrices(max(numbers) + 1)[numbers] if poses is None else poses
    poses = np.asarray(poses).astype("f4").astype("f8")
    joint_times = list(joint_times or [])
    return Take(list(times), numbers, poses, joint_times, angles(len(joint_times)), **options)


def uneven(count=90, lost=(20, 21, 50, 51, 52, 53, 54), jitter=2 * MS, seed=5):
    """About 60 Hz with jitter; frames were lost, five of them in one place; readings every 21 ms with a pause; depth on every other frame."""
    random = np.random.default_rng(seed)
    shift = random.integers(-jitter, jitter, count)
    shift[0] = 0
    numbers = [k for k in range(count) if k not in lost]
    times = [START + round(Fraction(k * 10**9, 60)) + int(shift[k]) for k in numbers]
    readings = [START + 5 * MS + 21 * MS * k + int(random.integers(-MS, MS)) for k in range(count * 1000 // 60 // 21 - 3) if not 30 <= k < 38]
    return take(times, numbers, readings, with_depth=list(range(0, len(times), 2)))


# The grid


def ticks_of(first, last, rate):
    """Every tick from the first to the last frame: exact fractions, rounded once, halves to even. `rate` is decimal text."""
    period, found = 10**9 / Fraction(str(rate)), []
    while (tick := first + round(period * len(found))) <= last:
        found.append(tick)
    return found


def around(times, ticks):
    """The samples before and after each tick, -1 where there is none; both the same where one is at the tick."""
    times, ticks = np.array(times, "i8"), np.array(ticks, "i8")
    after = np.searchsorted(times, ticks, "left")
    before = np.searchsorted(times, ticks, "right") - 1
    after[after == len(times)] = -1
    same = (after >= 0) & (times[after] == ticks)
    before[same] = after[same]
    return before, after


def nearest(times, ticks, tolerance=None):
    """The nearest sample of each tick, of two the earlier; -1 where there is none within the tolerance."""
    distance = np.abs(np.array(times, "i8")[None] - np.array(ticks, "i8")[:, None])
    found = distance.argmin(1)
    return found if tolerance is None else np.where(distance.min(1) <= tolerance, found, -1)


def share(times, ticks, before, after):
    """How far each tick is from the sample before to the one after, 0 at a sample."""
    times = np.array(times, "i8")
    length = times[after] - times[before]
    return np.where(length > 0, (np.array(ticks, "i8") - times[before]) / np.maximum(length, 1), 0)


@dataclasses.dataclass
class Grid:
    """What `resample` makes of a take."""

    times: list
    rate: str
    tolerance: int = TOLERANCE
    period: float = 1e9 / 60  # of the frames

    def __post_init__(self):
        limit = max(1.5 * self.period, self.tolerance)
        every = ticks_of(self.times[0], self.times[-1], self.rate)
        before, after = around(self.times, every)
        steps = np.array(self.times)[after] - np.array(self.times)[before]
        kept = steps <= limit
        self.ticks = np.array(every, "i8")[kept]
        self.skipped = int((~kept).sum())
        self.before, self.after = before[kept], after[kept]
        self.weight = share(self.times, self.ticks, self.before, self.after)
        self.frame = nearest(self.times, self.ticks)

    @property
    def dropped(self):
        return len(self.times) - len(set(self.frame.tolist()))

    @property
    def repeated(self):
        return len(self.ticks) - len(set(self.frame.tolist()))


def scipy_poses(times, poses, ticks):
    """Positions and quaternions of a path at other times."""
    seconds, at = (np.array(times, "i8") - times[0]) / 1e9, (np.array(ticks, "i8") - times[0]) / 1e9
    if len(times) == 1:
        return poses[:, :3, 3], Rotation.from_matrix(poses[:, :3, :3]).as_quat()
    positions = interp1d(seconds, poses[:, :3, 3], axis=0)(at)
    return positions, Slerp(seconds, Rotation.from_matrix(poses[:, :3, :3]))(at).as_quat()


# Checks


def poses_are(demo, positions, quaternions, tolerance=1e-6):
    """Positions and rotations are these; quaternions are of unit length and of one sign."""
    stored = demo["obs/pose"][:].astype("f8")
    assert stored.shape == (len(positions), 7)
    assert np.abs(stored[:, :3] - positions).max() < tolerance
    difference = np.minimum(np.abs(stored[:, 3:] - quaternions).max(1), np.abs(stored[:, 3:] + quaternions).max(1))
    assert difference.max() < tolerance, (difference.argmax(), difference.max())
    assert stored[0, 6] >= 0 and (stored[1:, 3:] * stored[:-1, 3:]).sum(1).min(initial=1) > 0
    assert np.abs(np.linalg.norm(stored[:, 3:], axis=1) - 1).max() < tolerance


def stream_is(meta, name, source, following, weight, dt):
    """A stream says these numbers of samples, -1 where there is none, this weight and this delay."""
    stream = {key: data[:] for key, data in meta[f"streams/{name}"].items()}
    assert stream["source_index"].tolist() == np.asarray(source).tolist(), name
    assert stream["next_index"].tolist() == np.asarray(following).tolist(), name
    assert stream["dt_ns"].tolist() == np.asarray(dt).tolist(), name
    assert stream["weight"].dtype == "f4" and np.abs(stream["weight"] - weight).max() < 1e-6, name
    assert stream["valid"].tolist() == (np.asarray(source) >= 0).astype(int).tolist(), name


def images_are(demo, numbers):
    """The images of the rows carry these numbers; absent ones, -1, are black."""
    for row, (image, number) in enumerate(zip(demo["obs/camera_image"][:], numbers, strict=True)):
        assert (frame_code(image) == number) if number >= 0 else not image.any(), row


def depth_maps_are(demo, indices):
    """The depth maps of the rows are those with these numbers; absent ones, -1, are masked."""
    stored, valid = demo["obs/camera_depth"], demo["obs/camera_depth_valid"]
    assert len(stored) == len(indices)
    for row, index in enumerate(indices):
        expected = depth_map(int(index)) if index >= 0 else np.zeros(DEPTH_SIZE[::-1])
        assert np.array_equal(stored[row, ..., 0], expected) and (valid[row] == (index >= 0)).all(), row


def accounts(entry):
    """Frames in and repeated are frames out and dropped, in every step; the next step begins with them."""
    for step in entry["steps"]:
        dropped = sum(d["count"] for d in step["dropped"])
        assert step["frames_in"] + step.get("repeated", 0) == step["frames_out"] + dropped, step
        assert all(d["count"] > 0 for d in step["dropped"]), step
    for before, after in zip(entry["steps"], entry["steps"][1:]):
        assert before["frames_out"] == after["frames_in"], after["name"]
    return {step["name"]: step for step in entry["steps"]}
