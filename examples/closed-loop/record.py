"""Records demonstrations of the task as StackCapture sessions, with all that goes wrong on real phones.

    python record.py FOLDER [--form session|record3d] [--takes N] [--seed N] [--jobs N]

FOLDER/takes has the sessions, or takes of Record3D, which have depth but no glove; FOLDER/truth what the simulator knows of each: arrays at 20 Hz, from which a policy can be trained without any conversion.
"""

import argparse
import json
import multiprocessing
import struct
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation
from task import DEPTH, FIELD, IMAGE, RATE, Expert, Motion, Task, photo, row_image

JOINTS = ("index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip")
LATENCY = 0.12  # seconds from a joint's angle to the time that the glove gives it
ROWS = 20  # of the truth, per second
REST = 0.5  # seconds that a hand rests before the recording ends

# What goes wrong, and in which takes: those whose number leaves this remainder.
GAP, PORTRAIT, JUMP, LATE = (12, 3), (12, 5), (8, 2), (8, 6)
POSES_WITHOUT_IMAGE, IMAGES_WITHOUT_POSE = 0.04, 0.02

# MuJoCo's world has z up, ARKit's has y up.
TO_ARKIT = Rotation.from_matrix([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
QUARTER = Rotation.from_euler("z", 90, degrees=True)


def has(fault, number):
    return number % fault[0] == fault[1]


class Wobble:
    """A hand's unsteadiness: m and radians for each step, correlated over a fifth of a second."""

    def __init__(self, chance):
        self.chance, self.speed = chance, np.zeros(6)

    def step(self, seconds):
        keep = np.exp(-seconds / 0.2)
        self.speed = keep * self.speed + np.sqrt(1 - keep**2) * self.chance.normal(0, [0.05, 0.05, 0.04, 0.25, 0.25, 0.25])
        return self.speed * seconds


def demonstrate(number, seed, with_depth=False):
    """One successful attempt: what there is to know at each frame."""
    for attempt in range(100):
        chance = np.random.default_rng([seed, number, attempt])
        task, expert, wobble = Task(chance.integers(1 << 40)), Expert(), Wobble(chance)
        frames, end = [], None
        while end is None or task.time < end:
            position, rotation = task.camera_pose
            frames.append({
                "camera": (position, rotation), "hand": task.hand_pose, "state": task.state, "joints": task.joints, "image": task.image(),
                "depth": task.depth() if with_depth else None,
            })  # fmt: skip
            if task.is_done and end is None:
                end = task.time + REST
            if task.time > 5:
                break
            motion, noise = expert.motion(task, 1 / RATE), wobble.step(1 / RATE)
            # A hand that holds its breath is steadier.
            noise = noise * (0.3 if task.hand.trigger > 0.02 and task.hand.trigger < 0.98 else 1)
            task.move(Motion(motion.position + noise[:3], motion.rotation * Rotation.from_rotvec(noise[3:]), motion.trigger), 1 / RATE)
        if end is not None and task.time >= end and task.is_done:
            return frames, chance
    raise RuntimeError(f"take {number}: the expert failed a hundred times")


def write_truth(path, frames):
    """Rows at 20 Hz and the step from each to the next, as the simulator knows them."""
    rows = frames[:: RATE // ROWS]
    poses = [row["hand"] for row in rows]
    actions = []
    for (p, r), (q, s), row in zip(poses, poses[1:], rows[1:]):
        actions.append([*r.inv().apply(q - p), *(r.inv() * s).as_matrix()[:, :2].T.ravel(), *row["joints"]])
    images = [row_image(photo(row["image"])) for row in rows[:-1]]
    state, joints = ([row[key] for row in rows[:-1]] for key in ("state", "joints"))
    np.savez(path, state=np.float32(state), joints=np.float32(joints), actions=np.float32(actions), images=np.uint8(images))


def interpolated(times, known, values):
    """Rows of numbers between those that are known, at other times; nothing is extrapolated."""
    return np.stack([np.interp(times, known, column) for column in np.transpose(values)], axis=1)


def write_session(folder, number, frames, chance):
    """The files of the app, with its clocks: frames count from the phone's start, all else has Unix time."""
    (folder / "rgb").mkdir(parents=True)
    count = len(frames)
    times = np.arange(count) / RATE
    uptime = np.round(chance.uniform(1e3, 1e5), 3)
    begun = datetime(2026, 3, 1, 9, tzinfo=timezone.utc) + timedelta(minutes=7 * number, microseconds=int(chance.integers(1_000_000)))
    unix = begun.timestamp()

    lost = np.zeros(count, bool)
    if has(GAP, number):
        start = int(chance.integers(20, count - 50))
        lost[start : start + 24] = True  # the phone was busy for 0.4 s
    no_image = (chance.random(count) < POSES_WITHOUT_IMAGE) & ~lost
    no_pose = (chance.random(count) < IMAGES_WITHOUT_POSE) & ~lost & ~no_image
    no_image[0] = no_pose[0] = False
    jump_at = int(chance.integers(30, count - 30)) if has(JUMP, number) else count
    # ARKit's world begins where the phone was, turned as it was held.
    world = TO_ARKIT * Rotation.from_euler("z", chance.uniform(-np.pi, np.pi))
    moved = Rotation.from_euler("y", 0.3) if has(JUMP, number) else Rotation.identity()

    poses, rotations = [], []
    for index, frame in enumerate(frames):
        position, rotation = world.apply(frame["camera"][0]), world * frame["camera"][1]
        image = frame["image"]
        if index >= jump_at:  # tracking was lost, and found again elsewhere
            position, rotation = moved.apply(position) + [0.25, 0, -0.2], moved * rotation
        if has(PORTRAIT, number):  # the phone was put into the mount upright
            rotation, image = rotation * QUARTER, np.rot90(image, -1)
        rotations.append(rotation)
        if not lost[index] and not no_image[index]:
            (folder / f"rgb/{index:06}.jpg").write_bytes(photo(image))
        if not lost[index] and not no_pose[index]:
            matrix = np.eye(4)
            matrix[:3, :3], matrix[:3, 3] = rotation.as_matrix(), position
            poses.append({
                "rgbIndex": index, "timestamp": round(uptime + times[index], 6), "transform": np.round(matrix, 7).tolist(), "depth": None,
            })  # fmt: skip

    # The IMU turns with the phone as it really moves, whatever ARKit believes.
    true = Rotation.concatenate([frame["camera"][1] for frame in frames])
    middle = (times[:-1] + times[1:]) / 2
    imu_times = np.arange(middle[0], middle[-1], 0.01)
    gyro = interpolated(imu_times, middle, (true[:-1].inv() * true[1:]).as_rotvec() * RATE)
    places = np.array([frame["camera"][0] for frame in frames])
    force = interpolated(imu_times, times[1:-1], true[1:-1].inv().apply(np.diff(places, 2, axis=0) * RATE**2)) / 9.80665
    imu = [
        {"timestamp": round(unix + t + chance.exponential(0.0008), 6), "accel": a.round(6).tolist(), "gyro": (g + chance.normal(0, 0.01, 3)).round(6).tolist()}
        for t, a, g in zip(imu_times, force, gyro)
    ]  # fmt: skip

    # The glove measures, smooths for a while, and sends by radio, which is late by a little more each time.
    joints = np.array([frame["joints"] for frame in frames])
    first = (0.55 if has(LATE, number) else 0.0) + chance.uniform(0, 0.02)
    sent = np.arange(first, times[-1], 0.02)
    angles = interpolated(sent - LATENCY, times, joints) + chance.normal(0, 0.2, (len(sent), 4))
    boot = int(chance.integers(5_000, 500_000))
    arrived = np.maximum.accumulate(unix + sent + 0.004 + chance.exponential(0.006, len(sent)))
    encoders = [
        {"timestamp": round(a, 6), "esp_timestamp_ms": boot + round(t * 1000 * (1 + 30e-6)), **dict(zip(JOINTS, row.round(2).tolist()))}
        for t, a, row in zip(sent, arrived, angles)
    ]

    # What a detector on the gripper sees of the task, with Unix times.
    state = np.array([frame["state"] for frame in frames])
    seen = np.arange(chance.uniform(0, 1 / 60), times[-1], 1 / 60)
    columns = ["unix_time", "cube_x", "cube_y", "cube_z", "goal_x", "goal_y", "goal_z", "turn_sin", "turn_cos"]
    lines = [f"{unix + t:.6f}," + ",".join(f"{x:.6f}" for x in row) for t, row in zip(seen, interpolated(seen, times, state))]
    (folder / "streams").mkdir()
    (folder / "streams/state.csv").write_text(",".join(columns) + "\n" + "".join(line + "\n" for line in lines))

    width, height = IMAGE[::-1] if has(PORTRAIT, number) else IMAGE
    metadata = {
        "captureSource": "iphone_arkit", "deviceModel": "iPhone", "startTime": begun.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "endTime": (begun + timedelta(seconds=times[-1])).strftime("%Y-%m-%dT%H:%M:%SZ"), "durationSeconds": round(times[-1], 3),
        "rgbResolution": [width, height], "rgbFrameCount": int((~lost & ~no_image).sum()), "poseCount": len(poses), "encoderCount": len(encoders), "imuCount": len(imu),
    }  # fmt: skip
    for name, content in [("metadata", metadata), ("poses", poses), ("encoders", encoders), ("imu", imu)]:
        (folder / f"{name}.json").write_text(json.dumps(content))


def write_record3d(path, number, frames, chance):
    """A file of the Record3D app: images and depth maps by number, of which some are missing, and ARKit's poses."""
    world = TO_ARKIT * Rotation.from_euler("z", chance.uniform(-np.pi, np.pi))
    focal = IMAGE[1] / 2 / np.tan(np.radians(FIELD / 2))
    poses = [[*(world * rotation).as_quat(), *world.apply(position)] for position, rotation in (frame["camera"] for frame in frames)]
    metadata = {
        "w": IMAGE[0], "h": IMAGE[1], "dw": DEPTH[0], "dh": DEPTH[1], "K": [focal, 0, 0, 0, focal, 0, IMAGE[0] / 2, IMAGE[1] / 2, 1], "cameraType": 1, "fps": RATE,
        "poses": np.round(poses, 9).tolist(), "frameTimestamps": [round(index / RATE, 9) for index in range(len(frames))],
    }  # fmt: skip
    missing = chance.random(len(frames)) < POSES_WITHOUT_IMAGE
    if has(GAP, number):
        start = int(chance.integers(20, len(frames) - 50))
        missing[start : start + 24] = True
    missing[0] = False
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("metadata", json.dumps(metadata))
        for index in np.flatnonzero(~missing):
            depth = frames[index]["depth"].tobytes()
            file.writestr(f"rgbd/{index}.jpg", photo(frames[index]["image"]))
            # One block of LZFSE that is stored as it is.
            file.writestr(f"rgbd/{index}.depth", b"bvx-" + struct.pack("<I", len(depth)) + depth + b"bvx$")


def record(job):
    root, number, seed, form = job
    frames, chance = demonstrate(number, seed, with_depth=form == "record3d")
    name = f"session_{number:04}"
    write_truth(root / f"truth/{name}.npz", frames)
    (root / "takes").mkdir(exist_ok=True)
    if form == "record3d":
        write_record3d(root / f"takes/{name}.r3d", number, frames, chance)
    else:
        write_session(root / "takes" / name, number, frames, chance)
    return len(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", choices=["session", "record3d"], default="session")
    parser.add_argument("--takes", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args()
    (options.folder / "truth").mkdir(parents=True)
    jobs = [(options.folder, number, options.seed, options.form) for number in range(options.takes)]
    with multiprocessing.Pool(options.jobs) as pool:
        frames = sum(pool.imap_unordered(record, jobs))
    print(f"{options.takes} takes, {frames} frames")


if __name__ == "__main__":
    main()
