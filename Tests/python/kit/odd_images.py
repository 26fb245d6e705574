"""Image files that are damaged, or lean on others, or have transparent pixels."""

import numpy as np
from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def every_image(change):
    """A change of a take of NeRFCapture's: of the array of each image, to the bytes of a PNG."""
    def edit(folder):
        for path in sorted(folder.glob("images/*.png")):
            if not path.name.endswith(".depth.png"):
                path.write_bytes(change(np.asarray(Image.open(path).convert("RGB"))))
    return edit


def with_alpha(pixels, alpha):
    """The pixels with two opacities in a part of the image, and opaque ones around it."""
    layer = np.full(pixels.shape[:2], 255, np.uint8)
    layer[30:40, 20:60], layer[40:50, 20:60] = alpha
    return np.dstack([pixels, layer])


def without_segments(data, marker):
    """The JPEG without its segments of a kind; a decoder that keeps those of the image before needs none."""
    out, at = data[:2], 2
    while data[at + 1] != 0xDA:
        size = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        out += b"" if data[at + 1] == marker else data[at : at + size]
        at += size
    return out + data[at:]


def damaged(data, way):
    """A JPEG with its second half cut off behind an end marker, overwritten or zeroed; without its tables; or with the start of a PNG."""
    half = len(data) // 2
    noise = bytes((k * 73 + 11) % 255 for k in range(300))
    return {
        "cut": data[:half] + b"\xff\xd9", "noise": data[:half] + noise + data[half + 300 :],
        "zeros": data[:half] + bytes(len(data) - 2 - half) + data[-2:], "tables": without_segments(data, 0xDB), "png": SIGNATURE + data,
    }[way]


def with_damaged_images(session, ways):
    """The session with some of its images damaged, by their numbers."""
    session.rgb = {number: damaged(data, ways[number]) if number in ways else data for number, data in session.rgb.items()}
    return session
