"""What a take that lies became: its rows beside those of its sound twin, which images tell apart by their numbers."""

import numpy as np
from images import frame_code
from phone_takes import absolute
from scipy.spatial.transform import Rotation

NEAR = 8_000_000


class Rows:
    """The rows of an episode."""

    def __init__(self, entry, demo, meta):
        self.entry, self.demo, self.meta = entry, demo, meta
        self.times = absolute(meta)
        self.images = demo["obs/camera_image"][:]
        count = len(self.times)
        self.valid = {}
        for name in meta["streams"]:
            group = meta["streams"][name]
            self.valid[name] = group["valid"][:].astype(bool) if "valid" in group else np.ones(count, bool)
        codes = [frame_code(image) for image in self.images]
        self.numbers = [code if valid else None for code, valid in zip(codes, self.valid["camera_image"])]

    def stream(self, name):
        found = self.demo.get(f"obs/{name}")
        return None if found is None else found[:]


def problems(sound, made):
    """What is wrong with the rows of a lying take, and what they lack, in words."""
    found = set()
    place = {number: row for row, number in enumerate(sound.numbers) if number is not None}
    twins = []
    for row, number in enumerate(made.numbers):
        if number is None and made.valid["camera_image"][row]:
            found.add("image unreadable")
        if number is not None and number not in place:
            found.add("image unknown")
        twin = place.get(number)
        if twin is None:
            twin = int(np.argmin(np.abs(sound.times - made.times[row])))
            twin = twin if abs(int(sound.times[twin]) - int(made.times[row])) < NEAR else None
        elif abs(int(sound.times[twin]) - int(made.times[row])) > NEAR:
            found.add("times")
        twins.append(twin)
    rows = [(row, twin) for row, twin in enumerate(twins) if twin is not None]
    if len(made.times) < len(sound.times):
        found.add("rows lost")
    if len({twin for _, twin in rows}) < len(rows) or len(made.times) > len(sound.times):
        found.add("rows added")
    if not rows:
        return found | {"no row known"}
    for name, valid in sound.valid.items():
        if made.stream(name) is None:
            found.add(f"{name} lost")
        elif made.valid[name].sum() < valid.sum():
            found.add(f"{name} masked")
    for name in made.valid:
        both = [(row, twin) for row, twin in rows if name in sound.valid and made.valid[name][row] and sound.valid[name][twin]]
        if both and not same(name, sound, made, *map(list, zip(*both))):
            found.add(name)
    return found | cameras(sound, made, rows) | inertial(sound, made)


def from_the_first(poses):
    turn = Rotation.from_quat(poses[0, 3:]).inv()
    return np.hstack([turn.apply(poses[:, :3] - poses[0, :3]), (turn * Rotation.from_quat(poses[:, 3:])).as_quat()])


def same(name, sound, made, rows, twins):
    one, other = sound.stream(name)[twins], made.stream(name)[rows]
    if name == "camera_image" or name == "ultrawide_image":
        return True  # told apart by their numbers
    if name == "pose":
        if sound.entry["variant"] != made.entry["variant"]:
            # Other poses of the same take, in a world of their own.
            one, other = from_the_first(one), from_the_first(other)
        turn = Rotation.from_quat(one[:, 3:]).inv() * Rotation.from_quat(other[:, 3:])
        return np.abs((one[:, :3] - one[0, :3]) - (other[:, :3] - other[0, :3])).max() < 2e-3 and turn.magnitude().max() < 0.01
    one, other = one.astype(float), other.astype(float)
    if one.shape != other.shape:
        return False
    known = np.isfinite(one) & np.isfinite(other)
    if f"{name}_valid" in sound.demo["obs"]:
        masks = sound.demo[f"obs/{name}_valid"][:][twins].astype(bool), made.demo[f"obs/{name}_valid"][:][rows].astype(bool)
        if masks[1].sum() < 0.9 * masks[0].sum():
            return False
        known &= masks[0] & masks[1]
    return np.allclose(one[known], other[known], rtol=0.01, atol=0.02 * max(np.abs(one[known]).max(initial=0), 1e-9))


def cameras(sound, made, rows):
    found = set()
    for name in ("intrinsics", "camera_depth_intrinsics"):
        if name not in sound.meta:
            if name in made.meta:
                found.add(f"{name} appeared")
        elif name not in made.meta:
            found.add(f"{name} lost")
        else:
            scale = 1.0
            if name == "intrinsics":
                scale = made.images.shape[2] / sound.images.shape[2]
            one, other = (np.reshape(rowed.meta[name][:], (-1, 4)) for rowed in (sound, made))
            one, other = (values[[pair[which] for pair in rows]] if len(values) > 1 else values for which, values in ((1, one), (0, other)))
            if not np.allclose(one * scale, other, rtol=0.01):
                found.add(name)
    return found


def inertial(sound, made):
    if "imu" not in sound.meta:
        return set()
    if "imu" not in made.meta:
        return {"imu lost"}
    def lines(rows):
        group = rows.meta["imu"]
        times = group["timestamp_ns"][:] + int(group["timestamp_ns"].attrs["origin_ns"])
        return {int(time): value for time, value in zip(times, np.hstack([group["accel"][:], group["gyro"][:]]))}

    one, other = lines(sound), lines(made)
    found = set()
    if len(other) < len(one):
        found.add("imu lost")
    times = np.array(sorted(one))
    for time, value in other.items():
        near = times[np.argmin(np.abs(times - time))]
        if abs(int(near) - time) > 20_000 or not np.allclose(one[int(near)], value, atol=1e-3):
            found.add("imu")
            break
    return found


def told(sound, entry):
    """Findings that the sound twin does not have."""
    def key(finding):
        return finding["code"], finding.get("count"), finding["message"], finding.get("field")

    known = {key(finding) for finding in sound["findings"]}
    return [finding for finding in entry["findings"] if key(finding) not in known and not finding["code"].startswith("assertion-")]
