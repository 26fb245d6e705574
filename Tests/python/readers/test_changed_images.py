"""Images that contradict the depth of their take, and an IMU that contradicts its poses: both are whole, and of another view or time."""

import shutil

import pytest
from lie_fields import Movie, Pictures, Table, Times
from outputs import manifest
from PIL import Image, ImageOps

SIZE = ["--size", "480x360"]
# Of images in files, and of a movie.
APPS = {
    "3d-scanner-app": (["--seconds", 3, *SIZE, "--seed", 4, "--image-every", 1], Pictures("frame_*.jpg")),
    "stray-scanner": (["--seconds", 2, *SIZE, "--seed", 4], Movie("rgb.mp4")),
}


def enlarged(image):
    width, height = image.width / 22, image.height / 22
    return image.resize(image.size, Image.Resampling.BILINEAR, (width, height, image.width - width, image.height - height))


# In words, as Pillow and as ffmpeg do it.
CHANGES = {
    "mirrored left to right": (ImageOps.mirror, "hflip"),
    "mirrored top to bottom": (ImageOps.flip, "vflip"),
    "turned by 180 degrees": (lambda image: image.rotate(180), "hflip,vflip"),
    "enlarged by a tenth": (enlarged, "crop=trunc(iw/2.2)*2:trunc(ih/2.2)*2,scale=480:360"),
}


def change(folder, images, with_pillow, with_ffmpeg):
    if isinstance(images, Movie):
        return images.again(folder, "-vf", with_ffmpeg)
    for path in images.paths(folder):
        images.write(path, with_pillow(Image.open(path).convert("RGB")))


def told(takeset, root, code):
    """The messages of findings with a code, by take."""
    takeset.convert(root / "in", output=root / "out")
    takes = manifest(root / "out")["record"]["takes"]
    return {entry["id"]: [finding["message"] for finding in entry["findings"] if finding["code"] == code] for entry in takes}


@pytest.mark.parametrize("app", APPS)
def test_images_that_were_changed_beside_their_depth_are_named(takeset, tmp_path, app):
    options, images = APPS[app]
    takeset("simulate", app, *options, "--output", tmp_path / "in/sound", check=0)
    for words, how in CHANGES.items():
        change(shutil.copytree(tmp_path / "in/sound", tmp_path / "in" / words.replace(" ", "-")), images, *how)
    found = told(takeset, tmp_path, "geometry-contradictory")
    assert found.pop("sound") == [] and len(found) == len(CHANGES)
    for words in CHANGES:
        (message,) = found[words.replace(" ", "-")]
        assert message.startswith(f"the images are {words} against the depth in ")


# The size of images of an app that holds the phone upright.
UPRIGHT = ["--size", "360x480"]
SOUND = {
    "stack-session": ["--rate", 10, *SIZE], "realitycam-bundle": UPRIGHT, "record3d": UPRIGHT, "polycam": ["--seconds", 12, *SIZE],
    "iphumi": SIZE, "transforms-json": ["--quirk", "times", *SIZE], "anysense": UPRIGHT, "arkitscenes": ["--seconds", 5], "spectacular-rec": SIZE,
}


@pytest.mark.slow
def test_sound_takes_of_every_app_are_silent(takeset, tmp_path):
    for app, options in SOUND.items():
        for seed in 2, 3, 5:
            takeset("simulate", app, *options, "--seed", seed, "--output", tmp_path / f"in/{app}-{seed}", check=0)
    found = told(takeset, tmp_path, "geometry-contradictory")
    assert len(found) == 3 * len(SOUND) and set(map(tuple, found.values())) == {()}


def test_an_imu_that_is_late_beside_the_poses_is_named(takeset, tmp_path):
    takeset("simulate", "stray-scanner", "--seconds", 6, "--size", "96x72", "--depth-size", "32x24", "--output", tmp_path / "in/sound", check=0)
    for name, late in [("late", 100), ("early", -100), ("exposed", 20)]:
        folder = shutil.copytree(tmp_path / "in/sound", tmp_path / "in" / name)
        times = Times(Table("imu.csv", 0, 1, texts=True))
        times.put(folder, [time + late * 10**6 for time in times.get(folder)])
    found = told(takeset, tmp_path, "imu-implausible")
    assert found["sound"] == found["exposed"] == []
    assert [found[name][0].split(":")[0] for name in ("late", "early")] == ["it turns 102 ms later than the poses", "it turns 97 ms earlier than the poses"]
