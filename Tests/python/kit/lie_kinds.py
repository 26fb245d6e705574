"""Kinds of lies: each is a function of a format to the changes that tell it in a take, by what of the take lies; none where it has nothing of the kind."""

import json
import struct
import zlib

import numpy as np
from lie_fields import DROP, Files, Names, Table, Twice, found, written
from PIL import Image
from scans import chunk


def flat(value):
    return [one for part in value for one in flat(part)] if isinstance(value, list) else [value]


def like(shape, values):
    values = iter(values) if isinstance(values, list) else values
    return [like(part, values) for part in shape] if isinstance(shape, list) else next(values)


def of_times(change):
    def tell(one):
        def edit(folder):
            for field in one.times:
                field.put(folder, change(field.get(folder)))

        return {"": edit} if one.times else {}

    return tell


def in_unit(factor):
    """Times in another unit: multiplied as the file has them."""
    def edit(one):
        def change(folder):
            for field in one.times:
                field.put(folder, [value * factor[0] // factor[1] for value in field.get(folder)])

        return {"": change} if one.times and one.unit else {}

    return edit


def set_in_the_middle(seconds):
    def change(times):
        known = sorted(time for time in times if time is not None)
        middle = (known[0] + known[-1]) // 2
        return [time if time is None or time < middle else time + round(seconds * 1e9) for time in times]

    return of_times(change)


def with_one(change):
    def edit(values):
        values = list(values)
        place = len(values) // 3
        values[place] = change(values, place)
        return values

    return edit


def first_times(change):
    """Only in the first field, which is that of the frames."""
    def tell(one):
        if not one.times or isinstance(one.times[0].field, Names):
            return {}
        return {"": lambda folder: one.times[0].put(folder, change(one.times[0].get(folder)))}

    return tell


def swapped(values):
    values, place = list(values), len(values) // 3
    values[place], values[place + 4] = values[place + 4], values[place]
    return values


def of_movie(*options):
    def tell(one):
        return {"": lambda folder: one.movie.again(folder, *options)} if one.movie else {}

    return tell


def movie_without_its_end(one):
    return {"": lambda folder: one.movie.again(folder, "-vf", f"select=lt(n\\,{one.movie.count(folder) - 7})")} if one.movie else {}


def of_lists(change):
    def tell(one):
        return {f"{place}": (lambda folder, field=field: field.put(folder, change(field.get(folder)))) for place, field in enumerate(one.lists)
                if not (isinstance(field, Files) and change is TWICE)}

    return tell


TWICE = with_one(lambda values, place: Twice(values[place]))
LACK = with_one(lambda values, place: DROP)


def of_streams(change):
    """The IMU, joints, depth and confidence, each on its own."""
    def tell(one):
        cells = {}
        for name, fields in [("imu", one.inertial), ("joints", one.joints)]:
            if fields:
                cells[name] = lambda folder, fields=fields: [field.put(folder, change(field.get(folder))) for field in fields]
        for name, field in one.maps.items():
            def edit(folder, field=field):
                parts = [Files(pattern) for pattern in field.patterns] if isinstance(field, Files) else [field]
                for part in parts:
                    part.put(folder, change(part.get(folder)))

            cells[name] = edit
        return cells

    return tell


def without(first, last):
    """Without the part from one fraction to another."""
    return lambda values: [DROP if first * len(values) <= place < last * len(values) else value for place, value in enumerate(values)]


def on_another_clock(one):
    def edit(fields):
        return lambda folder: [field.put(folder, [time + 10**15 for time in field.get(folder)]) for field in fields]

    return {name: edit(fields) for name, fields in [("imu", one.inertial), ("joints", one.joints)] if fields}


def of_cameras(change):
    """A change of fx, fy, cx, cy."""
    def tell(one):
        def edit(folder):
            for field, places in one.cameras:
                values = field.get(folder)
                if places is None:  # a matrix in lines
                    rows = values
                    rows[0][0], rows[1][1], rows[0][2], rows[1][2] = change([rows[0][0], rows[1][1], rows[0][2], rows[1][2]])
                    field.put(folder, rows)
                    continue
                made = []
                for value in (values if isinstance(field, Table) or field.keys or isinstance(values[0], list) else [values]):
                    numbers = flat(value)
                    for place, number in zip(places, change([numbers[place] for place in places])):
                        numbers[place] = number
                    made.append(like(value, numbers))
                field.put(folder, made)

        return {"": edit} if one.cameras else {}

    return tell


def of_imu(place, change):
    """A change of the accelerations, or of the rotations."""
    def tell(one):
        if not one.readings:
            return {}
        field = one.readings[place]
        return {"": lambda folder: field.put(folder, [like(reading, [change(number) for number in flat(reading)]) for reading in field.get(folder)])}

    return tell


def in_ms(one):
    """The times of streams beside the frames in another unit."""
    def edit(fields):
        return lambda folder: [field.put(folder, [time * 1000 for time in field.get(folder)]) for field in fields]

    return {name: edit(fields) for name, fields in [("imu", one.inertial), ("joints", one.joints)] if fields}


def scaled(factor):
    return lambda camera: [number * factor for number in camera]


def focal(value):
    return lambda camera: [value(camera[0]), value(camera[1]), *camera[2:]]


def in_depth(change):
    def tell(one):
        return {"": lambda folder: one.depth.put(folder, [change(value) for value in one.depth.get(folder)])} if one.depth else {}

    return tell


def of_depth(change):
    """A change of the list of all maps."""
    def tell(one):
        return {"": lambda folder: one.depth.put(folder, change(one.depth.get(folder)))} if one.maps.get("depth") else {}

    return tell


def times_depth(factor):
    def change(value):
        if isinstance(value, float):
            return value * factor
        whole = np.asarray(value, float) * factor
        return whole.clip(0, 65535).astype(value.dtype) if value.dtype.kind in "iu" else whole.astype(value.dtype)

    return in_depth(change)


def of_poses(change, only="", one_of_them=False):
    """A change of the numbers of a pose; of matrices or quaternions only."""
    def tell(one):
        if not one.poses or only and not getattr(one.poses, only):
            return {}

        def edit(folder):
            values = one.poses.field.get(folder)
            made = [
                like(value, change(flat(value), one.poses)) if not one_of_them or place == len(values) // 3 else value
                for place, value in enumerate(values)
            ]
            one.poses.field.put(folder, made)

        return {"": edit}

    return tell


def at(places, change):
    return lambda numbers, poses: [change(number) if place in places(poses) else number for place, number in enumerate(numbers)]


def position(poses):
    return poses.position


def rotation(poses):
    return poses.matrix or poses.quaternion


def identity(numbers, poses):
    ones = {poses.matrix[place] for place in (0, 4, 8)} if poses.matrix else set(poses.quaternion[3:])
    return [1.0 if place in ones or place == 15 else 0.0 for place in range(len(numbers))]


def permuted(order, where):
    def change(numbers, poses):
        made, places = list(numbers), getattr(poses, where)
        for place, other in zip(places, order):
            made[place] = numbers[places[other]]
        return made

    return change


def mirrored(numbers, poses):
    return [-number if place in poses.matrix[2::3] else number for place, number in enumerate(numbers)]


def fully_transposed(numbers, poses):
    return [numbers[4 * (place % 4) + place // 4] for place in range(16)] if len(numbers) == 16 else permuted((0, 3, 6, 1, 4, 7, 2, 5, 8), "matrix")(numbers, poses)


def with_a_mark(one):
    def edit(pattern):
        return lambda folder: [written(path, b"\xef\xbb\xbf" + path.read_bytes()) for path in found(folder, pattern)]

    return {pattern: edit(pattern) for pattern in one.texts}


def other(value):
    """A value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case list():
            return value[::-1]
        case dict():
            return {key: other(one) for key, one in value.items()}
    return value


def with_keys_twice(one):
    """Each key of an object once more, with another value: of the object in the file, or of one in the list or the lines that it is."""
    def edit(pattern):
        def change(folder):
            path = found(folder, pattern)[-1]
            text = path.read_text()
            lines = text.splitlines() if path.suffix == ".jsonl" else None
            document = [json.loads(line) for line in lines] if lines else json.loads(text)
            place = len(document) // 3
            chosen = document[place] if isinstance(document, list) else document
            chosen.update({f"{key}~~": other(value) for key, value in list(chosen.items())})
            made = "\n".join(map(json.dumps, document)) + "\n" if lines else json.dumps(document)
            written(path, made.replace('~~":', '":'))

        return change

    return {pattern: edit(pattern) for pattern in one.texts if pattern.endswith(("json", "jsonl", "metadata", "cameras/*"))}


def in_images(change, which=lambda place: True, kind=""):
    """A change of images, as Pillow has them."""
    def tell(one):
        if not one.images or kind not in one.images.patterns[0] and kind:
            return {}

        def edit(folder):
            for place, path in enumerate(one.images.paths(folder)):
                if which(place):
                    one.images.write(path, change(Image.open(path).convert("RGB")))

        return {"": edit}

    return tell


def with_one_image(one):
    def edit(folder):
        files = Files(*one.images.patterns)
        found = files.get(folder)
        files.put(folder, found[:1] * len(found))

    return {"": edit} if one.images else {}


def halved(image):
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.BOX)


def with_orientation(image):
    exif = Image.Exif()
    exif[0x0112] = 6
    image.info["exif"] = exif.tobytes()
    return image


def transparent(image):
    image.putalpha(200)
    return image


def sixteen_bits(pixels):
    """A PNG of 16 bits, as bytes: Pillow writes none."""
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 2, 0, 0, 0)
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).astype(">u2").tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def of_sixteen_bits(one):
    def edit(folder):
        for path in one.images.paths(folder):
            written(path, sixteen_bits(np.asarray(Image.open(path).convert("RGB"))))

    return {"": edit} if png_images(one) else {}


def png_images(one):
    """Whether images are PNG files."""
    return one.app in ("arkitscenes",) or one.options[:2] == ["--form", "nerfcapture"]


def only_for(condition, tell):
    return lambda one: tell(one) if condition(one) else {}


def rotated_movie(one):
    def edit(folder):
        (path,) = found(folder, one.movie.pattern)
        data = path.read_bytes()
        at = data.index(b"tkhd")
        matrix = at + 4 + (40 if data[at + 4] == 0 else 52)
        written(path, data[:matrix] + struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30) + data[matrix + 36 :])

    return {"": edit} if one.movie else {}
