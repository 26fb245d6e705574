"""What the peers in this directory write in the same way."""

import numpy as np

TOLERANCE_NS = 50_000_000
GZIP = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def nearest(samples, frames):
    """For each frame the index of the nearest sample, -1 when none is within the tolerance; ties go to the earlier."""
    after = np.searchsorted(samples, frames).clip(max=len(samples) - 1)
    before = (after - 1).clip(min=0)
    best = np.where(np.abs(frames - samples[before]) <= np.abs(samples[after] - frames), before, after)
    return np.where(np.abs(samples[best] - frames) <= TOLERANCE_NS, best, -1)


def stored_size(width, height):
    """The size that pictures are stored at: fitted into 320x240 when a side is longer than 640."""
    scale = min(320 / width, 240 / height) if max(width, height) > 640 else 1
    return round(width * scale), round(height * scale)


def create_groups(file, rows):
    """The groups `obs` and `meta` of a file's only demo."""
    demo = file.create_group("data/demo_0")
    demo.attrs["num_samples"] = rows
    file["data"].attrs["total"] = rows
    return demo.create_group("obs"), file.create_group("meta/demo_0")


def create_grid(obs, name, rows, shape, type, **filters):
    """An array of pictures or maps, one a chunk."""
    return obs.create_dataset(name, (rows, *shape), type, chunks=(1, *shape), **filters)


def write_small(group, name, array):
    group.create_dataset(name, data=array, chunks=(min(len(array), 1024), *array.shape[1:]), **GZIP)


def write_stream(meta, name, frames, times, numbers, rows):
    """Which sample of a stream goes with each frame: its number, and how far away it was taken."""
    valid = rows >= 0
    group = meta.create_group(f"streams/{name}")
    write_small(group, "dt_ns", np.where(valid, times[rows] - frames, 0))
    write_small(group, "source_index", np.where(valid, numbers[rows], -1))
    write_small(group, "valid", valid.astype(np.uint8))
