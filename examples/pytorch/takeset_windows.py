"""Training windows from a Takeset dataset: observations up to a frame, and the camera motion that follows.

    windows = Windows("build/dataset/dataset.h5", split="train", observation_horizon=2, action_horizon=16)
    loader = torch.utils.data.DataLoader(windows, batch_size=32, shuffle=True, num_workers=4)

With PyTorch a sample holds tensors; without it, NumPy arrays of the same values.
"""

import os

import h5py
import numpy as np

try:
    import torch
    from torch.utils.data import Dataset
except ImportError:
    torch, Dataset = None, object


class Windows(Dataset):
    """A map-style dataset of windows, each around a frame t of an episode. No window crosses a gap or the end of an episode.

    path                 dataset.h5, or one shard of episodes/ (with split=None)
    split                a name under /mask; None selects every episode
    observation_horizon  o: rows t-o+1 ... t are the observation
    action_horizon       k: rows t+1 ... t+k are the actions
    keys                 observation keys, as under obs
    stride               rows from one t to the next, restarting after each gap

    Every sample is a dict with the same entries and shapes, so DataLoader's default collate function makes batches:

    obs[key]             (o, ...) as stored; images are channels-first: camera_image is (o, 3, H, W) u1
    obs[key + "_valid"]  bool, (o, ...) where the file has a mask per element, else (o,), one per row
    actions              (k, 9) f4: future camera poses relative to the pose at t, inv(T_t) * T_(t+i):
                         translation, then the first and second column of the rotation matrix. Row t of the file's own
                         `actions` is the first of them, and row t of `action_chunk` all, if it has that horizon
    action_joints        (k, 4) f4: the joint angles of those rows, in degrees; only if an episode of the split has joints
    action_joints_valid  (k, 4) bool; all False for an episode without joints

    A masked joint angle is NaN, so a loss that ignores the mask is NaN too.
    """

    def __init__(self, path, split="train", observation_horizon=2, action_horizon=16, keys=("camera_image", "pose"), stride=1):
        if min(observation_horizon, action_horizon, stride) < 1:
            raise ValueError("observation_horizon, action_horizon and stride must be at least 1")
        self.path = os.path.abspath(path)
        self.observation_horizon, self.action_horizon, self.keys = observation_horizon, action_horizon, tuple(keys)
        self._file, self._pid = None, None
        with h5py.File(self.path) as file:
            self.episodes = _episodes(file, split)
            _require_alike(file, self.episodes, {*self.keys, "pose"})
            self.has_joints = any("joints" in file["data"][name]["obs"] for name in self.episodes)
            # One row (episode number, t) per window, from num_samples and gaps alone; no sample is read.
            index = [
                (number, t)
                for number, name in enumerate(self.episodes)
                for first, end in _runs(file, name)
                for t in range(first + observation_horizon - 1, end - action_horizon, stride)
            ]
        self.index = np.array(index, dtype=np.int64).reshape(-1, 2)

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        number, t = self.index[i].tolist()
        file, name = self._open(), self.episodes[number]
        stored, streams = file["data"][name]["obs"], file["meta"][name]["streams"]
        seen = slice(t - self.observation_horizon + 1, t + 1)
        ahead = slice(t + 1, t + 1 + self.action_horizon)
        obs = {}
        for key in self.keys:
            obs[key] = _channels_first(stored[key][seen])
            mask = stored.get(key + "_valid") or streams.get(key + "/valid")
            if mask is not None:
                obs[key + "_valid"] = _channels_first(mask[seen].astype(bool))
        sample = {"obs": obs, "actions": relative_poses(stored["pose"][t : ahead.stop]).astype(np.float32)}
        if self.has_joints:
            has, shape = "joints" in stored, (self.action_horizon, 4)
            sample["action_joints"] = stored["joints"][ahead] if has else np.full(shape, np.nan, np.float32)
            sample["action_joints_valid"] = stored["joints_valid"][ahead].astype(bool) if has else np.zeros(shape, bool)
        return sample if torch is None else _tensors(sample)

    def _open(self):
        """The file, opened by the current process: two processes must not share an open HDF5 file."""
        if self._pid != os.getpid():
            if self._file is not None:  # Inherited by fork; HDF5 would reuse the open file.
                self._file.close()
            self._file, self._pid = h5py.File(self.path), os.getpid()
        return self._file

    def __getstate__(self):
        """Everything except the open file, so a spawned worker opens its own."""
        return {**self.__dict__, "_file": None, "_pid": None}


def relative_poses(poses):
    """Poses (n, 7) x y z qx qy qz qw after the first, relative to the first: (n - 1, 9), as in `Windows`."""
    poses = np.asarray(poses, dtype=np.float64)
    rotations = rotation_matrices(poses[:, 3:])
    steps = (poses[1:, :3] - poses[0, :3]) @ rotations[0]  # row vector times R equals transpose(R) times column vector
    turns = rotations[0].T @ rotations[1:]
    return np.concatenate([steps, turns[:, :, 0], turns[:, :, 1]], axis=1)


def rotation_matrices(quaternions):
    """Rotation matrices (n, 3, 3) from quaternions (n, 4) x y z w, normalized first: rounding to f4 changes their length."""
    x, y, z, w = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _episodes(file, split):
    if split is None:
        return list(file["data"])
    if split not in file.get("mask", ()):
        raise KeyError(f"{file.filename}: no /mask/{split}; for all episodes, or for a single shard, use split=None")
    return [name.decode() for name in file["mask"][split][:]]


def _runs(file, name):
    """The runs of frames between the gaps of an episode, as (first row, row after the last)."""
    cuts = (file["meta"][name]["gaps"][:, 0] + 1).tolist()
    return zip([0, *cuts], [*cuts, int(file["data"][name].attrs["num_samples"])])


def _require_alike(file, names, keys):
    """Samples of different shapes cannot be batched: fail now, not in the middle of an epoch."""
    shapes = {}
    for name, key in ((name, key) for name in names for key in sorted(keys)):
        data, where = file["data"][name]["obs"].get(key), f"{name} ({file['data'][name].attrs['take_id']}): obs/{key}"
        if data is None:
            raise KeyError(f"{where} is not there")
        if data.attrs.get("encoding", "raw") != "raw":
            raise ValueError(f"{where} is stored encoded, and this example reads raw pixels")
        if shapes.setdefault(key, data.shape[1:]) != data.shape[1:]:
            raise ValueError(f"{where} is {data.shape[1:]}, but {shapes[key]} in {names[0]}; resize to one size")


def _channels_first(rows):
    return np.ascontiguousarray(np.moveaxis(rows, 3, 1)) if rows.ndim == 4 else rows


def _tensors(value):
    return {k: _tensors(v) for k, v in value.items()} if isinstance(value, dict) else torch.from_numpy(value)
