"""Small pictures as PNG files, written with zlib alone."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file (PNG specification, third edition) of RGB pixels (H, W, 3) u1, H and W at least 1."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, 3 * width)
    # Filters 1 and 2 of section 9.2: differences to the pixel on the left and to the one above; of each row, the smaller ones.
    left, above = rows.copy(), rows.copy()
    left[:, 3:] -= rows[:, :-3]
    above[1:] -= rows[:-1]
    sizes = [np.abs(kind.astype(np.int8).astype(np.int32)).sum(axis=1) for kind in (left, above)]
    use_left = sizes[0] <= sizes[1]
    filtered = np.empty((height, 1 + 3 * width), np.uint8)
    filtered[:, 0] = np.where(use_left, 1, 2)
    filtered[:, 1:] = np.where(use_left[:, None], left, above)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, deflate, the five filters, not interlaced
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """RGB pixels (H, W, 3) as the address of an `<img>`, without a file."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def shrunk(pixels: NDArray[Any], height: int) -> NDArray[Any]:
    """An image (H, W, C) at most `height` high, by averaging blocks of pixels; the type stays. Edges that fill no block are cut off."""
    step = max(1, round(pixels.shape[0] / height))
    rows, columns = (max(side // step, 1) for side in pixels.shape[:2])
    cut = pixels[: rows * step, : columns * step]
    if 0 in cut.shape or step == 1 or cut.shape[:2] != (rows * step, columns * step):
        return pixels[::step, ::step]
    means = cut.reshape(rows, step, columns, step, -1).mean(axis=(1, 3))
    return np.asarray(np.rint(means) if pixels.dtype.kind == "u" else means).astype(pixels.dtype)


def shaded(depth: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """A depth map (h, w, 1) as gray pixels (h, w, 3): near bright, far dark, unknown dark blue."""
    values, known = depth[..., 0].astype(np.float64), valid[..., 0]
    low, high = np.percentile(values[known], (2, 98)) if known.any() else (0.0, 1.0)
    gray = 235 - 195 * np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    return np.where(known[..., None], gray[..., None], (20, 20, 60)).astype(np.uint8)
