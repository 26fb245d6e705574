"""Arrays that all peers in this directory compute and write in the same way."""

import numpy as np

TOLERANCE_NS = 50_000_000
JOINTS = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]


def filters(level, shuffle=True):
    """HDF5's filters for one level of deflate, as keyword arguments of h5py; level 0 means none."""
    return {"compression": "gzip", "compression_opts": level, "shuffle": shuffle} if level else {}


GZIP = filters(4)


def nanoseconds(seconds):
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


def nearest(samples, frames):
    """Index of the nearest sample for each frame, -1 when none is within the tolerance; ties go to the earlier."""
    after = np.searchsorted(samples, frames).clip(max=len(samples) - 1)
    before = (after - 1).clip(min=0)
    best = np.where(np.abs(frames - samples[before]) <= np.abs(samples[after] - frames), before, after)
    return np.where(np.abs(samples[best] - frames) <= TOLERANCE_NS, best, -1)


def stored_size(width, height, is_default=False):
    """The size of stored images: fitted into 320x240 when a side is longer than 640, or, by the default pipeline, when it does not fit."""
    scale = min(320 / width, 240 / height) if is_default or max(width, height) > 640 else 1
    return (round(width * scale), round(height * scale)) if scale < 1 else (width, height)


def joints(readings, first_frame):
    """Angles with NaN for failed readings, each joint unwrapped, and their times on the frames' clock.

    Nothing relates the two clocks to better than a second: the session's start time has whole ones. Both recordings should start together, so the first
    reading is placed at the first frame; later ones follow the sender's milliseconds, since arrival times jitter.
    """
    readings = sorted(readings, key=lambda reading: reading["timestamp"])
    angles = np.array([[reading[joint] for joint in JOINTS] for reading in readings], np.float64)
    angles[angles == -1] = np.nan
    for channel in angles.T:
        valid = np.isfinite(channel)
        channel[valid] = np.unwrap(channel[valid], period=360)
    sent = np.array([reading["esp_timestamp_ms"] for reading in readings], np.int64)
    return angles.astype(np.float32), first_frame + (sent - sent[0]) * 1_000_000


def create_groups(file, rows):
    """The groups `obs` and `meta` of a file's only demo."""
    demo = file.create_group("data/demo_0")
    demo.attrs["num_samples"] = rows
    file["data"].attrs["total"] = rows
    return demo.create_group("obs"), file.create_group("meta/demo_0")


def create_grid(obs, name, rows, shape, type, **filters):
    """An array of images or maps, one per chunk."""
    return obs.create_dataset(name, (rows, *shape), type, chunks=(1, *shape), **filters)


def write_small(group, name, array, gzip=GZIP):
    group.create_dataset(name, data=array, chunks=(min(len(array), 1024), *array.shape[1:]), **gzip)


def write_numbers(obs, name, samples, rows, gzip=GZIP):
    """Writes the values of each frame's sample, NaN where there is none."""
    values = np.where((rows >= 0)[:, None], samples[rows], np.nan).astype(np.float32)
    write_small(obs, name, values, gzip)
    write_small(obs, f"{name}_valid", np.isfinite(values).astype(np.uint8), gzip)


def write_stream(meta, name, frames, times, numbers, rows, gzip=GZIP):
    """Writes the sample of a stream that is paired with each frame: its number and its time difference."""
    valid = rows >= 0
    group = meta.create_group(f"streams/{name}")
    write_small(group, "dt_ns", np.where(valid, times[rows] - frames, 0), gzip)
    write_small(group, "source_index", np.where(valid, numbers[rows], -1), gzip)
    write_small(group, "valid", valid.astype(np.uint8), gzip)


def write_actions(demo, matrices, gzip):
    """Writes the pose of the next frame relative to each frame's camera: position, and two columns of the rotation. The last frame holds."""
    rotations, positions = matrices[:-1, :3, :3], matrices[:, :3, 3]
    actions = np.zeros((len(matrices), 9))
    actions[:-1, :3] = np.einsum("nji,nj->ni", rotations, np.diff(positions, axis=0))
    actions[:-1, 3:] = np.einsum("nji,njk->nki", rotations, matrices[1:, :3, :2]).reshape(-1, 6)
    actions[-1, 3:] = [1, 0, 0, 0, 1, 0]
    valid = np.ones(len(actions), np.uint8)
    valid[-1] = 0
    write_small(demo, "actions", actions.astype(np.float32), gzip)
    write_small(demo, "actions_valid", valid, gzip)
    parts = demo.create_group("action_dict")
    write_small(parts, "relative_position", actions[:, :3].astype(np.float32), gzip)
    write_small(parts, "relative_rotation_6d", actions[:, 3:].astype(np.float32), gzip)


def write_points_and_joints(obs, meta, entries, readings, frames, numbers, gzip):
    """Writes depth points of the poses that have one, and joints where there are readings; neither is a grid."""
    with_point = [row for row, entry in enumerate(entries) if entry.get("depth") is not None]
    if with_point:
        points = np.array([[entries[row]["depth"]] for row in with_point])
        rows = nearest(frames[with_point], frames)
        write_numbers(obs, "depth_point", points, rows, gzip)
        write_stream(meta, "depth_point", frames, frames[with_point], numbers[with_point], rows, gzip)
    if readings:
        angles, times = joints(readings, frames[0])
        rows = nearest(times, frames)
        write_numbers(obs, "joints", angles, rows, gzip)
        write_stream(meta, "joints", frames, times, np.arange(len(times)), rows, gzip)
