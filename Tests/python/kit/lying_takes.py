"""Takes that lie: what is told, in which formats, and how it is named."""

import os
import shutil

from lie_formats import FORMATS
from lie_kinds import (
    at, first_times, focal, fully_transposed, halved, identity, in_images, in_ms, in_unit, LACK, mirrored, movie_without_its_end, of_cameras,
    of_depth, of_imu, of_lists, of_movie, of_poses, of_sixteen_bits, of_streams, on_another_clock, only_for, permuted, png_images, position,
    rotated_movie, rotation, scaled, set_in_the_middle, swapped, times_depth, transparent, TWICE, with_a_mark, with_keys_twice, with_one,
    with_one_image, with_orientation, without,
)

POSES, OTHER_CAMERA = "pose-unusable too-few-poses poses-missing", "intrinsics-implausible"
NO_CAMERA = "intrinsics-unusable csv-invalid json-type"
LOST = "count-mismatch pose-missing image-missing partial-upload movie-count-mismatch movie-times-differ frames-dropped depth-missing depth-count-mismatch input-ignored"
PARTS = ("stream-incomplete count-mismatch depth-missing depth-count-mismatch depth-undecodable depth-alignment-ambiguous confidence-missing joints-late "
         "joints-gap clock-unaligned")
MOVIE = "movie-count-mismatch movie-alignment-ambiguous frame-count-mismatch depth-alignment-ambiguous"

# What is told, and the codes of which one names it where rows are wrong or the take fails.
LIES = {
    "times 1000 times too large": (in_unit((1000, 1)), "rate-implausible no-frames times-missing"),
    "times 1000 times too small": (in_unit((1, 1000)), "rate-implausible no-frames time-not-ascending"),
    "clock set by +0.3 s": (set_in_the_middle(0.3071), "frames-dropped clock-set"),
    "clock set by -0.3 s": (set_in_the_middle(-0.3071), "time-not-ascending clock-set"),
    "clock set by an hour": (set_in_the_middle(3600), "frames-dropped clock-set pose-missing"),
    "a time repeats": (first_times(with_one(lambda values, place: values[place - 1])), "time-not-ascending"),
    "two times are swapped": (first_times(swapped), "time-not-ascending clock-set"),
    "movie lacks its beginning": (of_movie("-vf", "select=gte(n\\,5),setpts=PTS-STARTPTS"), MOVIE),
    "movie lacks its end": (movie_without_its_end, MOVIE),
    "movie at half the speed": (of_movie("-vf", "setpts=2*PTS"), "movie-times-differ stream-incomplete frame-rate"),
    "movie lacks one frame in the middle": (of_movie("-vf", "select=not(eq(n\\,25))"), MOVIE + " frames-dropped"),
    "an element is missing": (of_lists(LACK), LOST),
    "an element is there twice": (of_lists(TWICE), LOST + " time-not-ascending"),
    "the last third is missing": (of_lists(without(2 / 3, 1)), LOST),
    "a stream ends early": (of_streams(without(1 / 2, 1)), PARTS),
    "a stream begins late": (of_streams(without(0, 1 / 2)), PARTS),
    "a stream has a hole": (of_streams(without(1 / 3, 2 / 3)), PARTS),
    "a stream on another clock": (on_another_clock, "samples-outside clock-unaligned joints-late"),
    "a stream's times in another unit": (in_ms, "samples-outside imu-unusable json-type"),
    "accelerations in another unit": (of_imu(0, lambda number: number / 9.80665), "imu-implausible"),
    "accelerations 0": (of_imu(0, lambda number: 0.0), "imu-implausible"),
    "rotations 0": (of_imu(1, lambda number: 0.0), "imu-implausible"),
    "rotations in degrees": (of_imu(1, lambda number: 57.29578 * number), "imu-implausible"),
    "intrinsics of half the size": (of_cameras(scaled(0.5)), OTHER_CAMERA),
    "intrinsics of twice the size": (of_cameras(scaled(2)), OTHER_CAMERA),
    "width for height in intrinsics": (of_cameras(lambda camera: [camera[1], camera[0], camera[3], camera[2]]), OTHER_CAMERA),
    "focal length in another unit": (of_cameras(focal(lambda number: number / 1000)), OTHER_CAMERA),
    "focal length 0": (of_cameras(focal(lambda number: 0)), NO_CAMERA),
    "focal length negative": (of_cameras(focal(lambda number: -number)), NO_CAMERA),
    "focal length as text": (of_cameras(focal(lambda number: "f")), NO_CAMERA),
    "focal length 1e-40": (of_cameras(focal(lambda number: 1e-40)), OTHER_CAMERA),
    "focal length infinite": (of_cameras(focal(lambda number: float("inf"))), NO_CAMERA),
    "center 0, 0": (of_cameras(lambda camera: [*camera[:2], 0, 0]), NO_CAMERA),
    "center off": (of_cameras(lambda camera: [*camera[:2], camera[2] * 1.5, camera[3]]), OTHER_CAMERA),
    "depth 1000 times as far": (times_depth(1000), "depth-suspicious"),
    "depth 1/1000 as far": (times_depth(0.001), "depth-suspicious"),
    "depth 0": (times_depth(0), "depth-suspicious"),
    "all depth maps the same": (of_depth(lambda maps: [maps[0]] * len(maps)), "stream-constant"),
    "positions 1000 km away": (of_poses(at(position, lambda number: number + 1e6)), "positions-far pose-jump"),
    "positions in mm": (of_poses(at(position, lambda number: number * 1000)), "pose-jump"),
    "poses are the identity": (of_poses(identity), "pose-unusable pose-repeated"),
    "poses are 0": (of_poses(lambda numbers, poses: [0.0] * len(numbers)), POSES),
    "a pose is not a number": (of_poses(lambda numbers, poses: [float("nan")] * len(numbers), one_of_them=True), POSES),
    "all positions are not numbers": (of_poses(at(position, lambda number: float("nan"))), POSES),
    "rotations not of length 1": (of_poses(at(rotation, lambda number: 2 * number)), POSES),
    "a rotation is 0": (of_poses(at(rotation, lambda number: 0.0), one_of_them=True), POSES),
    "quaternions as wxyz": (of_poses(permuted((3, 0, 1, 2), "quaternion"), "quaternion"), "geometry-contradictory"),
    "matrices transposed": (of_poses(fully_transposed, "matrix"), POSES + " geometry-contradictory"),
    "rotations transposed": (of_poses(permuted((0, 3, 6, 1, 4, 7, 2, 5, 8), "matrix"), "matrix"), "geometry-contradictory"),
    "matrices mirror": (of_poses(mirrored, "matrix"), POSES),
    "text with a byte order mark": (with_a_mark, ""),
    "keys twice": (with_keys_twice, "json-invalid json-type pose-unusable poses-unreadable"),
    "all images of half the size": (in_images(halved), OTHER_CAMERA),
    "an image of half the size": (in_images(halved, lambda place: place == 7), "image-size-changed"),
    "images rotated by EXIF": (only_for(lambda one: not png_images(one), in_images(with_orientation)), ""),
    "images transparent": (only_for(png_images, in_images(transparent)), "image-transparent"),
    "images of 16 bits": (of_sixteen_bits, ""),
    "gray images": (in_images(lambda image: image.convert("L")), ""),
    "all images the same": (with_one_image, "stream-constant"),
    "movie of half the size": (of_movie("-vf", "scale=iw/2:ih/2"), OTHER_CAMERA + " resolution-mismatch intrinsics-scaled"),
    "movie rotated by its matrix": (rotated_movie, "rotation-ignored"),
}
NAMES = {lie: {*codes.split()} for lie, (_, codes) in LIES.items()}

ALONE = {"slow-motion"}
WITHOUT_GEOMETRY = {name for name, one in FORMATS.items() if name.startswith("session") or name in ("nerfcapture", "anysense")}
# Lies that nothing in takes of these formats contradicts: a lone video, poses beside images that nothing measures, and a length without a unit.
UNSEEN = {
    "clock set by -0.3 s": {"polycam"}, "rotations in degrees": {"spectacular", "opencamera"}, "accelerations in another unit": {"session-v3-slam", "session-v3-scaled"},
    "movie lacks its beginning": ALONE, "movie lacks its end": ALONE, "movie at half the speed": ALONE, "movie of half the size": ALONE,
    "quaternions as wxyz": WITHOUT_GEOMETRY, "rotations transposed": WITHOUT_GEOMETRY,
    "positions in mm": {"session-v3-slam", "session-v3-scaled", "session-packed", "session-synthetic"},
}
# What a format says in this way is followed, so that it is no lie.
TRUE = {
    "accelerations in another unit": {"stray-scanner"},
    "movie rotated by its matrix": {"realitycam", "opencamera"}, "rotations not of length 1": {"arkitscenes"}, "a rotation is 0": {"arkitscenes"},
}


def cells():
    """Lie, name of the format, what of it lies, and the change of its take."""
    for lie, (tell, _) in LIES.items():
        for name, one in FORMATS.items():
            if name in UNSEEN.get(lie, ()) or name in TRUE.get(lie, ()):
                continue
            for what, change in tell(one).items():
                yield lie, name, what, change


def inodes(folder):
    return {path.relative_to(folder): path.stat().st_ino for path in folder.rglob("*")}


def made(takeset, root, name, chosen):
    """Makes the sound take of a format and one for each of the chosen cells: by id, the lie and what of the take lies."""
    one, sound = FORMATS[name], root / "sound" / name
    takeset("simulate", one.app, *one.options, *([] if "--seconds" in one.options else ["--seconds", 2]), "--output", sound, check=0)
    (sound / "truth.json").unlink()
    takes = {}
    for number, (lie, _, what, change) in enumerate([("", name, "", lambda folder: None), *chosen]):
        take = f"{name}-{number}" if lie else name
        folder = shutil.copytree(sound, root / "in" / take, copy_function=os.link)
        before = inodes(folder)
        try:
            change(folder)
        except Exception as error:
            raise AssertionError(f"{lie}: {name} {what}") from error
        assert not lie or inodes(folder) != before, f"{lie}: {name} {what} changes nothing"
        # Takes that are files have the name of the files.
        stems = {path.name.rsplit("_", 1)[0] for path in [*folder.glob("*_timestamps.csv"), *folder.glob("*_rgb.mp4")]}
        stems |= {path.stem for path in folder.glob("video_*.mov")}
        for stem in stems:
            for path in list(folder.glob(f"{stem}*")):
                path.rename(path.with_name(path.name.replace(stem, take)))
        takes[take] = lie, what
    return takes
