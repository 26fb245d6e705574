"""Writes transforms.json: what steps make of poses and joints, computed by SciPy in double precision, for the Swift tests to compare with.

    python Tests/vectors/make.py

Poses are x, y, z, qx, qy, qz, qw, camera to world, as 32-bit floats hold them; times are in nanoseconds, joints in degrees.
"""

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

POSES, JOINTS = 9, 3
KINDS = ["relative-6d", "absolute-6d", "absolute-quat", "delta-pose", "none"]
RATES = ["10", "29.97", "50", "60", "120"]


def poses(random):
    """Positions within 3 m and any rotations, each quaternion nearer to the one before than its negative is."""
    rotations = Rotation.random(POSES, rng=random).as_quat()
    for row in range(1, POSES):
        rotations[row] *= 1 if rotations[row] @ rotations[row - 1] >= 0 else -1
    return np.concatenate([random.uniform(-3, 3, (POSES, 3)), rotations], 1).astype("f4").astype("f8")


def six(rotation, layout):
    matrices = rotation.as_matrix()
    return (matrices[:, :, :2].transpose(0, 2, 1) if layout == "columns" else matrices[:, :2]).reshape(len(matrices), 6)


def actions(found, joints, kind, use, angle, layout):
    """The row after each row, as the row sees it."""
    (at, before), (to, after) = ((part[:, :3], Rotation.from_quat(part[:, 3:])) for part in (found[:-1], found[1:]))
    step = before.inv() * after
    columns = {
        "relative-6d": lambda: [before.inv().apply(to - at), six(step, layout)],
        "absolute-6d": lambda: [to, six(after, layout)],
        "absolute-quat": lambda: [to, found[1:, 3:]],
        "delta-pose": lambda: [to - at, (after * before.inv()).as_rotvec()],
        "none": lambda: [],
    }[kind]()
    scale = np.pi / 180 if angle == "radian" else 1
    columns += {"none": [], "absolute": [joints[1:] * scale], "delta": [np.diff(joints, axis=0) * scale]}[use]
    return np.concatenate(columns, 1)


def resampled(times, found, joints, rate):
    """Rows at the ticks of a grid from the first frame: exact fractions, rounded once, halves to even."""
    ticks = list(itertools.takewhile(lambda tick: tick <= times[-1], (times[0] + round(10**9 / Fraction(rate) * k) for k in itertools.count())))
    rotations = Slerp(times, Rotation.from_quat(found[:, 3:]))(ticks).as_quat()
    rotations[0] *= np.sign(rotations[0] @ found[0, 3:])
    for row in range(1, len(ticks)):
        rotations[row] *= 1 if rotations[row] @ rotations[row - 1] >= 0 else -1
    columns = [np.interp(ticks, times, column) for column in found[:, :3].T] + list(rotations.T)
    return ticks, np.stack(columns, 1), np.stack([np.interp(ticks, times, column) for column in joints.T], 1)


def main(path=Path(__file__).with_name("transforms.json")):
    random = np.random.default_rng(26)
    found = poses(random)
    joints = random.uniform(-90, 90, (POSES, JOINTS)).astype("f4").astype("f8")
    # About 20 Hz, uneven, without a step of more than one and a half periods.
    times = (10**12 + np.arange(POSES) * 50_000_000 + random.integers(-8_000_000, 8_000_000, POSES)).tolist()

    def numbers(array):
        return np.round(array, 9).tolist()

    document = {
        "poses": found.tolist(), "joints": joints.tolist(), "times": times,
        "actions": [
            {"kind": kind, "joints": use, "angle": angle, "rotation-layout": layout, "rows": numbers(actions(found, joints, kind, use, angle, layout))}
            for kind, use, angle in itertools.product(KINDS, ["none", "absolute", "delta"], ["degree", "radian"])
            for layout in (["columns", "rows"] if kind.endswith("6d") else ["columns"])
            if use != "none" or angle == "degree" and kind != "none"
        ],
        "resampled": [
            {"rate": float(rate), "times": ticks, "poses": numbers(rows), "joints": numbers(angles)}
            for rate in RATES for ticks, rows, angles in [resampled(times, found, joints, rate)]
        ],
    }  # fmt: skip
    lines = [json.dumps({key: value}, separators=(",", ":"))[1:-1] for key, value in document.items()]
    path.write_text("{\n" + ",\n".join(lines).replace("},{", "},\n{") + "\n}\n")


if __name__ == "__main__":
    main()
