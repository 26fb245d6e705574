"""The motion of a camera as actions: later poses as an earlier one sees them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

RotationLayout = Literal["columns", "rows"]
Float64 = NDArray[np.float64]


def relative_6d(anchor: NDArray[np.floating], later: NDArray[np.floating], layout: RotationLayout = "columns") -> Float64:
    """Poses relative to an anchor, inv(T_anchor) T_later: (..., k, 9), translation and six numbers of the rotation.

    anchor  (..., 7), x y z qx qy qz qw
    later   (..., k, 7)
    layout  columns: the first and the second column of the rotation matrix; rows: its first two rows, as UMI has them
    """
    anchor, later = np.asarray(anchor, np.float64), np.asarray(later, np.float64)
    poses = np.concatenate([anchor[..., None, :], later], axis=-2)
    rotations = rotation_matrices(poses[..., 3:])
    before = rotations[..., 0, :, :]
    # inv(R) = transpose(R), and a row vector times R is transpose(R) times the column vector.
    steps = (later[..., :3] - anchor[..., None, :3]) @ before
    turns = np.swapaxes(before, -1, -2)[..., None, :, :] @ rotations[..., 1:, :, :]
    first, second = (turns[..., 0], turns[..., 1]) if layout == "columns" else (turns[..., 0, :], turns[..., 1, :])
    return np.concatenate([steps, first, second], axis=-1)


def rotation_matrices(quaternions: NDArray[np.floating]) -> Float64:
    """Rotation matrices (..., 3, 3) of quaternions (..., 4), x y z w, which are normalized first: rounding to f4 changes their length."""
    quaternions = np.asarray(quaternions, np.float64)
    x, y, z, w = np.moveaxis(quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True), -1, 0)
    matrices = np.empty((*quaternions.shape[:-1], 3, 3))
    matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    matrices[..., 1, 0], matrices[..., 1, 1], matrices[..., 1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    matrices[..., 2, 0], matrices[..., 2, 1], matrices[..., 2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)
    return matrices
