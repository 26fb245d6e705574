"""The frame numbers that the images of the tests carry, and how close images must be."""

import struct

import numpy as np


def frame_code(image):
    """The number in an image's top row of 24 black and white blocks, or None when the parity is wrong."""
    height, width, _ = image.shape
    row = image[: max(height // 40, 1)].mean(axis=(0, 2))
    bits = [row[int((k + 0.25) * width / 24) : int((k + 0.75) * width / 24)].mean() > 128 for k in range(24)]
    for group in range(4):
        if sum(bits[group * 5 : group * 5 + 5]) % 2 != bits[20 + group]:
            return None
    return sum(int(b) << (19 - k) for k, b in enumerate(bits[:20]))


def numbers(images, degrees=0):
    """The numbers in images that are stored rotated clockwise."""
    return [frame_code(np.rot90(image, degrees // 90)) for image in images]


def close(stored, expected, most=3, mean=1):
    difference = np.abs(stored.astype(int) - expected)
    assert stored.shape == expected.shape, (stored.shape, expected.shape)
    assert difference.max() <= most and difference.mean() <= mean, (difference.max(), difference.mean())


def with_size(data, width, height):
    """A JPEG whose frame header states another size."""
    at = next(data.index(marker) for marker in (b"\xff\xc0", b"\xff\xc2") if marker in data)
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


def progressive(width, height, scans):
    """A valid gray image of this many scans, each for one coefficient of one component at one bit depth."""

    def segment(marker, data):
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    def padded(bits):
        bits += "1" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")

    blocks = -(-width // 8) * -(-height // 8)
    runs, left = "", blocks  # the blocks whose coefficients are all zero, in runs of up to 2^14 + ...
    lengths = []
    while left:
        power = min(left.bit_length() - 1, 14)
        run = min(left, 2 ** (power + 1) - 1)
        lengths.append((power, run))
        left -= run
    powers = sorted({power for power, _ in lengths})
    width_of_code = max((len(powers)).bit_length(), 1)
    for power, run in lengths:
        runs += f"{powers.index(power):0{width_of_code}b}" + (f"{run - 2**power:0{power}b}" if power else "")
    counts = bytes(len(powers) if k == width_of_code else 0 for k in range(1, 17))
    data = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    data += segment(0xC2, struct.pack(">BHHB", 8, height, width, 3) + b"".join(bytes([k, 0x11, 0]) for k in (1, 2, 3)))
    data += segment(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0") + segment(0xC4, b"\x10" + counts + bytes(power << 4 for power in powers))
    data += segment(0xDA, b"\3\1\0\2\0\3\0" + b"\0\0\0") + padded("0" * (3 * blocks))
    made = 1
    for high, low in (0, 2), (2, 1), (1, 0):
        for component in 1, 2, 3:
            for coefficient in range(1, 64):
                if made < scans:
                    data += segment(0xDA, bytes([1, component, 0, coefficient, coefficient, high << 4 | low])) + padded(runs)
                    made += 1
    assert made == scans
    return data + b"\xff\xd9"


def psnr(one, other):
    """How close images are, in decibels."""
    return 10 * np.log10(255**2 / np.mean((np.asarray(one, "f8") - other) ** 2))
