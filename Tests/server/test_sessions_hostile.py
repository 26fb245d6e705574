"""Archives that would harm whoever unpacks them: each is refused with a sentence, and nothing is left or written elsewhere."""

import io
import random
import re
import tarfile
from pathlib import Path

import pytest
import requests
from archives import (
    BLOCKS, CHARACTERS, END, FIFO, LINK, MOST16, MOST64, SOCKET, Member, base256, bomb, entry, header, long_name, overlapping, pax,
    summed, zipped,
)  # fmt: skip

from phone import error
from resumable import stored
from system import processor_seconds

OUTSIDE = "/takeset-must-not-write-here"
GOOD = [("s/metadata.json", b"{}"), ("s/poses.json", b"[]"), ("s/rgb/000000.jpg", b"\xff\xd8\xff\xd9" * 100)]
ZIP = [Member(name, data) for name, data in GOOD]
TAR = b"".join(entry(name, data) for name, data in GOOD)

ABSOLUTE, ABOVE, LINKED, DEVICE = "has an absolute name", "has .. in its name", "a link", "a device or a pipe"
TWICE, CUT, DAMAGED = "a member that occurs twice", "it is cut off", "its list of members is damaged"
NAMES = {
    "absolute": (f"{OUTSIDE}/evil", ABSOLUTE), "absolute-slashes": ("//evil", ABSOLUTE), "drive": ("C:\\evil", "names a drive"), "share": ("\\\\host\\evil", ABSOLUTE),
    "above": ("../evil", ABOVE), "above-within": ("s/rgb/../../../evil", ABOVE), "above-and-back": ("s/../s/evil", ABOVE),
    "ends-above": ("s/evil/..", ABOVE), "backslash": ("..\\..\\evil", ABOVE), "twice": ("s/poses.json", TWICE), "twice-dotted": ("./s/./poses.json", TWICE),
}  # fmt: skip


ZIPS = {
    **{name: (lambda evil=evil: zipped([*ZIP, Member(evil, b"x")]), says) for name, (evil, says) in NAMES.items()},
    **{f"{name}-first": (lambda evil=evil: zipped([Member(evil, b"x"), *ZIP]), says) for name, (evil, says) in NAMES.items()},
    "nul": (lambda: zipped([*ZIP, Member("s/a\0b", b"x")]), "has a zero in its name"),
    "long": (lambda: zipped([*ZIP, Member("x" * 5000, b"x")]), "more than 4096 bytes"),
    "empty-name": (lambda: zipped([*ZIP, Member("", b"x")]), "has no name"),
    "link": (lambda: zipped([*ZIP, Member("s/evil", b"/etc/passwd", mode=LINK)]), LINKED),
    "link-with-slash": (lambda: zipped([*ZIP, Member("s/evil/", b"/etc", mode=LINK, method=0)]), LINKED),
    **{f"mode-{mode:o}": (lambda mode=mode: zipped([*ZIP, Member("s/evil", mode=mode)]), DEVICE) for mode in (FIFO, CHARACTERS, BLOCKS, SOCKET)},
    "encrypted": (lambda: zipped([*ZIP, Member("s/secret", b"x", flags=1)]), "it is encrypted"),
    "bomb": (lambda: zipped([*ZIP, bomb("s/video.mov", 1024)]), "200 times"),
    "overlapping": (lambda: overlapping("s/video.mov", 400, 16), "200 times"),
    "claims-64-gib": (lambda: zipped([*ZIP, Member("s/a", b"x", size=1 << 36), Member("s/b", b"x", size=1)]), "claim more than 68719476736 bytes"),
    "claims-all": (lambda: zipped([*ZIP, Member("s/a", b"x", size=MOST64, zip64=True)]), DAMAGED),
    "overflow": (lambda: zipped([*ZIP, *(Member(f"s/{k}", b"x", size=2**63 - 1, zip64=True) for k in range(3))]), "claim more than"),
    "count-many": (lambda: zipped(ZIP, count=2**40), "more than 200000 members"),
    "count-more": (lambda: zipped(ZIP, count=len(ZIP) + 1), "cut off"),
    "count-fewer": (lambda: zipped(ZIP, count=len(ZIP) - 1), "not the length that it claims"),
    "count-most-16": (lambda: zipped(ZIP, count=MOST16), "cut off"),
    **{f"{field}-{value:x}": (lambda field=field, value=value: zipped(ZIP, **{field: value}), "list of members")
       for field in ("length", "start") for value in (2**31, 2**62, MOST64)},
    "places-behind": (lambda: zipped([*ZIP, Member("s/a", b"x", at=1 << 31)]), DAMAGED),
    "no-members": (lambda: zipped([]), "it has no files"),
    "not-a-zip": (lambda: b"PK\3\4" + bytes(2000), CUT),
}  # fmt: skip


def tar_of(evil):
    return TAR + evil + END


TARS = {
    **{name: (lambda evil=evil: tar_of(entry(evil, b"x")), says) for name, (evil, says) in NAMES.items()},
    **{f"{name}-first": (lambda evil=evil: entry(evil, b"x") + TAR + END, says) for name, (evil, says) in NAMES.items()},
    "above-by-pax": (lambda: tar_of(pax({"path": "../evil"}) + entry("s/good", b"x")), ABOVE),
    "above-by-pax-for-all": (lambda: pax({"path": "../evil"}, kind=b"g") + TAR + END, ABOVE),
    "above-by-gnu": (lambda: tar_of(long_name("../" + "long/" * 30 + "evil") + entry("s/good", b"x")), ABOVE),
    "above-by-prefix": (lambda: tar_of(entry("evil", b"x", prefix="..")), ABOVE),
    "absolute-by-prefix": (lambda: tar_of(entry("evil", b"x", prefix=OUTSIDE)), ABSOLUTE),
    **{f"kind-{kind}": (lambda kind=kind: tar_of(header("s/evil", kind=b"%d" % kind, link="s/poses.json")), says)
       for kind, says in ((1, LINKED), (2, LINKED), (3, DEVICE), (4, DEVICE), (6, DEVICE))},
    "sparse-by-gnu": (lambda: tar_of(header("s/evil", kind=b"S")), "of an unsupported type"),
    "sparse-by-pax": (lambda: tar_of(pax({"GNU.sparse.major": "1"}) + entry("s/evil", b"x")), "sparse members"),
    **{f"size-{name}": (lambda field=field: tar_of(header("s/evil", field=field)), says) for name, field, says in (
        ("large", base256(2**63 - 1), "has no size"), ("negative", base256(-512), "has no size"), ("octal", b"77777777777\0", CUT),
        ("minus", b"-0000000001\0", "has no size"))},
    **{f"pax-size-{size}": (lambda size=size: tar_of(pax({"size": size}) + header("s/x", 512)), says)
       for size, says in ((-1, "not a number"), (10**30, "not a number"), ("1e3", "not a number"), (1 << 50, CUT))},
    **{f"pax-length-{length}": (lambda length=length: tar_of(entry("PaxHeaders/x", b"%d path=x\n" % length, kind=b"x") + entry("s/x")), "malformed")
       for length in (0, 5, 10**6, 2**64, -12)},
    "long-name": (lambda: tar_of(long_name("x" * 70_000) + entry("s/x")), "bytes of names"),
    "names-only": (lambda: pax({"comment": "x"}) * 200 + TAR + END, "too many without a member"),
    "checksum": (lambda: TAR + header("s/x", checksum=b"0000000\0") + END, "wrong checksum"),
    "no-end": (lambda: TAR, CUT),
    "cut-header": (lambda: TAR + header("s/x")[:300], CUT),
    "cut-member": (lambda: TAR + entry("s/x", bytes(5000))[:3000], CUT),
    "empty": (lambda: END, "no archive"),
    "folders-only": (lambda: header("s/", kind=b"5") + END, "it has no files"),
    "signed-sum": (lambda: tar_of(summed(header("s/\xe9vil", kind=b"2"))), LINKED),
}  # fmt: skip


def around(server):
    """Everything near the server's folder that is not its own."""
    return {path for path in server.data.parent.rglob("*") if server.data not in path.parents and path != server.log}


def refusal(server, name, body):
    """The message with which an archive is refused."""
    answer = requests.put(f"{server.url}/api/v1/sessions/{name}", data=body, timeout=300)
    assert error(answer) == (422, "ARCHIVE_REFUSED")
    message = answer.json()["error"]["message"]
    assert message.startswith("The archive is refused: ")
    return message


@pytest.mark.parametrize("ending,name", [("zip", name) for name in ZIPS] + [("tar", name) for name in TARS])
def test_hostile_archives(common, ending, name):
    make, says = (ZIPS if ending == "zip" else TARS)[name]
    body, before = make(), around(common)
    message = refusal(common, f"{name}.{ending}", body)
    assert re.search(says, message), message
    # Names are the client's; a message with one in it could be made to look like anything.
    assert "evil" not in message and "/" not in message.removesuffix(".")
    assert list((common.data / "captures").iterdir()) == list((common.data / "staging").iterdir()) == []
    assert around(common) == before and not Path(OUTSIDE).exists()


def test_archives_cut_anywhere_are_refused(common):
    choice = random.Random(21)
    whole = {"zip": zipped(ZIP), "tar": TAR + END}
    for ending, body in whole.items():
        # After a tar's first block of zeros nothing is missing.
        last = len(body) if ending == "zip" else len(TAR) + 512
        for length in {0, 1, 3, 4, 21, 22, last // 2, last - 1, *(choice.randrange(last) for _ in range(40))}:
            message = refusal(common, f"cut.{ending}", body[:length])
            assert re.search("cut off|no archive|list of members", message), (ending, length, message)
    assert common.get("/health").ok


def many_in_a_tar(count):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(count):
            archive.addfile(tarfile.TarInfo(f"s/rgb/{number:06}.jpg"))
    return out.getvalue()


@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_the_time_of_a_list_follows_its_length(start, ending):
    server = start()
    make = {"zip": lambda count: zipped([Member(f"s/rgb/{k:06}.jpg", method=0) for k in range(count)]), "tar": many_in_a_tar}[ending]

    def took(count):
        body, before = make(count), processor_seconds(server.process.pid)
        answer = requests.put(f"{server.url}/api/v1/sessions/s{count}.{ending}", data=body, timeout=300)
        assert answer.status_code == 201, answer.text
        return processor_seconds(server.process.pid) - before, answer

    few, _ = took(10_000)
    before = server.memory()
    many, answer = took(100_000)
    assert many < 40 * max(few, 0.02)  # what is linear is 10, what is quadratic 100
    # The list is a set of numbers; the bytes pass through.
    assert server.memory() - before < 100 << 20
    assert list(stored(server, answer.headers["X-Capture-Id"])) == [f"session.{ending}"]


def test_lists_of_files_are_names_only(start):
    """The list of `complete` is compared with what has arrived; nothing is looked up by it."""
    session, url = requests.Session(), f"{start().url}/api/v1/sessions/s"
    assert session.put(f"{url}/files/a", data=b"x", timeout=300).status_code == 201
    for name in ["../../server.sqlite", "/etc/passwd", "a\0", "", "x" * 5000]:
        assert error(session.post(f"{url}/complete", json=[{"name": "a"}, {"name": name}], timeout=300)) == (409, "FILES_MISSING")
    for body, status in [(b"[" * 100_000, 400), (b'[{"name":1}]', 400), (b'[{"name":"a","size":1e999}]', 400), (b"\xff", 400)]:
        assert session.post(f"{url}/complete", data=body, timeout=300).status_code == status, body[:20]
    assert session.post(f"{url}/complete", data=bytes((32 << 20) + 1), timeout=300).status_code == 413
    assert session.post(f"{url}/complete", json=[{"name": "a", "size": 1}], timeout=300).status_code == 201
