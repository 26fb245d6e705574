"""Times that lie plausibly: the rows are right, or a finding names the lie, or the take fails. Never wrong rows and silence."""


import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding
from phone_takes import Takes, absolute, converted, truth
from videos import ffmpeg

LATER, SECONDS = 5, 2
ENCODED = ["-fps_mode", "passthrough", "-c:v", "libx264", "-bf", 0, "-crf", 12, "-pix_fmt", "yuv420p"]
# The video of each app, and what its images are then.
MOVIES = {
    "iphumi": ("192x144", "*_rgb.mp4"), "anysense": ("144x192", "RGB_*.mp4"), "spectacular-rec": ("192x144", "data.m*"),
    "stray-scanner": ("96x72", "rgb.mp4"),
}


def encoded(pattern, *options):
    """A change of a take: its video is encoded again with these options, in which LAST stands for the number of its frames without the last seven."""
    def encode(folder):
        (path,) = folder.rglob(pattern)
        last = str(len(truth(folder)[1]) - 7)
        other = path.with_name("other" + path.suffix)
        # Also the frame that the video of Stray Scanner hides.
        ffmpeg("-ignore_editlist", 1, "-i", path, *(option.replace("LAST", last) for option in options), *ENCODED, other)
        other.replace(path)

    return encode


def right(entry, demo, meta, folder):
    """The number of images that are valid; each of them is at the time of the frame that it shows."""
    times = truth(folder)[1]
    valid = np.ones(len(meta["timestamp_ns"]), bool)
    if "camera_image" in meta.get("streams", {}) and "valid" in meta["streams/camera_image"]:
        valid = meta["streams/camera_image/valid"][:].astype(bool)
    rows = meta["timestamp_ns"][:] - meta["timestamp_ns"][0]
    shown = [(frame_code(image), time) for image, time, is_valid in zip(demo["obs/camera_image"][:], rows, valid) if is_valid]
    first = shown[0][0] if shown else 0
    for number, time in shown:
        assert abs((times[number] - times[first]) - (time - shown[0][1])) < 8e6, (entry["id"], number)
    return shown


def first_time(meta):
    return int(absolute(meta)[0])


@pytest.fixture(scope="module", params=MOVIES)
def movies(request, takeset, tmp_path_factory):
    size, pattern = MOVIES[request.param]
    lies = {
        "sound": [],
        "begins-later": encoded(pattern, "-vf", f"select=gte(n\\,{LATER}),setpts=PTS-STARTPTS"),
        "begins-later-in-time": encoded(pattern, "-vf", f"select=gte(n\\,{LATER})"),
        "ends-earlier": encoded(pattern, "-vf", "select=lt(n\\,LAST)"),
    }
    if request.param != "stray-scanner":
        lies["half-the-speed"] = (encoded(pattern, "-vf", "setpts=2*PTS"), "movie-times-differ", "another speed")
    root = tmp_path_factory.mktemp(request.param)
    return request.param, Takes(takeset, root, request.param, ["--seconds", SECONDS, "--size", size], lies)


def test_a_video_that_lacks_its_beginning_or_end(movies):
    app, takes = movies
    takes.fail()
    _, sound, _, meta = takes["sound"]
    start = first_time(meta)
    assert not {"movie-alignment-ambiguous", "rate-implausible"} & set(codes(sound))
    for name in "begins-later", "begins-later-in-time", "ends-earlier":
        folder, entry, demo, meta = takes[name]
        shown = right(entry, demo, meta, folder)
        if shown:
            # Also the times of the first one are its own.
            number, _ = shown[0]
            at = first_time(meta) + int(shown[0][1])
            assert abs(at - start - (truth(folder)[1][number] - truth(folder)[1][0])) < 8e6, (app, name)
        else:
            assert finding(entry, "movie-alignment-ambiguous") and len(demo["obs/camera_image"]) > 20
            assert "partial-upload" not in codes(entry)
    # Evenly spaced times fit at any shift.
    assert not right(takes["ends-earlier"][1], *takes["ends-earlier"][2:], takes["ends-earlier"][0]) or app == "spectacular-rec"


def test_one_who_knows_may_assume_that_the_video_has_its_first_frame(movies, takeset, tmp_path):
    app, takes = movies
    folder = takes["ends-earlier"][0]
    entry, demo, meta = converted(takeset, tmp_path, folder, reader=f"{{name: {app}, ambiguous-movie: assume}}")
    shown = right(entry, demo, meta, folder)
    assert [number for number, _ in shown] == list(range(len(shown))) and len(shown) > 20
