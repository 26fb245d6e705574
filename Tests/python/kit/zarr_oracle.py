"""Zarr format 2 read by hand, and the rules of the programs that read replay buffers."""

import json
import zipfile
import zlib

import numpy as np


class Store:
    """The arrays of a Zarr store of format 2 in a folder or an uncompressed zip file."""

    def __init__(self, path):
        if path.is_dir():
            found = (p for p in path.rglob("*") if p.is_file() and p.name != "takeset-export.json")
            self.members = {str(p.relative_to(path)): p.read_bytes for p in found}
        else:
            archive = zipfile.ZipFile(path)
            assert archive.testzip() is None and all(m.compress_type == zipfile.ZIP_STORED for m in archive.infolist())
            assert len(set(archive.namelist())) == len(archive.namelist())
            self.members = {name: lambda name=name: archive.read(name) for name in archive.namelist()}
        for folder in "", "data/", "meta/":
            assert self.json(f"{folder}.zgroup") == {"zarr_format": 2}
        self.names = sorted(name.rpartition("/")[0] for name in self.members if name.endswith(".zarray"))

    def json(self, name):
        return json.loads(self.members[name]())

    def __getitem__(self, name):
        """An array, put together of its chunks. There is one for each, and all of them are complete."""
        layout = self.json(f"{name}/.zarray")
        assert layout["zarr_format"] == 2 and layout["order"] == "C" and layout["filters"] is None and layout["fill_value"] == 0
        shape, chunks, dtype = layout["shape"], layout["chunks"], np.dtype(layout["dtype"])
        assert chunks[1:] == shape[1:] and chunks[0] >= 1
        count = -(-shape[0] // chunks[0])
        expected = {f"{name}/" + ".".join([str(k), *"0" * (len(shape) - 1)]) for k in range(count)}
        assert {m for m in self.members if m.startswith(f"{name}/") and not m.rpartition("/")[2].startswith(".z")} == expected
        parts = []
        for k in range(count):
            data = self.members[f"{name}/" + ".".join([str(k), *"0" * (len(shape) - 1)])]()
            if layout["compressor"] is not None:
                assert layout["compressor"]["id"] == "zlib" and 1 <= layout["compressor"]["level"] <= 9
                data = zlib.decompress(data)
            parts.append(np.frombuffer(data, dtype).reshape(chunks))
        whole = np.concatenate(parts)
        assert not whole[shape[0] :].any()
        return whole[: shape[0]]


def check_replay_buffer(store):
    """What diffusion-policy's ReplayBuffer demands. The arrays below data, and the ends of the episodes."""
    assert all(name.split("/")[0] in ("data", "meta") for name in store.names)
    ends = store["meta/episode_ends"]
    assert ends.dtype == np.int64 and ends.ndim == 1 and (np.diff(ends, prepend=0) > 0).all()
    data = {name.removeprefix("data/"): store[name] for name in store.names if name.startswith("data/")}
    assert data and all(len(array) == ends[-1] for array in data.values())
    return data, ends


class UMI:
    """What UMI's dataset and sampler read of a buffer."""

    def __init__(self, data, ends):
        self.images = {key: array for key, array in data.items() if key.endswith("_rgb")}
        for array in self.images.values():
            assert array.shape[1:] == (224, 224, 3) and array.dtype == np.uint8
        self.numbers = {}
        for key, width in ("robot0_eef_pos", 3), ("robot0_eef_rot_axis_angle", 3), ("robot0_gripper_width", 1):
            self.numbers[key] = data[key][:].astype(np.float32)
            assert self.numbers[key].shape[1:] == (width,)
        # Without a key of its own, an action is these side by side.
        self.action = data.get("action", np.concatenate([*self.numbers.values()], -1))
        assert self.action.shape[1] == 7
        for key in "robot0_demo_start_pose", "robot0_demo_end_pose":
            assert data[key].shape[1:] == (6,) and data[key].dtype == np.float64
        self.starts = np.concatenate([[0], ends[:-1]])
        # Rows are interpolated by SciPy's Slerp, which needs two.
        assert (ends - self.starts).min() >= 2
        self.ends = ends

    def window(self, row, past=2, future=16, step=3):
        """Rows of observations up to a row, and of actions from it on, within its episode; the first and last ones are repeated."""
        episode = np.searchsorted(self.ends, row, "right")
        observed = np.clip(row - step * np.arange(past)[::-1], self.starts[episode], None)
        acted = np.clip(row + step * np.arange(future), None, self.ends[episode] - 1)
        return observed, self.action[acted]
