"""Measures how far interpolated poses are from true ones, on recorded trajectories.

    python Benchmarks/interpolation.py TRAJECTORY.txt... [--seed N]

A trajectory is a text file of camera poses at about 60 Hz: per line, the time in nanoseconds and a row-major 3x4 camera-to-world matrix
(meters); lines that begin with # are skipped. From every poses (60 Hz), every second (30 Hz) or every sixth (10 Hz), each method
computes the poses at all recorded times between the first and the last of them, and these are compared with the recorded ones:

    clean      the poses that are given are exact
    jitter     their timestamps are wrong by up to 2 ms, uniformly
    dropped    a tenth of them is missing

Several trajectories are pooled. Prints two Markdown tables: position in millimeters and rotation in degrees, each mean / 95 % / maximum.
Before that, `slerp` is compared with SciPy's.
"""

import argparse

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

STEPS = {"60 Hz": 1, "30 Hz": 2, "10 Hz": 6}
DISTURBANCES = ("clean", "jitter", "dropped")
JITTER = 0.002  # seconds
DROPPED = 0.1


def trajectory(path):
    """Times (n,) in seconds from the first pose, positions (n, 3) in meters, unit quaternions (n, 4), scalar last."""
    rows = [line.split() for line in open(path) if line.strip() and not line.startswith("#")]
    nanoseconds = np.array([int(row[0]) for row in rows])
    matrices = np.array([row[1:] for row in rows], float).reshape(-1, 3, 4)
    # The text has six decimals; SciPy takes the nearest rotation.
    return (nanoseconds - nanoseconds[0]) / 1e9, matrices[:, :, 3], Rotation.from_matrix(matrices[:, :, :3]).as_quat()


# Methods: from samples (times, positions or quaternions) to values at `at`


def neighbors(times, at):
    """For each time, the sample before it and the fraction of the way to the next one."""
    before = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    return before, ((at - times[before]) / (times[before + 1] - times[before]))[:, None]


def nearest(times, values, at):
    """Of two samples that are equally near, the earlier."""
    before, fraction = neighbors(times, at)
    return values[before + (fraction[:, 0] > 0.5)]


def linear(times, values, at):
    before, fraction = neighbors(times, at)
    return (1 - fraction) * values[before] + fraction * values[before + 1]


def catmull_rom(times, values, at):
    """Cubic Hermite segments whose tangents are the mean of the slopes on both sides, each weighted by the other's length."""
    before, u = neighbors(times, at)
    step = np.diff(times)[:, None]
    tangents = weighted(np.diff(values, axis=0) / step, step)
    length = step[before]
    return ((1 + 2 * u) * (1 - u) ** 2 * values[before] + u**2 * (3 - 2 * u) * values[before + 1]
            + u * (1 - u) ** 2 * length * tangents[before] - u**2 * (1 - u) * length * tangents[before + 1])


def weighted(slopes, step):
    """Tangents at the samples from the slopes between them; at the ends, the only slope there is."""
    inner = (slopes[:-1] * step[1:] + slopes[1:] * step[:-1]) / (step[:-1] + step[1:])
    return np.vstack([slopes[:1], inner, slopes[-1:]])


def nlerp(times, quaternions, at):
    """Linear in the four numbers, then normalized."""
    found = linear(times, continuous(quaternions), at)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def slerp(times, quaternions, at):
    """Constant angular velocity between two samples."""
    before, fraction = neighbors(times, at)
    return slide(quaternions[before], quaternions[before + 1], fraction)


def squad(times, quaternions, at):
    """Shoemake's spherical quadrangle. Its inner quaternions give each sample the angular velocity of `weighted` on both sides; with even
    steps they are Shoemake's own, q exp(-(log(q⁻¹ next) + log(q⁻¹ previous)) / 4)."""
    quaternions = continuous(quaternions)
    before, u = neighbors(times, at)
    step = np.diff(times)[:, None]
    turn = log(product(inverse(quaternions[:-1]), quaternions[1:]))  # the same vector in the axes of both ends
    velocity = weighted(turn / step, step)
    first, last = quaternions[:-1], quaternions[1:]
    leaving = product(first, exp((velocity[:-1] * step - turn) / 2))
    arriving = product(last, exp((turn - velocity[1:] * step) / 2))
    outer = slide(first[before], last[before], u)
    return slide(outer, slide(leaving[before], arriving[before], u), 2 * u * (1 - u))


# Quaternions, scalar last


def continuous(quaternions):
    """The same rotations, with signs such that neighbors are less than half a turn apart."""
    flips = np.where((quaternions[:-1] * quaternions[1:]).sum(1) < 0, -1.0, 1.0)
    return quaternions * np.concatenate([[1.0], np.cumprod(flips)])[:, None]


def product(a, b):
    vector = a[:, 3:] * b[:, :3] + b[:, 3:] * a[:, :3] + np.cross(a[:, :3], b[:, :3])
    return np.hstack([vector, a[:, 3:] * b[:, 3:] - (a[:, :3] * b[:, :3]).sum(1, keepdims=True)])


def inverse(a):
    return a * [-1, -1, -1, 1]


def log(a):
    """Half the rotation vector."""
    sine = np.linalg.norm(a[:, :3], axis=1, keepdims=True)
    angle = np.arctan2(sine, a[:, 3:])
    return a[:, :3] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-300), 1)


def exp(vector):
    angle = np.linalg.norm(vector, axis=1, keepdims=True)
    return np.hstack([vector * np.sinc(angle / np.pi), np.cos(angle)])


def slide(a, b, fraction):
    """From a to b along the shorter arc."""
    b = np.where((a * b).sum(1, keepdims=True) < 0, -b, b)
    return product(a, exp(fraction * log(product(inverse(a), b))))


def degrees_between(a, b):
    return np.degrees(2 * np.linalg.norm(log(product(inverse(a), np.where((a * b).sum(1, keepdims=True) < 0, -b, b))), axis=1))


METHODS = {"nearest": (nearest, nearest), "linear": (linear, nlerp), "slerp": (linear, slerp), "squad": (catmull_rom, squad)}


def errors(truth, step, disturbance, random):
    """By method, the distances (m) and angles (degrees) between computed and recorded poses."""
    times, positions, quaternions = truth
    given = np.arange(0, len(times), step)
    known = times[given]
    if disturbance == "jitter":
        known = known + random.uniform(-JITTER, JITTER, len(known))
    if disturbance == "dropped":
        kept = np.ones(len(given), bool)
        kept[1 + random.choice(len(given) - 2, round(DROPPED * len(given)), replace=False)] = False
        given, known = given[kept], known[kept]
    asked = (times >= known[0]) & (times <= known[-1])
    at = times[asked]
    found = {}
    for name, (position, rotation) in METHODS.items():
        distance = np.linalg.norm(position(known, positions[given], at) - positions[asked], axis=1)
        found[name] = distance, degrees_between(rotation(known, quaternions[given], at), quaternions[asked])
    return found


def check(truth):
    """SciPy's Slerp gives the same rotations; squad passes through the samples."""
    times, _, quaternions = truth
    at = np.random.default_rng(0).uniform(times[0], times[-1], 10_000)
    theirs = Slerp(times[::6], Rotation.from_quat(quaternions[::6]))(at[at <= times[::6][-1]]).as_quat()
    ours = slerp(times[::6], quaternions[::6], at[at <= times[::6][-1]])
    ours = np.where((ours * theirs).sum(1, keepdims=True) < 0, -ours, ours)
    difference = np.abs(ours - theirs).max()
    assert difference < 1e-12, f"slerp differs from SciPy's by {difference}"
    assert degrees_between(squad(times, quaternions, times), quaternions).max() < 1e-9
    return difference


def table(title, results, part, scale, digits):
    rows = [f"| {title} | | " + " | ".join(METHODS) + " |", "|---|---|" + "--:|" * len(METHODS)]
    for (rate, disturbance), by_method in results.items():
        cells = []
        for name in METHODS:
            values = by_method[name][part] * scale
            cells.append(" / ".join(f"{value:.{digits}f}" for value in (values.mean(), np.percentile(values, 95), values.max())))
        rows.append(f"| {rate} | {disturbance} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trajectory", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    truths = [trajectory(path) for path in arguments.trajectory]
    print(f"slerp differs from SciPy's by at most {max(map(check, truths)):.1e}\n")
    results = {}
    for rate, step in STEPS.items():
        for disturbance in DISTURBANCES:
            random = np.random.default_rng(arguments.seed)
            found = [errors(truth, step, disturbance, random) for truth in truths]
            results[rate, disturbance] = {name: [np.concatenate(parts) for parts in zip(*(one[name] for one in found))] for name in METHODS}
    print(table("position, mm", results, 0, 1000, 2), table("rotation, degrees", results, 1, 1, 3), sep="\n\n")


if __name__ == "__main__":
    main()
