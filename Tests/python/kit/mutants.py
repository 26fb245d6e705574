"""Thousands of damaged sessions and archives.

Every mutant follows from its number, so a failure can be reproduced.
"""

import copy
import functools
import json
import random
import re
import struct

from archives import END, deflated, members, summed, tar_entries, zipped
from small_sessions import session


@functools.cache
def intact():
    """Takes without any problem, to convert next to the others."""
    found = {f"clean-{name}": session(name, seed=seed) for seed, name in enumerate(("v1", "v2", "v3-slam"))}
    return found | {"clean-zip.zip": zipped(members(found["clean-v1"])), "clean-tar.tar": tar_entries(found["clean-v3-slam"]) + END}


@functools.cache
def bases():
    """Sessions to damage, small and without videos: one with depth maps, one with joints, IMU and calibration."""
    third = {name: data for name, data in session("v3-scaled", count=6, size=(48, 16)).items() if name != "video.mov"}
    return [session("v1", count=6, size=(48, 16)), third]


# Ways to damage bytes

NUMBERS = [
    b"1e400", b"-1e400", b"1e-400", b"-0", b"0", b"-1", b"NaN", b"-Infinity", b"Infinity", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"9007199254740993", b"4294967296", b"2147483648", b"1" + b"0" * 400,
    b"0." + b"3" * 500, b"1e308", b"1e39", b"5e-324", b"1.", b".5", b"01", b"+1", b"0x10", b"1e", b"--1", b"1_000", b"1,5", b"1e15",
    b"1e18", b"-1e9", b"3.5", b"true",
]
VALUES = [
    b"null", b"true", b'""', b"[]", b"{}", b'"text"', b"[[[]]]", b'{"a": {"b": []}}', b'"\\ud800"', b'"\\u0000"',
    b'"' + b"x" * 100_000 + b'"', b"[1, 2]",
]
NOT_UTF8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xef\xbb\xbf", b"\0", b"\xfe\xff", b"\x80"]
FIELDS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[][{}:,]')
NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
FIELD = re.compile(rb'"[A-Za-z_]+": *(?:"[^"]*"|-?[0-9.eE+-]+|true|false|null)')


def flips(data, dice):
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 8, 50])):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def truncates(data, dice):
    return data[: dice.choice([0, 1, dice.randrange(len(data)), dice.randrange(len(data)), len(data) - 1])]


def deletes(data, dice):
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.choice([1, 2, 7, 64, 512]) :]


def inserts(data, dice):
    start = dice.randrange(len(data))
    return data[:start] + dice.choice([dice.randbytes(dice.choice([1, 4, 100])), data[: dice.randrange(200)], b"\0" * 512]) + data[start:]


def repeats(data, dice):
    start = dice.randrange(len(data))
    part = data[start : start + dice.choice([1, 16, 200, 2000])]
    return data[:start] + part * dice.choice([2, 3, 30]) + data[start + len(part) :]


def replaced(data, pattern, others, dice, times=(1, 1, 2, 20)):
    found = list(pattern.finditer(data))
    for one in sorted(dice.sample(found, min(dice.choice(times), len(found))), key=lambda one: -one.start()):
        data = data[: one.start()] + dice.choice(others) + data[one.end() :]
    return data


def numbers(data, dice):
    return replaced(data, NUMBER, NUMBERS, dice)


def values(data, dice):
    return replaced(data, TOKEN, VALUES, dice)


def swaps(data, dice):
    found = [one.group() for one in TOKEN.finditer(data)]
    return replaced(data, TOKEN, found, dice) if found else data


def nests(data, dice):
    depth = dice.choice([60, 200, 1000, 100_000])
    opening, closing = dice.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
    return replaced(data, TOKEN, [opening * depth + (b"1" + closing * depth if dice.random() < 0.5 else b"")], dice, times=(1,))


def encodes(data, dice):
    start = dice.randrange(len(data) + 1)
    return data[:start] + dice.choice(NOT_UTF8) + data[start:]


def doubles(data, dice):
    found = [one.group() for one in FIELD.finditer(data)]
    if not found:
        return data + data
    one, other = dice.choice(found), dice.choice(found)
    return data.replace(one, one + b", " + dice.choice([one, other, NUMBER.sub(b"7", one)]), dice.choice([1, -1]))


def empties(data, dice):
    others = [b"", b" ", b"\n", b"[]", b"{}", b"null", b"[null]", b"[{}]", b"[[]]", b"0", b'""']
    return dice.choice([*others, b"\xef\xbb\xbf" + data, data + b"\0", data * 2])


STRANGE_VALUES = [
    None, True, False, 0, -1, 7, 0.5, -0.0, 1e-300, 1e300, 1e39, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, float("nan"), float("inf"),
    -float("inf"), "", "text", "1", "2026-02-18T20:23:54Z", "2026-13-45T99:99:99+99:99", [], {}, [0], [[0, 0, 0, 1]] * 4,
    {"a": 1}, 1e9, 1e18, 86400,
]


def places(value):
    """Every list or object in a value with each of its keys."""
    if isinstance(value, (list, dict)):
        for key in range(len(value)) if isinstance(value, list) else list(value):
            yield value, key
            yield from places(value[key])


def reshapes(data, dice):
    """JSON as it should be, but for what some of its values are."""
    value = json.loads(data)
    for _ in range(dice.choice([1, 1, 1, 2, 5, 40])):
        found = list(places(value))
        if not found:
            break
        holder, key = dice.choice(found)
        change = dice.choice(["odd", "odd", "odd", "scale", "add", "delete", "other", "repeat", "reverse", "shuffle"])
        number = isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool) and abs(holder[key]) < 1e300
        if change == "scale" and number:
            holder[key] *= dice.choice([-1, 1000, 1e-3, 1e9, 1e15])
        elif change == "add" and number:
            holder[key] += dice.choice([-1, 1, 0.5, 360, 1e6, -1e6, 2**32])
        elif change == "delete":
            del holder[key]
        elif change == "other":
            other, place = dice.choice(found)
            holder[key] = other[place] if not isinstance(other[place], (list, dict)) else None
        elif change == "repeat" and isinstance(holder, list) and len(found) < 2000:
            holder[key:key] = [holder[key]] * dice.choice([1, 2, 100])
        elif change == "reverse" and isinstance(holder, list):
            holder.reverse()
        elif change == "shuffle" and isinstance(holder, list):
            dice.shuffle(holder)
        else:
            holder[key] = copy.deepcopy(dice.choice(STRANGE_VALUES))
    return json.dumps(value).encode()


BYTES = [flips, truncates, deletes, inserts, repeats]
TEXT = [*BYTES, numbers, numbers, numbers, values, values, swaps, swaps, nests, encodes, doubles, empties]


def mutant(data, ways, dice):
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        data = dice.choice(ways)(data, dice) if data else data
    return data


# Archives: what is in their fields


def zip_fields(data, dice):
    """Numbers in the directory and in the headers of members."""
    places = [one.start() for one in re.finditer(rb"PK(?:\x01\x02|\x03\x04|\x05\x06|\x06\x06|\x06\x07)", data)]
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 3]) if places else 0):
        place = dice.choice([dice.choice(places), places[-1]]) + 4 + dice.randrange(42)
        size, form = dice.choice([(1, "<B"), (2, "<H"), (4, "<I")])
        if place + size <= len(data):
            struct.pack_into(form, data, place, dice.choice(FIELDS) % 256**size)
    return bytes(data)


def tar_fields(data, dice):
    """A header with another byte, field or name; most with the matching checksum, so that it is accepted."""
    places = [place for place in range(0, len(data), 512) if data[place + 257 : place + 262] == b"ustar"]
    place = dice.choice(places) if places else 0
    block = bytearray(data[place : place + 512])
    if len(block) < 512:
        return data
    start, length = dice.choice([(0, 100)] * 2 + [(124, 12)] * 3 + [(156, 1)] * 2 + [(157, 100), (257, 8), (345, 155), (100, 24)])
    fillings = [dice.randbytes(length), b"\x80" + bytes(length - 1), b"-1".ljust(length, b"\0")]
    other = dice.choice(fillings + [byte * length for byte in (b"\xff", b"7", b"/")])
    if length == 1:
        other = dice.choice([b"%d" % number for number in range(8)] + [b"x", b"g", b"L", b"K", b"S", b"\0", b"\xff", b"V"])
    part = dice.choice([length, length, 1, dice.randrange(length) + 1])
    block[start : start + part] = other[:part]
    return data[:place] + (summed(bytes(block)) if dice.random() < 0.8 else bytes(block)) + data[place + 512 :]


def rearchived(dice, packed):
    """The archive with a file in it damaged and all the rest in order."""
    files = dict(dice.choice(bases()))
    name = dice.choice(sorted(files))
    return packed(files | {name: mutant(files[name], TEXT if name.endswith((".json", ".txt")) else BYTES, dice)})


def some_zip(files, dice):
    options = {"method": dice.choice([0, 8]), "streamed": dice.choice(["", "", "signed", "bare"]), "zip64": dice.random() < 0.2}
    return zipped(members(files, dice.choice(["", "session_X"]), **options), zip64=dice.random() < 0.2)


def zip_mutant(dice):
    if dice.random() < 0.15:
        return rearchived(dice, lambda files: some_zip(files, dice))
    return mutant(some_zip(dice.choice(bases()), dice), [*BYTES, zip_fields, zip_fields, zip_fields], dice)


def inflated_mutant(dice):
    """A zip whose deflated bytes are others, the rest in order."""
    found = members(dice.choice(bases()))
    for one in dice.sample(found, 3):
        one.packed = mutant(deflated(one.data), BYTES, dice)
    return zipped(found)


def tar_mutant(dice):
    if dice.random() < 0.15:
        return rearchived(dice, lambda files: tar_entries(files, dice.choice(["", "session_X"])) + END)
    return mutant(tar_entries(dice.choice(bases())) + END, [*BYTES, tar_fields, tar_fields, tar_fields, tar_fields], dice)


def text_mutants(name, count):
    known = [files for files in bases() if name in files]
    for number in range(count):
        dice = random.Random(f"{name} {number}")
        files = known[number % len(known)]
        shaped = name.endswith(".json") and dice.random() < 0.5
        yield f"{number:04d}", files | {name: reshapes(files[name], dice) if shaped else mutant(files[name], TEXT, dice)}


def image_mutants(count):
    for number in range(count):
        dice = random.Random(f"rgb {number}")
        files = dict(bases()[number % 2])
        for name in dice.sample([name for name in sorted(files) if name.startswith(("rgb/", "depth/"))], dice.choice([1, 1, 6])):
            files[name] = mutant(files[name], BYTES, dice)
        yield f"{number:04d}", files


def archive_mutants(kind, count):
    make = {"zip": zip_mutant, "inflated": inflated_mutant, "tar": tar_mutant}[kind]
    for number in range(count):
        yield f"{number:04d}.{'tar' if kind == 'tar' else 'zip'}", make(random.Random(f"{kind} {number}"))


BATCHES = {
    "poses.json": lambda: text_mutants("poses.json", 300), "metadata.json": lambda: text_mutants("metadata.json", 250),
    "encoders.json": lambda: text_mutants("encoders.json", 250), "imu.json": lambda: text_mutants("imu.json", 200),
    "calib.txt": lambda: text_mutants("calib.txt", 100), "pictures": lambda: image_mutants(250),
    "zip": lambda: archive_mutants("zip", 300), "inflated": lambda: archive_mutants("inflated", 100),
    "tar": lambda: archive_mutants("tar", 300),
}
