"""The simulated room by NumPy, independent of Takeset: walls with textures, three balls and a crate; y up, in meters."""

import numpy as np

LOW, HIGH = np.array([-3, -1.2, -2.5]), np.array([3, 1.6, 2.5])
BALLS = [((1.9, -0.7, -1.4), 0.5, (0.85, 0.25, 0.2)), ((-1.8, -0.8, 1.2), 0.4, (0.2, 0.55, 0.85)), ((0.3, 0.9, 1.9), 0.3, (0.95, 0.8, 0.25))]
CRATE = np.array([-2.2, -1.2, -1.9]), np.array([-1.3, -0.3, -1.1])


def odd(*lengths):
    return sum(np.floor(length).astype(int) for length in lengths) % 2 == 1


def wall(point, axis):
    """Mean of red, green and blue, from 0 to 1, of a point on the wall across this axis."""
    x, y, z = point.T
    across = np.where(odd(4 * z), 0.72, 0.8) + 0.08 * y, np.where(odd(2.5 * x, 2.5 * z), 0.5, 0.71), np.where(odd(3 * x, 3 * y), 0.62, 0.74)
    floor = np.where(y > 0, np.mean([0.9, 0.9, 0.88]), across[1])
    return np.choose(axis, [across[0] * np.mean([0.95, 0.9, 0.8]), floor, across[2] * np.mean([0.8, 0.9, 0.95])])


def seen(origin, directions):
    """What rays (N, 3) from a point meet first: how many times their length away, and how bright it is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exits = (np.where(directions > 0, HIGH, LOW) - origin) / directions
        exits[~np.isfinite(exits)] = np.inf
        far = exits.min(1)
        bright = wall(origin + far[:, None] * directions, exits.argmin(1))
        for center, radius, color in BALLS:
            offset = origin - np.array(center)
            a, b = (directions**2).sum(1), directions @ offset
            root = b * b - a * (offset @ offset - radius * radius)
            near = (-b - np.sqrt(np.maximum(root, 0))) / a
            hit = (root > 0) & (near > 0) & (near < far)
            up = ((origin + near[:, None] * directions)[:, 1] - center[1]) / radius
            far, bright = np.where(hit, near, far), np.where(hit, np.mean(color) * (0.55 + 0.45 * np.maximum(up, 0)), bright)
        sides = np.stack([(corner - origin) / directions for corner in CRATE])
        enter, leave = sides.min(0).max(1), sides.max(0).min(1)
        hit = (enter > 0) & (enter < leave) & (enter < far)
        planks = np.where(odd(12 * (origin + enter[:, None] * directions)[:, 1]), 0.8, 1) * np.mean([0.62, 0.45, 0.28])
    return np.where(hit, enter, far), np.where(hit, planks, bright)


def rays(camera, size, shift=(0, 0)):
    """Rays (N, 3) of length 1 along the optical axis through the centers of a grid's pixels, in OpenGL's camera axes; row after row."""
    (fx, fy, cx, cy), (width, height) = camera, size
    y, x = np.mgrid[0:height, 0:width] + 0.5
    return np.stack([(x + shift[0] - cx) / fx, -(y + shift[1] - cy) / fy, -np.ones(x.shape)], -1).reshape(-1, 3)


def view(pose, camera, size, shift=(0, 0), every=1):
    """Depth and brightness of the room for each pixel of a camera's grid, row after row, or for one of so many; the grid may be moved by a part of
    a pixel. `pose` is a matrix of OpenGL's axes."""
    return seen(pose[:3, 3], rays(camera, size, shift)[::every] @ pose[:3, :3].T)


def distance_to_room(points):
    """How far points are from the nearest true surface of the simulated room, in meters."""
    walls = np.minimum(np.abs(points - LOW), np.abs(points - HIGH)).min(1)
    balls = [np.abs(np.linalg.norm(points - center, axis=1) - radius) for center, radius, _ in BALLS]
    low, high = CRATE
    outside = np.linalg.norm(np.maximum(np.maximum(low - points, points - high), 0), axis=1)
    inside = np.minimum(points - low, high - points).min(1)
    return np.minimum.reduce([walls, *balls, np.where(inside > 0, inside, outside)])
