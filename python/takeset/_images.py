"""Images that are stored as JPEG or PNG files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import TakesetError


def decode_into(out: NDArray[np.uint8], file: bytes) -> None:
    """The pixels of a JPEG or PNG file, RGB, into a C-contiguous array (height, width, 3).

    JPEGs are decoded by simplejpeg where it is installed, in a third of Pillow's time and to the same pixels.
    Raises `TakesetError` if Pillow is needed and not installed, or if the file cannot be decoded or has another size.
    """
    if not _decode_jpeg(out, file):
        out[...] = _decode_by_pillow(file, *out.shape[:2])


def can_decode() -> bool:
    """Whether Pillow is installed."""
    try:
        _pillow()
    except TakesetError:
        return False
    return True


def _decode_jpeg(out: NDArray[np.uint8], file: bytes) -> bool:
    """Whether the file is a JPEG of the right size that could be decoded at once. Of all others Pillow says what is wrong."""
    if not file.startswith(b"\xff\xd8"):
        return False
    try:
        import simplejpeg

        height, width, colors, _ = simplejpeg.decode_jpeg_header(file)
        if (height, width) != out.shape[:2] or colors not in ("YCbCr", "RGB", "Gray"):
            return False
        simplejpeg.decode_jpeg(file, "RGB", fastdct=False, fastupsample=False, buffer=out)
    except (ImportError, ValueError):
        return False
    return True


def _decode_by_pillow(file: bytes, height: int, width: int) -> NDArray[np.uint8]:
    image_module = _pillow()
    try:
        with image_module.open(io.BytesIO(file), formats=("JPEG", "PNG")) as image:
            if image.size != (width, height):  # before memory is taken for it
                raise TakesetError(f"the image is {image.size[0]}x{image.size[1]}, and its dataset says {width}x{height}")
            pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except TakesetError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, struct.error and more.
        raise TakesetError(f"the image cannot be decoded: {error}") from error
    return pixels


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise TakesetError("the images are stored as JPEG or PNG files, which Pillow decodes: pip install 'takeset[images]'") from None
    return Image
