"""Videos in which something changes on the way are decoded as FFmpeg does from the front, or refused, whatever the jobs."""

import numpy as np
import pytest
from conversions import Together, failed_with
from images import close, numbers
from odd_videos import changing
from videos import decoded

RIGHT = ["two descriptions.mp4", "other sets.mp4", "other sets once.mp4"]


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    """All in one run of four threads, which share the parts of each video."""
    arguments = ["--jobs", 4, "--isolate", "never"]
    return Together(takeset, tmp_path_factory.mktemp("changes"), changing(), arguments, check=3)


@pytest.mark.parametrize("name", RIGHT)
def test_images_are_those_of_a_decoder_that_comes_from_the_front(takes, name):
    _, demo, _ = takes[name]
    images = demo["obs/camera_image"][:]
    assert numbers(images) == [*range(40), *range(40)]
    close(images, decoded(takes.inputs / name))
    assert not np.array_equal(images[:40], images[40:])


@pytest.mark.parametrize("name, code, words", [
    ("another size", "image-size-changed", ["160x120", "96x72", 40]),
    ("another size in a description", "image-size-changed", ["160x120", "96x72", 40]),
    ("other colors", "color-unsupported", [40]),
])
def test_another_size_or_color_is_refused_wherever_it_begins(takes, name, code, words):
    failed_with(takes.entries[name], code, *words)
