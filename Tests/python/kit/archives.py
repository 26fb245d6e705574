"""Zip and tar archives made byte by byte, so that each field of them can lie."""

import dataclasses
import functools
import io
import struct
import tarfile
import zlib


# Zip

FILE, DIRECTORY, LINK, FIFO, CHARACTERS, BLOCKS, SOCKET = 0o100644, 0o040755, 0o120777, 0o010644, 0o020644, 0o060644, 0o140644
NOTHING, MOST16, MOST32, MOST64 = 0, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


@dataclasses.dataclass
class Member:
    """A member of a zip. Fields that are None are computed; `packed`, `crc` and `size` can be given wrong values."""

    name: str | bytes
    data: bytes = b""
    method: int = 8
    mode: int = FILE
    flags: int = 0
    streamed: str = ""  # "signed" or "bare": sizes follow the data, with or without a signature
    zip64: bool = False
    packed: bytes | None = None
    crc: int | None = None
    size: int | None = None
    at: int | None = None  # the position according to the directory

    def written(self, position):
        """The bytes of the member at a position of the file, and its entry in the directory."""
        name = self.name if isinstance(self.name, bytes) else self.name.encode()
        flags = self.flags | (0x800 if not name.isascii() else 0) | (8 if self.streamed else 0)
        packed = self.packed if self.packed is not None else deflated(self.data) if self.method == 8 else self.data
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        size = len(self.data) if self.size is None else self.size
        position = position if self.at is None else self.at
        large = self.zip64 or size > MOST32
        sizes = (MOST32, MOST32) if large else (len(packed), size)
        extra = struct.pack("<HHQQ", 1, 16, size, len(packed)) if large else b""
        version = 45 if large else 20
        said = (0, 0, 0) if self.streamed else (crc, *sizes)
        there = b"" if self.streamed else extra
        local = struct.pack("<4s5H3I2H", b"PK\3\4", version, flags, self.method, 0, 0x5A52, *said, len(name), len(there)) + name + there
        if self.streamed:
            packed += (b"PK\7\x08" if self.streamed == "signed" else b"") + struct.pack("<III", crc, len(packed), size)
        entry = struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 3 << 8 | version, version, flags, self.method, 0, 0x5A52, crc, *sizes, len(name), len(extra),
            0, 0, 0, self.mode << 16 | (0x10 if self.mode == DIRECTORY else 0), position,
        )
        return local + packed, entry + name + extra


@functools.lru_cache(maxsize=2000)
def deflated(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def members(files, root="session_X", **options):
    """A member for each file, below a root or, with an empty one, none."""
    return [Member(f"{root}/{name}" if root else name, data, **options) for name, data in files.items()]


def directories(files, root="session_X"):
    names = {root} | {f"{root}/{name.rpartition('/')[0]}" for name in files if "/" in name}
    return [Member(f"{name}/", mode=DIRECTORY, method=0) for name in sorted(names)]


def zipped(found, zip64=False, comment=b"", count=None, length=None, start=None):
    """A zip of members; the fields of the end of its directory can be replaced."""
    body, directory = bytearray(), bytearray()
    for one in found:
        local, entry = one.written(len(body))
        body += local
        directory += entry
    said = (len(found) if count is None else count, len(directory) if length is None else length, len(body) if start is None else start)
    end = b""
    if zip64 or said[0] > MOST16 or max(said[1:]) > MOST32:
        end += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, said[0], *said)
        end += struct.pack("<4sIQI", b"PK\6\7", 0, len(body) + len(directory), 1)
        said = (MOST16, MOST32, MOST32)
    return bytes(body + directory + end + struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, said[0], *said, len(comment)) + comment)


def zip_of(files, root="session_X", **options):
    return zipped(members(files, root, **options))


@functools.cache
def zeros(mebibytes, before=b"", after=b""):
    """Zeros between other bytes, deflated, with check sum and length, made without ever having them all."""
    packed, crc = b"", 0
    for data, times in (before, 1), (bytes(1 << 20), mebibytes), (after, 1):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed += (packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)) * times
        for _ in range(times):
            crc = zlib.crc32(data, crc)
    return packed + zlib.compressobj(9, zlib.DEFLATED, -15).flush(), crc, len(before) + (mebibytes << 20) + len(after)


def bomb(name, mebibytes, before=b"", after=b"", **lies):
    """A member of so many zeros."""
    packed, crc, size = zeros(mebibytes, before, after)
    return Member(name, packed=packed, **({"crc": crc, "size": size} | lies))


def overlapping(name, copies, mebibytes):
    """A zip whose directory names the same bytes many times over."""
    one = bomb(name, mebibytes)
    body, _ = one.written(0)
    directory = b"".join(dataclasses.replace(one, name=f"{name}{k}", at=0).written(0)[1] for k in range(copies))
    return body + directory + struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, copies, copies, len(directory), len(body), 0)


# Tar

END = bytes(1024)


def header(name, size=0, kind=b"0", link="", prefix="", magic=b"ustar\x0000", field=None, checksum=None):
    """A tar header; `field` replaces the twelve bytes of the size, `checksum` the eight of the sum."""
    def text(value, length):
        value = value if isinstance(value, bytes) else value.encode()
        assert len(value) <= length, value
        return value.ljust(length, b"\0")

    size = field or b"%011o\0" % size
    block = text(name, 100) + b"0000644\0" + b"0000000\0" * 2 + size + b"00000000000\0" + b" " * 8 + kind + text(link, 100)
    block += magic + bytes(64) + b"0000000\0" * 2 + text(prefix, 155) + bytes(12)
    return summed(block) if checksum is None else block[:148] + checksum + block[156:]


def summed(block):
    """The header with the sum that its other bytes have."""
    blank = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % sum(blank) + block[156:]


def entry(name, data=b"", **options):
    return header(name, len(data), **options) + data + bytes(-len(data) % 512)


def base256(number):
    return (number & (1 << 95) - 1 | 1 << 95 if number >= 0 else number & (1 << 96) - 1).to_bytes(12, "big")


def pax(records, kind=b"x"):
    """An extended header of these records, each with its own length in front."""
    out = b""
    for key, value in records.items():
        line = b" %b=%b\n" % (key.encode(), value if isinstance(value, bytes) else str(value).encode())
        length = len(line) + len(str(len(line)))
        length += len(str(length)) > len(str(len(line)))
        out += str(length).encode() + line
    return entry("PaxHeaders/x", out, kind=kind)


def long_name(name):
    return entry("././@LongLink", name.encode() + b"\0", kind=b"L", magic=b"ustar  \0")


def tar_of(files, root="session_X", format=tarfile.USTAR_FORMAT, folders=False):
    """A tar as Python's own library writes it, with or without entries of directories."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        made = set()
        for name, data in files.items():
            path = f"{root}/{name}" if root else name
            parents = path.split("/")[:-1]
            for depth in range(1, len(parents) + 1) if folders else ():
                folder = tarfile.TarInfo("/".join(parents[:depth]))
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                if folder.name not in made:
                    archive.addfile(folder)
                made.add(folder.name)
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_entries(files, root="session_X", **options):
    """The entries of a tar, each header by hand, without the end."""
    return b"".join(entry(f"{root}/{name}" if root else name, data, **options) for name, data in files.items())
