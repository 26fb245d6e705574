"""Archives that would harm whoever unpacks them: each is refused with a sentence, and nothing is left or written elsewhere."""

import io
import random
import re
import tarfile
from pathlib import Path

import pytest
import requests
from archives import END, FIFO, LINK, MOST64, SOCKET, Member, bomb, entry, header, pax, summed, zipped

from phone import error
from resumable import stored
from system import processor_seconds

OUTSIDE = "/takeset-must-not-write-here"
GOOD = [("s/metadata.json", b"{}"), ("s/poses.json", b"[]"), ("s/rgb/000000.jpg", b"\xff\xd8\xff\xd9" * 100)]
ZIP = [Member(name, data) for name, data in GOOD]
TAR = b"".join(entry(name, data) for name, data in GOOD)

ABSOLUTE, ABOVE, LINKED, DEVICE = "has an absolute name", "has .. in its name", "a link", "a device or a pipe"
TWICE, CUT, DAMAGED = "a member that occurs twice", "it is cut off", "its list of members is damaged"
NAMES = {"absolute": (f"{OUTSIDE}/evil", ABSOLUTE), "drive": ("C:\\evil", "names a drive"), "above": ("../evil", ABOVE), "twice": ("s/poses.json", TWICE)}

# One for each reason there is; the readers' tests have the others (Tests/python/readers/test_archive_hostile.py, test_archive_limits.py).
ZIPS = {
    **{name: (lambda evil=evil: zipped([*ZIP, Member(evil, b"x")]), says) for name, (evil, says) in NAMES.items()},
    "above-first": (lambda: zipped([Member("../evil", b"x"), *ZIP]), ABOVE),
    "nul": (lambda: zipped([*ZIP, Member("s/a\0b", b"x")]), "has a zero in its name"),
    "long": (lambda: zipped([*ZIP, Member("x" * 5000, b"x")]), "more than 4096 bytes"),
    "empty-name": (lambda: zipped([*ZIP, Member("", b"x")]), "has no name"),
    "link": (lambda: zipped([*ZIP, Member("s/evil", b"/etc/passwd", mode=LINK)]), LINKED),
    "pipe": (lambda: zipped([*ZIP, Member("s/evil", mode=FIFO)]), DEVICE),
    "socket": (lambda: zipped([*ZIP, Member("s/evil", mode=SOCKET)]), DEVICE),
    "encrypted": (lambda: zipped([*ZIP, Member("s/secret", b"x", flags=1)]), "it is encrypted"),
    "bomb": (lambda: zipped([*ZIP, bomb("s/video.mov", 1024)]), "200 times"),
    "claims-64-gib": (lambda: zipped([*ZIP, Member("s/a", b"x", size=1 << 36), Member("s/b", b"x", size=1)]), "claim more than 68719476736 bytes"),
    "claims-all": (lambda: zipped([*ZIP, Member("s/a", b"x", size=MOST64, zip64=True)]), DAMAGED),
    "count-many": (lambda: zipped(ZIP, count=2**40), "more than 200000 members"),
    "count-more": (lambda: zipped(ZIP, count=len(ZIP) + 1), "cut off"),
    "count-fewer": (lambda: zipped(ZIP, count=len(ZIP) - 1), "not the length that it claims"),
    "places-behind": (lambda: zipped([*ZIP, Member("s/a", b"x", at=1 << 31)]), DAMAGED),
    "no-members": (lambda: zipped([]), "it has no files"),
    "not-a-zip": (lambda: b"PK\3\4" + bytes(2000), CUT),
}  # fmt: skip


def tar_of(evil):
    return TAR + evil + END


TARS = {
    **{name: (lambda evil=evil: tar_of(entry(evil, b"x")), says) for name, (evil, says) in NAMES.items()},
    "above-by-pax": (lambda: tar_of(pax({"path": "../evil"}) + entry("s/good", b"x")), ABOVE),
    "kind-2": (lambda: tar_of(header("s/evil", kind=b"2", link="s/poses.json")), LINKED),
    "kind-3": (lambda: tar_of(header("s/evil", kind=b"3")), DEVICE),
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
