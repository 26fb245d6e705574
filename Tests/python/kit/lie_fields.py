"""Where the files of a take hold something, by kinds of file: what is there is read as a list, and a list like it is written back.

An element that becomes `DROP` is removed from its list, its table or its folder, and one that becomes a `Twice` is there two times."""

import dataclasses
import datetime
import decimal
import io
import json
import re
import subprocess
import zlib

import Imath
import liblzfse
import numpy as np
import OpenEXR
from PIL import Image
from videos import ffmpeg

DROP = object()


@dataclasses.dataclass
class Twice:
    value: object


def written(path, data):
    """Replaces a file that may be linked to that of another take."""
    path.unlink(missing_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def natural(path):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


def found(folder, pattern):
    return sorted(folder.glob(pattern), key=natural)


class Json:
    """Values in JSON files that match a pattern: at a path such as `frames[].timestamp`, or, at a path of objects, those of some keys as a list."""

    def __init__(self, pattern, path, keys=None, lines=False, where=lambda value: True):
        self.pattern, self.path, self.keys, self.lines, self.where = pattern, path, keys, lines, where

    def _load(self, folder):
        for path in found(folder, self.pattern):
            text = path.read_text()
            yield path, [json.loads(line) for line in text.splitlines()] if self.lines else json.loads(text)

    def _places(self, document):
        """Containers with the keys of the values."""
        places = [([document], 0)]
        for step in re.findall(r"\[\d*\]|[^.\[\]]+", self.path):
            values = [box[key] for box, key in places]
            if step == "[]":
                places = [(value, index) for value in values for index in range(len(value))]
            else:
                key = int(step[1:-1]) if step[0] == "[" else step
                places = [(value, key) for value in values if (key in value if isinstance(value, dict) else key < len(value))]
        return [(box, key) for box, key in places if self.where(box[key])]

    def get(self, folder):
        values = [box[key] for _, document in self._load(folder) for box, key in self._places(document)]
        return values if self.keys is None else [[value[key] for key in self.keys] for value in values]

    def put(self, folder, values):
        values = iter(values)
        for path, document in list(self._load(folder)):
            edits = [(box, key, next(values)) for box, key in self._places(document)]
            for box, key, value in reversed(edits):
                if value is DROP:
                    del box[key]
                elif isinstance(value, Twice):
                    box.insert(key, value.value)
                elif self.keys is not None:
                    box[key].update(zip(self.keys, value))
                else:
                    box[key] = value
            if self.lines:
                written(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in document))
            else:
                written(path, json.dumps(document))


class Entries(Json):
    """The times of entries of a list in JSON files, or of lines; what is dropped is the entry."""

    def __init__(self, pattern, lines=False, where=lambda value: True, key="timestamp"):
        super().__init__(pattern, "[]", lines=lines, where=where)
        self.key = key

    def get(self, folder):
        return [entry[self.key] for entry in super().get(folder)]

    def put(self, folder, values):
        entries = super().get(folder)
        super().put(folder, [value if value is DROP or isinstance(value, Twice) else entry | {self.key: value} for entry, value in zip(entries, values)])


class Table:
    """Columns of the lines of text files; whole lines without columns. A single column is no list."""

    def __init__(self, pattern, columns=None, head=0, separator=",", texts=False):
        self.pattern, self.columns, self.head, self.separator, self.texts = pattern, columns, head, separator, texts

    def _lines(self, path):
        lines = path.read_text().splitlines()
        return lines[: self.head], lines[self.head :]

    def _number(self, text):
        return text if self.texts else float(text)

    def get(self, folder):
        values = []
        for path in found(folder, self.pattern):
            for line in self._lines(path)[1]:
                parts = line.split(self.separator)
                if self.columns is None:
                    values.append(line)
                elif isinstance(self.columns, int):
                    values.append(self._number(parts[self.columns]))
                else:
                    values.append([self._number(parts[column]) for column in self.columns])
        return values

    def put(self, folder, values):
        values = iter(values)
        for path in found(folder, self.pattern):
            head, lines = self._lines(path)
            made = []
            for line in lines:
                value, copies = next(values), 1
                if isinstance(value, Twice):
                    value, copies = value.value, 2
                if value is DROP:
                    continue
                if self.columns is None:
                    line = value
                else:
                    parts = line.split(self.separator)
                    columns = [self.columns] if isinstance(self.columns, int) else self.columns
                    for column, one in zip(columns, [value] if isinstance(self.columns, int) else value):
                        parts[column] = str(one)
                    line = self.separator.join(parts)
                made += [line] * copies
            written(path, "\n".join(head + made) + "\n")


class Files:
    """Whole files."""

    def __init__(self, *patterns):
        self.patterns = patterns

    def paths(self, folder):
        return [path for pattern in self.patterns for path in found(folder, pattern)]

    def get(self, folder):
        return [self.read(path) for path in self.paths(folder)]

    def put(self, folder, values):
        for path, value in zip(self.paths(folder), values):
            if value is DROP:
                path.unlink()
            else:
                self.write(path, value)

    def read(self, path):
        return path.read_bytes()

    def write(self, path, value):
        written(path, value)


class Names(Files):
    """Numbers in the names of files, as text; `expression` has one group."""

    def __init__(self, expression, *patterns):
        super().__init__(*patterns)
        self.expression = re.compile(expression)

    def get(self, folder):
        return [self.expression.search(path.name)[1] for path in self.paths(folder)]

    def put(self, folder, values):
        moves = []
        for path, value in zip(self.paths(folder), values):
            at = self.expression.search(path.name)
            moves.append((path.rename(path.with_name("." + path.name)), path.name[: at.start(1)] + value + path.name[at.end(1) :]))
        for path, name in moves:
            path.rename(path.with_name(name))


# Arrays in files


class Pictures(Files):
    """Images and depth maps that Pillow reads and writes."""

    def read(self, path):
        return np.asarray(Image.open(path))

    def write(self, path, value):
        out = io.BytesIO()
        value = value if isinstance(value, Image.Image) else Image.fromarray(value)
        kind = "PNG" if path.suffix == ".png" else "JPEG"
        value.save(out, kind, **({} if kind == "PNG" else {"quality": 97, "exif": value.info.get("exif", b"")}))
        written(path, out.getvalue())


class Raw(Files):
    """Depth maps of bare floats."""

    def read(self, path):
        return np.frombuffer(path.read_bytes(), "<f4")

    def write(self, path, value):
        written(path, value.astype("<f4").tobytes())


class Lzfse(Raw):
    def read(self, path):
        return np.frombuffer(liblzfse.decompress(path.read_bytes()), "<f4")

    def write(self, path, value):
        written(path, liblzfse.compress(value.astype("<f4").tobytes()))


class Exr(Files):
    """Depth maps of one channel of 32-bit floats."""

    def read(self, path):
        file = OpenEXR.InputFile(str(path))
        (channel,) = file.header()["channels"]
        return np.frombuffer(file.channel(channel), "<f4").reshape(file.header()["dataWindow"].max.y + 1, -1)

    def write(self, path, value):
        (channel,) = OpenEXR.InputFile(str(path)).header()["channels"]
        path.unlink()
        header = OpenEXR.Header(value.shape[1], value.shape[0])
        header["channels"] = {channel: Imath.Channel(Imath.PixelType(Imath.PixelType.FLOAT))}
        file = OpenEXR.OutputFile(str(path), header)
        file.writePixels({channel: value.astype("<f4").tobytes()})
        file.close()


class Joined:
    """Depth maps of bare floats one after the other in a file, which may be deflated."""

    def __init__(self, pattern, size, deflated=False, type="<f4"):
        self.pattern, self.size, self.deflated, self.type = pattern, size, deflated, type

    def get(self, folder):
        (path,) = found(folder, self.pattern)
        data = path.read_bytes()
        return list(np.frombuffer(zlib.decompress(data, -15) if self.deflated else data, self.type).reshape(-1, self.size))

    def put(self, folder, values):
        (path,) = found(folder, self.pattern)
        data = b"".join(value.astype(self.type).tobytes() for value in values if value is not DROP)
        if self.deflated:
            packer = zlib.compressobj(1, wbits=-15)
            data = packer.compress(data) + packer.flush()
        written(path, data)


class Movie:
    """A video, which is encoded again with what ffmpeg is told."""

    ENCODED = ["-fps_mode", "passthrough", "-c:v", "libx264", "-bf", "0", "-crf", "12", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]

    def __init__(self, pattern):
        self.pattern = pattern

    def again(self, folder, *options):
        (path,) = found(folder, self.pattern)
        other = path.with_name("other" + path.suffix)
        # Also the frame that the video of Stray Scanner hides.
        ffmpeg("-ignore_editlist", 1, "-i", path, *options, *self.ENCODED, "-enc_time_base", "1:90000", "-video_track_timescale", "90000", other)
        other.replace(path)

    def count(self, folder):
        (path,) = found(folder, self.pattern)
        command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-count_packets", "-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"]
        return int(subprocess.run([*command, path], check=True, capture_output=True, text=True).stdout.split(",")[0])


# Times


class Times:
    """Times of a field, as whole nanoseconds."""

    UNITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}

    def __init__(self, field, unit="s"):
        self.field, self.unit = field, unit

    def get(self, folder):
        return [self._read(value) for value in self.field.get(folder)]

    def put(self, folder, values, unit=None):
        self.field.put(folder, [self._written(old, value, unit or self.unit) for old, value in zip(self.field.get(folder), values)])

    def _read(self, value):
        if self.unit == "iso":
            return round(datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() * 1000) * 10**6 if value else None
        text = re.sub(r'["<>\s]', "", value) if isinstance(value, str) else repr(value)
        return int((decimal.Decimal(text) * 10 ** self.UNITS[self.unit]).to_integral_value())

    def _written(self, old, value, unit):
        if value is DROP or isinstance(value, Twice):
            return DROP if value is DROP else Twice(old)
        if unit == "iso":
            if value is None:
                return old
            at = datetime.datetime.fromtimestamp(value // 10**6 / 1000, datetime.UTC)
            return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
        number = decimal.Decimal(value).scaleb(-self.UNITS[unit])
        if isinstance(old, str):
            digits = len(re.search(r"\.?(\d*)\W*$", old)[1]) if "." in old else 0
            return re.sub(r"[\d.]+", lambda _: f"{number:.{digits}f}", old, count=1)
        return int(number) if number == int(number) else float(number)
