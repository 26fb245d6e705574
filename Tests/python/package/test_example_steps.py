"""examples/steps: the steps that use OpenCV, on drawn tags, shifted patterns, a photo of a face and colored boxes."""

import shutil

import numpy as np
import pytest
from example_steps import FOLDER, images_block, load

from takeset import steps

pytestmark = pytest.mark.loaders

TAKE = steps.Take("take", "drawn")


def called(name, block):
    """What a class of the examples gives for the first block of a take."""
    return getattr(load(FOLDER / f"{name}.py"), name.title().replace("_", ""))(block.options, TAKE)(block)


# gripper_width.py

SIZE = 0.016
FOCAL, WIDTH, HEIGHT = 900.0, 640, 480
CAMERA = [FOCAL, FOCAL, 320, 240]


def tag(number):
    """Cells of a tag of DICT_4X4_50, with its black border and one white cell around it: (8, 8)."""
    import cv2

    cells = cv2.aruco.generateImageMarker(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50), number, 6)
    return np.pad(cells, 1, constant_values=255)


def turned(x, y, z):
    """The rotation by x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos([x, y, z]), np.sin([x, y, z])
    about_x, about_y, about_z = [[1, 0, 0], [0, cx, -sx], [0, sx, cx]], [[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]], [[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]]
    return np.array(about_z) @ about_y @ about_x


def photo(tags, rng, samples=4):
    """A gray image with noise, of tags (number, rotation, center in m): each pixel is the mean of rays through it."""
    camera = np.array([[FOCAL, 0, CAMERA[2]], [0, FOCAL, CAMERA[3]], [0, 0, 1]])
    y, x = (np.indices((HEIGHT * samples, WIDTH * samples)) + 0.5) / samples - 0.5
    rays = np.stack([x, y, np.ones_like(x)], axis=-1)
    seen = np.full(x.shape, 128.0)
    for number, rotation, center in tags:
        # A point (u, v) of the tag's plane is seen at camera @ (u * right + v * down + center).
        at = rays @ np.linalg.inv(camera @ np.column_stack([rotation[:, 0], rotation[:, 1], center])).T
        column, row = np.floor(at[..., :2] / at[..., 2:] / SIZE * 6 + 4).astype(int).transpose(2, 0, 1)
        hit = (column >= 0) & (column < 8) & (row >= 0) & (row < 8)
        seen[hit] = tag(number)[row[hit], column[hit]]
    gray = seen.reshape(HEIGHT, samples, WIDTH, samples).mean(axis=(1, 3)) + rng.normal(0, 3, (HEIGHT, WIDTH))
    return np.repeat(np.clip(np.rint(gray), 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def pair(distance, depth, rng, tilt, slant, numbers=(0, 1)):
    """Two tags this far apart, each tilted by up to `tilt` radians; `slant` is how much the line between them runs into the depth."""
    angle = rng.uniform(-0.3, 0.3)
    line = np.array([np.cos(angle), np.sin(angle), slant])
    half = line / np.linalg.norm(line) * distance / 2
    center = np.array([0.005, 0.01, depth])
    return [(n, turned(*rng.uniform(-tilt, tilt, 2), rng.uniform(-1, 1)), center + sign * half) for n, sign in zip(numbers, (-1, 1), strict=True)]


@pytest.mark.parametrize("depth", [0.2, 0.3, 0.45])
@pytest.mark.parametrize("facing", [True, False])
def test_the_width_of_a_gripper_is_right_within_a_millimeter(depth, facing):
    """Tags of 72, 48 and 32 pixels, at openings from 25 to 90 mm; without a camera where they face it, with one where they are tilted by 30°."""
    rng = np.random.default_rng(11)
    openings = np.linspace(0.025, 0.09, 8)
    tilt, slant = (0, 0) if facing else (0.5, 0.25)
    options = {"tag_size": SIZE} if facing else {"tag_size": SIZE, "camera": CAMERA}
    images = [photo(pair(opening, depth, rng, tilt, slant), rng) for opening in openings]
    width, valid = called("gripper_width", images_block(images, **options))
    assert width.shape == (8, 1) and width.dtype == np.float32 and valid.dtype == bool and valid.all()
    assert np.abs(width[:, 0] - openings).max() < 0.001


def test_without_a_tag_or_an_image_there_is_no_width():
    rng = np.random.default_rng(3)
    both = pair(0.05, 0.2, rng, 0, 0)
    images = [photo(tags, rng) for tags in (both, both[:1], [], both, [*both, (0, np.eye(3), np.array([0.0, -0.03, 0.2]))])]
    width, valid = called("gripper_width", images_block(images, valid=[True, True, True, False, True]))
    assert valid.tolist() == [True, False, False, False, False]  # the last has tag 0 twice
    assert np.isnan(width[1:]).all() and abs(width[0, 0] - 0.05) < 0.001


def test_other_tags_of_another_size_by_options():
    rng = np.random.default_rng(5)
    image = photo(pair(0.06, 0.2, rng, 0, 0, numbers=(17, 4)), rng)
    width, valid = called("gripper_width", images_block([image], ids=[17, 4], tag_size=2 * SIZE))
    assert valid.all() and abs(width[0, 0] - 0.12) < 0.001  # twice the size, twice the distance
    assert called("gripper_width", images_block([image]))[1].tolist() == [False]


# blur_faces.py


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """The module, in a folder with OpenCV's file."""
    import cv2

    folder = tmp_path_factory.mktemp("faces")
    shutil.copy(FOLDER / "blur_faces.py", folder)
    shutil.copy(cv2.data.haarcascades + "haarcascade_frontalface_default.xml", folder)
    return load(folder / "blur_faces.py")


@pytest.fixture(scope="module")
def astronaut():
    """512 x 512 pixels of Eileen Collins, whose face is at (177, 67), (270, 160)."""
    from skimage import data

    return data.astronaut()


def test_a_face_is_blurred_and_nothing_else_changes(faces, astronaut):
    images, valid = faces.BlurFaces({}, TAKE)(images_block([astronaut]))
    assert images.shape == (1, 512, 512, 3) and images.dtype == np.uint8 and valid.tolist() == [True]
    changed = (images[0] != astronaut).any(axis=2)
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    assert 30 < rows[0] < 67 and 160 < rows[-1] < 200 and 140 < columns[0] < 177 and 270 < columns[-1] < 310
    face = np.s_[67:160, 177:270]
    assert changed[face].mean() > 0.95
    # Details are gone, the color is not. Neighbors differ by as good as nothing.
    detail = [np.abs(np.diff(image[face].astype(int), axis=1)).mean() for image in (astronaut, images[0])]
    assert detail[1] < detail[0] / 3
    assert np.abs(images[0][face].mean(axis=(0, 1)) - astronaut[face].mean(axis=(0, 1))).max() < 25
    assert not list(faces.BlurFaces({}, TAKE).faces(images[0]))


def test_a_rectangle_is_held_over_rows_and_blocks(faces, astronaut):
    """The face is upside down from the second row on, which the detector misses."""
    other = np.full_like(astronaut, 90)
    other[::2, ::2] = 160
    step = faces.BlurFaces({"hold": 2}, TAKE)
    first = step(images_block([astronaut, other], hold=2))[0]
    second = step(images_block([other, other], first=2, hold=2))[0]
    touched = [bool((image != source).any()) for image, source in zip([*first, *second], [astronaut, other, other, other], strict=True)]
    assert touched == [True, True, True, False]
    whole = faces.BlurFaces({"hold": 2}, TAKE)(images_block([astronaut, other, other, other], hold=2))[0]
    assert np.array_equal(whole, np.concatenate([first, second]))


def test_a_row_without_an_image_stays_without(faces, astronaut):
    images, valid = faces.BlurFaces({}, TAKE)(images_block([astronaut, astronaut], valid=[True, False]))
    assert valid.tolist() == [True, False] and not images[1].any()


def test_small_faces_are_looked_for_by_an_option(faces, astronaut):
    assert not list(faces.BlurFaces({"min-side": 200}, TAKE).faces(astronaut))
    small, large = (next(iter(faces.BlurFaces({"grow": grow}, TAKE).faces(astronaut))) for grow in (0, 0.5))
    assert large[0] < small[0] < small[2] < large[2] and large[1] < small[1] < small[3] < large[3]


def test_without_the_file_of_the_detector_the_step_says_so():
    with pytest.raises(FileNotFoundError, match=r"haarcascade_frontalface_default.xml is not beside blur_faces.py; copy it there"):
        load(FOLDER / "blur_faces.py")


def test_without_the_detector_the_step_says_so(monkeypatch):
    import cv2

    monkeypatch.delattr(cv2, "CascadeClassifier")
    with pytest.raises(ImportError, match=r"has no CascadeClassifier; install opencv-python-headless<5"):
        load(FOLDER / "blur_faces.py")


# optical_flow.py


def pattern(shift_x=0.0, shift_y=0.0, width=320, height=240):
    """Smooth waves of several lengths, moved by this many pixels."""
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:height, :width].astype(float)
    values = sum(
        np.sin((x - shift_x) * np.cos(angle) * pace + (y - shift_y) * np.sin(angle) * pace + phase)
        for angle, pace, phase in zip(rng.uniform(0, np.pi, 12), rng.uniform(0.05, 0.4, 12), rng.uniform(0, 7, 12), strict=True))
    return np.repeat(np.clip(128 + 30 * values, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def direction_and_speed(color, full_speed):
    """Degrees, clockwise from the right, and pixels a row: the median of the middle, decoded with Python's own HSV."""
    import colorsys

    found = np.array([colorsys.rgb_to_hsv(*pixel) for pixel in color[15:-15, 20:-20].reshape(-1, 3) / 255])
    angle = np.exp(2j * np.pi * found[:, 0])
    return np.degrees(np.angle(np.median(angle.real) + 1j * np.median(angle.imag))) % 360, np.median(found[:, 2]) * full_speed


@pytest.mark.parametrize("x, y", [(8, 0), (0, 6), (-6, 0), (0, -8), (5, 5), (-3, 4)])
def test_the_flow_of_a_shift_has_its_direction_and_speed(x, y):
    """Shifts in pixels of 320x240, of which four are one of 80x60."""
    colors, valid = called("optical_flow", images_block([pattern(), pattern(x, y)], full_speed=4))
    assert colors.shape == (2, 60, 80, 3) and colors.dtype == np.uint8 and valid.tolist() == [False, True]
    assert not colors[0].any()
    direction, speed = direction_and_speed(colors[1], 4)
    away = (direction - np.degrees(np.arctan2(y, x)) + 180) % 360 - 180
    assert abs(away) < 5 and speed == pytest.approx(np.hypot(x, y) / 4, rel=0.08, abs=0.05)


def test_what_does_not_move_is_black_and_what_is_too_fast_has_full_value():
    colors, valid = called("optical_flow", images_block([pattern(), pattern(), pattern(8, 0)], full_speed=1))
    assert valid.tolist() == [False, True, True]
    assert colors[1].max() <= 2 and np.median(colors[2].max(axis=2)) == 255


def test_blocks_of_any_length_give_the_same_flow():
    images = [pattern(3 * row, -row) for row in range(7)]
    module = load(FOLDER / "optical_flow.py")
    whole, valid = module.OpticalFlow({}, TAKE)(images_block(images))
    for length in 1, 2, 3:
        step = module.OpticalFlow({}, TAKE)
        parts = [step(images_block(images[first : first + length], first=first)) for first in range(0, 7, length)]
        assert np.array_equal(np.concatenate([colors for colors, _ in parts]), whole)
        assert np.concatenate([one for _, one in parts]).tolist() == valid.tolist() == [False] + [True] * 6


def test_there_is_no_flow_to_or_from_a_missing_image():
    images = [pattern(row) for row in range(5)]
    colors, valid = called("optical_flow", images_block(images, valid=[True, True, False, True, True]))
    assert valid.tolist() == [False, True, False, False, True] and not colors[2:4].any()


# success.py


def scene(at=None, color=(20, 200, 40), noise=12):
    """A gray table of 160x120 pixels with a colored cube of 24x24 pixels."""
    rng = np.random.default_rng(8)
    image = np.full((120, 160, 3), 130) + rng.integers(-noise, noise + 1, (120, 160, 3))
    if at:
        left, top = at
        image[top : top + 24, left : left + 24] = np.array(color) + rng.integers(-noise, noise + 1, (24, 24, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


BOX = {"box": [0.5, 0.5, 0.8, 0.9], "share": 0.2}  # pixels 80 to 128, 60 to 108: 48x48, of which a cube is a quarter


@pytest.mark.parametrize(
    "at, color, options, success",
    [
        ((90, 70), (20, 200, 40), {}, True),
        ((10, 70), (20, 200, 40), {}, False),
        ((70, 70), (20, 200, 40), {}, False),  # 14 of 24 columns are inside: 15 %
        ((70, 70), (20, 200, 40), {"share": 0.1}, True),
        (None, None, {}, False),
        ((90, 70), (30, 60, 220), {}, False),
        ((90, 70), (30, 60, 220), {"hue": [210, 250]}, True),
        ((90, 70), (210, 30, 25), {"hue": [340, 20]}, True),  # through 0
        ((90, 70), (20, 200, 40), {"hue": [340, 20]}, False),
        ((90, 70), (120, 150, 124), {}, False),  # pale
        ((90, 70), (5, 30, 8), {}, False),  # dark
    ],
)
def test_a_colored_cube_in_its_box_is_a_success(at, color, options, success):
    image = scene(at, color) if at else scene()
    found = called("success", images_block([scene((10, 10)), image], **BOX | options))
    assert found == {"success": success} and type(found["success"]) is bool


def test_the_last_image_of_the_take_counts():
    module = load(FOLDER / "success.py")
    inside, outside = scene((90, 70)), scene((10, 10))
    step, labels = module.Success(BOX, TAKE), {}
    for images, valid in ([outside, inside], None), ([outside, inside, outside], [True, True, False]), ([outside, outside], [False, False]):
        labels |= step(images_block(images, valid=valid))
    assert labels == {"success": True}
    assert step(images_block([outside], valid=[False])) == {}
    assert step(images_block([outside])) == {"success": False}


@pytest.mark.parametrize("box", [[0.5, 0.5, 0.5, 0.9], [0, 0, 1.2, 1], [0.8, 0, 0.2, 1]])
def test_a_box_that_is_none_is_refused(box):
    with pytest.raises(ValueError, match=r"box is \[.*\], which is no \[left, top, right, bottom\] from 0 to 1"):
        load(FOLDER / "success.py").Success({"box": box}, TAKE)
