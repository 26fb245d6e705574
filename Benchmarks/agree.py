"""Checks that two conversions of the same takes agree: every array of the first is compared with that of the second.

    python agree.py PEER TAKESET

Both are directories; files are paired by name. Prints the number of frames and the greatest differences found as JSON;
exits with 1 when one of them exceeds its limit. Grids are compared row by row.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "Tests/python/kit"))
from images import frame_code  # noqa: E402

POSE_LIMIT = 1e-5
# Gray levels, mean and maximum. Both decode with libjpeg-turbo and FFmpeg, of different releases; libswscale before FFmpeg 6
# interpolates chroma coarsely between the rows of a frame that is not resized.
JPEG_LIMITS, MOVIE_LIMITS = (0.5, 4), (0.1, 64)
# Takeset fits the rate of the glove's clock (within 100 ppm), the plain script assumes that it is exact.
JOINT_TIME_LIMIT_NS = 2_000_000


def compare(plain, takeset):
    """The differences by name, and messages about those that are too large."""
    found, objections = {}, []

    def check(name, value, limit):
        found[name] = value
        if not value <= limit:
            objections.append(f"{name} is {value}, at most {limit} expected")

    def missing(name, item):
        if isinstance(item, h5py.Dataset) and (name not in takeset or takeset[name].shape != item.shape):
            objections.append(f"{name} is absent or has another shape")

    plain.visititems(missing)
    if objections:
        return found, objections
    obs, meta = "data/demo_0/obs", "meta/demo_0"

    for name in ["timestamp_ns", "source_index"]:
        check(name, unequal(plain[f"{meta}/{name}"], takeset[f"{meta}/{name}"]), 0)
    for stream in plain[f"{meta}/streams"]:
        ours, theirs = (file[f"{meta}/streams/{stream}"] for file in (plain, takeset))
        check(f"{stream}/valid", unequal(ours["valid"], theirs["valid"]), 0)
        if stream != "joints":
            check(f"{stream}/source_index", unequal(ours["source_index"], theirs["source_index"]), 0)
            check(f"{stream}/dt_ns", unequal(ours["dt_ns"], theirs["dt_ns"]), 0)

    if "pose" in plain[obs]:
        check("pose, greatest difference", worst(plain[f"{obs}/pose"][()], takeset[f"{obs}/pose"][()]), POSE_LIMIT)
    if "actions" in plain["data/demo_0"]:
        for name in ["actions", "action_dict/relative_position", "action_dict/relative_rotation_6d"]:
            check(f"{name}, greatest difference", worst(*(file[f"data/demo_0/{name}"][()] for file in (plain, takeset))), POSE_LIMIT)
        check("actions_valid", unequal(plain["data/demo_0/actions_valid"], takeset["data/demo_0/actions_valid"]), 0)
    if "depth_point" in plain[obs]:
        check("depth_point", unequal_numbers(plain[f"{obs}/depth_point"][()], takeset[f"{obs}/depth_point"][()]), 0)
        check("depth_point_valid", unequal(plain[f"{obs}/depth_point_valid"], takeset[f"{obs}/depth_point_valid"]), 0)
    if "joints" in plain[obs]:
        compare_joints(plain, takeset, obs, meta, check)
    if "camera_depth" in plain[obs]:
        for name in ["camera_depth", "camera_depth_valid"]:
            a, b = plain[f"{obs}/{name}"], takeset[f"{obs}/{name}"]
            check(name, sum(int(np.count_nonzero(a[row] != b[row])) for row in range(len(a))), 0)
    total, greatest, wrong = 0.0, 0, 0
    a, b = plain[f"{obs}/camera_image"], takeset[f"{obs}/camera_image"]
    numbers = plain[f"{meta}/source_index"][()]
    for row in range(len(a)):
        difference = np.abs(a[row].astype(np.int16) - b[row])
        total += difference.mean()
        greatest = max(greatest, int(difference.max()))
        wrong += any(frame_code(image) != numbers[row] for image in (a[row], b[row]))
    mean_limit, greatest_limit = JPEG_LIMITS if "pose" in plain[obs] else MOVIE_LIMITS
    check("camera_image, mean difference", total / len(a), mean_limit)
    check("camera_image, greatest difference", greatest, greatest_limit)
    check("camera_image, pictures that are not their frame's", wrong, 0)
    return found, objections


def compare_joints(plain, takeset, obs, meta, check):
    """Angles must be equal up to full turns where both used the same reading; other readings must be about equally near."""
    ours, theirs = (file[f"{meta}/streams/joints"] for file in (plain, takeset))
    dt = [stream["dt_ns"][()] for stream in (ours, theirs)]
    same = ours["source_index"][()] == theirs["source_index"][()]
    check("joints/dt_ns, greatest difference for the same reading", int(np.abs(dt[0] - dt[1])[same].max()), JOINT_TIME_LIMIT_NS)
    other = np.abs(np.abs(dt[0]) - np.abs(dt[1]))[~same]
    check("joints, distances of different readings apart", int(other.max(initial=0)), JOINT_TIME_LIMIT_NS)
    check("joints, share of rows with different readings", float(np.mean(~same)), 0.2)
    check("joints_valid", unequal_rows(plain, takeset, f"{obs}/joints_valid", same), 0)
    a, b = (file[f"{obs}/joints"][()][same].astype(np.float64) for file in (plain, takeset))
    turns = np.round((a - b) / 360)
    check("joints, greatest difference up to whole turns", float(np.nanmax(np.abs(a - b - 360 * turns))), 1e-4)
    # Unwrapping may start at another turn, but must not change turns later.
    check("joints, changes of turn", sum(len(set(column[np.isfinite(column)])) - 1 for column in turns.T), 0)


def unequal(a, b):
    return int(np.count_nonzero(a[()] != b[()]))


def unequal_rows(plain, takeset, name, rows):
    return int(np.count_nonzero(plain[name][()][rows] != takeset[name][()][rows]))


def unequal_numbers(a, b):
    return int(np.count_nonzero((a != b) & ~(np.isnan(a) & np.isnan(b))))


def worst(a, b):
    return float(np.abs(a.astype(np.float64) - b).max())


def compare_all(ours, theirs):
    frames, worst_found = 0, {}
    names = [{path.name for path in directory.glob("*.h5")} for directory in (ours, theirs)]
    if not names[0] or names[0] != names[1]:
        return {"frames": 0, "differences": {}, "objections": [f"{len(names[0])} and {len(names[1])} files, or other names"]}
    objections = []
    for path in sorted(ours.glob("*.h5")):
        with h5py.File(path) as plain, h5py.File(theirs / path.name) as takeset:
            found, words = compare(plain, takeset)
            frames += int(plain["data"].attrs["total"])
        worst_found |= {name: max(value, worst_found.get(name, 0)) for name, value in found.items()}
        objections += [f"{path.name}: {word}" for word in words]
    return {"frames": frames, "differences": worst_found, "objections": objections}


if __name__ == "__main__":
    result = compare_all(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps(result, indent=1))
    sys.exit(1 if result["objections"] else 0)
