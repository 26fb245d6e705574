"""Training windows for PyTorch: what was observed up to a row, and the actions that follow.

    from takeset.torch import Loader, Windows

    windows = Windows("dataset/", split="train", observation_horizon=2, action_horizon=16)
    for batch in Loader(windows, batch_size=32):
        batch["obs"]["camera_image"]                      # (32, 2, 3, H, W) uint8
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._dataset import Dataset as OpenDataset
from ._loading import BatchLoader
from ._motion import RotationLayout
from ._reading import New
from ._scaling import Scaling
from ._window_options import ActionKind, FirstAction, JointUse, Method, WindowOptions
from ._windows import WindowReader

try:
    import torch
    from torch import Tensor
    from torch.utils.data import Dataset, default_collate
except ImportError as error:
    raise ImportError("takeset.torch needs PyTorch: pip install 'takeset[torch]'") from error

__all__ = ["Loader", "Scaling", "Windows", "collate"]


class Windows(Dataset[dict[str, Any]]):  # type: ignore[misc, unused-ignore]  # where PyTorch is not installed
    """A map-style dataset of windows, each around a row t of an episode. No window crosses a gap, the end of an episode or a split.

    Which windows there are:

    source               directory of a dataset, its dataset.h5, a packed file, a shard (with split=None), or what `takeset.open` returned
    split                train, valid, test or another name under /mask; None: all episodes; a list: the episodes with these ids
    observation_horizon  o: rows t-o+1 ... t are the observation
    action_horizon       k: the number of rows of actions
    stride               rows from one t to the next, starting again after each gap
    pad                  True: every row is a t; rows beyond a run of rows without gaps are its first or last row, again
    skip_masked          what a window must have all values of, or it is left out: names of observations, "actions" and "action_joints".
                         None: the actions, and all observed poses, joints and other vectors, so that no observation is NaN.
                         True: the actions, and all observations, images too. (): nothing, so NaN is the learner's to mask

    What they hold:

    keys                 observations, as under `obs`
    actions              relative-6d: the poses of the action rows as seen from the pose of row t, computed from `obs/pose`
                         stored: rows t ... t+k-1 of the file's `actions`, each one a step of one row
                         stored-chunk: the first k actions of row t of the file's `action_chunk`
                         None: observations only
    rotation_layout      of relative-6d; columns: first and second column of the rotation matrix; rows: its first two rows, as UMI has them
    first_action         of relative-6d; next: action rows are t+1 ... t+k; current: t ... t+k-1, as UMI has them, so the first is no motion
    joints               separate: joints of the action rows are an entry of their own; append: they are the last columns of relative-6d
                         actions; none: neither. The default is separate for relative-6d, and none for stored actions, which may have them

    How it is scaled:

    normalize            True: poses, joints, other vectors and actions; or a collection of keys, "actions" and "action_joints", which may
                         include images and depth
    normalization        minmax, gaussian or quantile; None: as the pipeline's step `normalize`, or gaussian without one
    normalize_rotation   False: 6-D rotations, rotation vectors and quaternions stay as they are
    image_size           (height, width): images are resized to it, bilinearly with antialiasing; their aspect ratio is not kept
    crop                 (height, width): this part of the images (after resizing), the center or, with random_crop, somewhere. All
                         frames of a window are cropped at the same place, of each key at another one
    random_crop          True for training; positions are from PyTorch's random numbers, which DataLoader seeds in each worker
    image_transform      a callable on the (o, 3, H, W) u1 frames of a window, after resizing and cropping, such as torchvision's transforms
    image_floats         True: images are f4 from 0 to 1, instead of u1
    labels               True: the text of the segment that row t is in, or else the task of the episode, as `text`

    Depth, confidence and masks keep their size; images alone are resized, cropped and transformed.

    Each sample is a dictionary with the same entries and shapes, so that PyTorch's default collate function, or `collate`, makes batches:

    obs[key]             (o, ...) as stored. Images are (o, 3, H, W) u1, depth (o, 1, h, w) f4, or int32 if stored in whole millimeters
    obs[key + "_valid"]  bool: (o, ...), one per element, where the file has such a mask (depth, joints), else (o,), one per row
    actions              (k, A) f4; relative-6d has 9 columns: translation, and six of the rotation. 0 where masked
    actions_valid        (k,) bool
    action_joints        (k, 4) f4: joints of the action rows, in degrees; only with joints="separate", and if an episode has joints
    action_joints_valid  (k, 4) bool; all False for an episode without joints
    observation_is_pad   (o,) bool, with pad=True: rows that another one stands for
    action_is_pad        (k,) bool, likewise
    text                 with labels=True, a text, which is empty where nobody has said anything; a batch has a list of them

    A masked joint angle or other vector is NaN, so a loss that ignores the mask is NaN too. By default no window has one among its
    observations; `action_joints` may, unless `skip_masked` names them. Images and depth are 0 where masked.
    Frames are in channels-last memory, as they are stored and as convolutions like them best: `.view` on them may need `.contiguous()`.

    Numbers are normalized by the statistics of the training episodes, whatever the split: those under `/stats`, and for relative-6d
    those of the actions of all rows of the training episodes, computed when the object is made.

    Everything that would make a sample or a batch fail is checked when the object is made: keys that an episode does not have, images
    of several sizes, units and camera axes that differ, encoded images without Pillow, horizons for which no episode is long enough.
    Raises `TakesetError`, and `ValueError` for options that make no sense.

    The object may be inherited by forked workers and pickled to spawned ones. Each process opens the files by itself, when it reads first.

    episodes  names of the episodes, such as demo_000003
    index     (n, 2) int64 array: of each window, the number of its episode in `episodes`, and its row t
    skipped   number of windows that are left out because of masks
    skipped_by  how many of them by what is masked, such as joints; a window that lacks several things counts under each
    scalings  scale and offset by key: normalized = (x - offset) / scale
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | OpenDataset,
        split: str | Sequence[str] | None = "train",
        observation_horizon: int = 2,
        action_horizon: int = 16,
        keys: Sequence[str] = ("camera_image", "pose"),
        stride: int = 1,
        *,
        pad: bool = False,
        skip_masked: bool | Collection[str] | None = None,
        actions: ActionKind | None = "relative-6d",
        rotation_layout: RotationLayout = "columns",
        first_action: FirstAction = "next",
        joints: JointUse | None = None,
        normalize: bool | Collection[str] = False,
        normalization: Method | None = None,
        normalize_rotation: bool = True,
        image_size: tuple[int, int] | None = None,
        crop: tuple[int, int] | None = None,
        random_crop: bool = False,
        image_transform: Callable[[Tensor], Tensor] | None = None,
        image_floats: bool = False,
        labels: bool = False,
    ) -> None:
        options = WindowOptions(
            observation_horizon, action_horizon, keys, stride, actions, rotation_layout, first_action, joints, skip_masked, pad,
            normalize, normalization, normalize_rotation, labels,
        )  # fmt: skip
        self._image_size, self._crop, self._random_crop = _size("image_size", image_size), _size("crop", crop), random_crop
        self._image_transform, self._image_floats = image_transform, image_floats
        if random_crop and crop is None:
            raise ValueError("random_crop=True needs crop=(height, width)")
        self._reader = WindowReader(source, split, options, resizes_images=image_size is not None)
        self.episodes, self.index, self.skipped = self._reader.episodes, self._reader.index, self._reader.skipped
        self.skipped_by: dict[str, int] = self._reader.skipped_by
        self.scalings: dict[str, Scaling] = self._reader.scalings
        self._require_room_for_crop()

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, i: int) -> dict[str, Any]:
        sample: dict[str, Any] = _tensors(self._reader[i])
        for key in self._reader.images:
            sample["obs"][key] = self._image(key, sample["obs"][key], sample["obs"][key + "_valid"], None)
        return sample

    def batch(self, numbers: Sequence[int], new: New = np.empty, seed: int | None = None) -> dict[str, Any]:
        """Samples together: each entry has one axis more, in front, as `collate` makes it of them.

        new   makes the arrays of images and maps as they are stored
        seed  of random crops; None: PyTorch's random numbers
        """
        if type(self).__getitem__ is not Windows.__getitem__:
            changed: dict[str, Any] = collate([self[i] for i in numbers])  # as somebody has made them
            return changed
        random = None if seed is None else torch.Generator().manual_seed(seed & (1 << 63) - 1)
        batch: dict[str, Any] = _tensors(self._reader.batch(numbers, new))
        for key in self._reader.images if self._changes_images else ():
            frames, valid = batch["obs"][key], batch["obs"][key + "_valid"]
            windows = (one[0] for one in frames) if isinstance(frames, list) else frames
            batch["obs"][key] = collate([self._image(key, *one, random) for one in zip(windows, valid)])
        return batch

    @property
    def _changes_images(self) -> bool:
        options = (self._image_size, self._crop, self._image_transform)
        return any(one is not None for one in options) or self._image_floats or any(key in self.scalings for key in self._reader.images)

    def __repr__(self) -> str:
        options = self._reader.options
        holds = f"{options.observation_horizon} rows of {', '.join(options.keys)}"
        ahead = f"{options.action_horizon} actions" if options.actions else "no actions"
        episodes = f"{len(self.episodes)} episode" + ("s" if len(self.episodes) != 1 else "")
        left_out = f"; {self.skipped} are left out" if self.skipped else ""
        return f"<takeset.torch.Windows of {self._reader.path!r}: {len(self)} windows of {holds}, and {ahead}, of {episodes}{left_out}>"

    def place(self, i: int) -> tuple[str, int]:
        """The id of the episode that a window is from, and its row t."""
        number, t = self.index[i].tolist()
        return self._reader.rows(number).episode.id, t

    def normalize(self, key: str, x: Tensor) -> Tensor:
        """(x - offset) / scale: what samples have under `key`, which is that of an observation, actions or action_joints.

        x  (..., C), or (..., C, H, W) for images and maps
        """
        scale, offset = self._scaling(key, x)
        return ((x.to(scale.dtype) - offset) / scale).to(_floating(x))

    def denormalize(self, key: str, x: Tensor) -> Tensor:
        """x * scale + offset: from what samples have under `key`, or a policy's output, back to the units of the file."""
        scale, offset = self._scaling(key, x)
        return (x.to(scale.dtype) * scale + offset).to(_floating(x))

    def _scaling(self, key: str, x: Tensor) -> tuple[Tensor, Tensor]:
        if key not in self.scalings:
            raise KeyError(f"{key} is not normalized; {', '.join(self.scalings) or 'nothing'} is: see the option normalize")
        scaling, kind = self.scalings[key], self._reader.kind(key) if key in self._reader.options.keys else None
        shape = (-1, 1, 1) if kind in ("image", "depth", "confidence") else (-1,)
        # A range may be small against its offset. Apple's GPUs have no float64.
        dtype = torch.float32 if x.device.type == "mps" else torch.float64
        numbers = (torch.as_tensor(one, dtype=dtype, device=x.device).reshape(shape) for one in (scaling.scale, scaling.offset))
        scale, offset = numbers
        return scale, offset

    # Images

    def _image(self, key: str, frames: Tensor, valid: Tensor, random: torch.Generator | None) -> Tensor:
        if self._image_size is not None and frames.shape[-2:] != self._image_size:
            frames = torch.nn.functional.interpolate(frames, size=self._image_size, mode="bilinear", antialias=True)
        if self._crop is not None:
            (height, width), (room_y, room_x) = self._crop, (frames.shape[-2] - self._crop[0], frames.shape[-1] - self._crop[1])
            y = int(torch.randint(room_y + 1, (), generator=random)) if self._random_crop else room_y // 2
            x = int(torch.randint(room_x + 1, (), generator=random)) if self._random_crop else room_x // 2
            frames = frames[..., y : y + height, x : x + width]
        if self._image_transform is not None:
            frames = self._image_transform(frames)
        if key in self.scalings:
            frames = self.normalize(key, frames.to(torch.float32))
            frames[~valid] = 0
            return frames
        if self._image_floats and not frames.is_floating_point():
            return frames.to(torch.float32).div_(255)
        return frames

    def _require_room_for_crop(self) -> None:
        if self._crop is None:
            return
        for key in self._reader.images:
            height, width = self._image_size or self._reader.rows(0)[key].shape[1:3]
            if self._crop[0] > height or self._crop[1] > width:
                raise ValueError(f"crop is {self._crop[1]}x{self._crop[0]}, and {key} is only {width}x{height}")


class Loader(BatchLoader[dict[str, Any]]):
    """Shuffled batches of `Windows`, made ahead of time by threads of this process: nothing is copied from one process to another.

    windows      `takeset.torch.Windows`
    batch_size   windows of a batch
    threads      how many make batches; None: one for each core, and at most 8. Reading, decoding and copying images run beside each other
                 and beside the training; a slow `image_transform` in Python does not, and is better in a DataLoader with workers
    shuffle      True: each epoch has the windows in an order of its own, which the seed gives. False: in the order of their numbers
    seed         of the order, and of random crops
    drop_last    True: the windows that are left after the last whole batch are none
    part         (number, count), such as (rank, world_size): batches number, number + count, … of those that all parts share
    pin_memory   True: tensors are in page-locked memory, from which they are copied to a GPU while it computes; needs CUDA

    Each `for` over a loader is the next epoch. `len` is the number of batches of an epoch. The batches are those of the same seed with
    any number of threads, unless `image_transform` is random. `state_dict()` and `load_state_dict()` save where an epoch is, so that training goes on with the batch after.

    The memory of a batch is used again when nothing refers to its tensors any more; keep them as long as you like.

        loader = Loader(windows, batch_size=32)
        for batch in loader:
            images = batch["obs"]["camera_image"]         # (32, 2, 3, H, W), as of a DataLoader with `collate`

    Raises `TakesetError` for a batch that cannot be read, and `ValueError` for options that make no sense.
    """

    def __init__(
        self, windows: Windows, batch_size: int = 32, threads: int | None = None, *, shuffle: bool = True, seed: int = 0,
        drop_last: bool = True, part: tuple[int, int] = (0, 1), pin_memory: bool = False,
    ) -> None:  # fmt: skip
        if pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True needs CUDA, which PyTorch does not find here")
        if not isinstance(windows, Windows):
            raise TypeError(f"a Loader is of takeset.torch.Windows, found {type(windows).__name__}; DataLoader takes any dataset")
        super().__init__(windows, batch_size, threads, shuffle=shuffle, seed=seed, drop_last=drop_last, part=part)
        self._pin_memory = pin_memory

    def _batch(self, numbers: Sequence[int], seed: int) -> dict[str, Any]:
        batch = super()._batch(numbers, seed)
        # PyTorch's own memory knows which copies to a GPU are still going on.
        return _pinned(batch) if self._pin_memory else batch


def collate(samples: Sequence[Any]) -> Any:
    """A batch of samples, as PyTorch's default collate function makes it, but several times faster for images.

    The default one turns frames into channels-first memory, byte by byte. This one copies them as they are: the batch has the same shape
    (B, o, 3, H, W), in channels-last memory, for which convolutions have faster kernels.

        DataLoader(windows, batch_size=32, collate_fn=takeset.torch.collate)
    """
    first = samples[0]
    if isinstance(first, dict):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, Tensor) and first.dim() == 4 and not first.is_contiguous():
        return default_collate([sample.movedim(1, 3) for sample in samples]).movedim(4, 2)
    return default_collate(list(samples))


def _floating(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.float32


def _size(name: str, size: tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, int) or len(size) != 2 or min(size) < 1:
        raise ValueError(f"{name} is (height, width) in pixels, found {size!r}")
    return int(size[0]), int(size[1])


def _tensors(value: Any) -> Any:
    """Tensors that share the memory of NumPy arrays."""
    if isinstance(value, dict):
        return {key: _tensors(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_tensors(one) for one in value]
    if isinstance(value, str):
        return value
    # PyTorch has few operations on uint16, which whole millimeters are stored as.
    return torch.from_numpy(value.astype("int32") if value.dtype == "uint16" else value)


def _pinned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pinned(one) for key, one in value.items()}
    return value.pin_memory() if isinstance(value, Tensor) else value
