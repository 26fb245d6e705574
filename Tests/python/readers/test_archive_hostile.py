"""Archives: members that lead elsewhere, links and devices are refused."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from archive_checks import WHOLE, content, named, placed, searched
from archives import (
    BLOCKS, CHARACTERS, DIRECTORY, END, FIFO, LINK, Member, entry, header, long_name, members, pax, tar_entries, tar_of, zip_of, zipped,
)
from command import BINARY
from outputs import demos, take
from small_sessions import session

OUTSIDE = "/takeset-must-not-write-here"
NAMES = {
    "absolute": f"{OUTSIDE}/evil", "above": "../evil", "above-within": "session_X/rgb/../../../evil",
    "above-and-back": "session_X/../session_X/evil", "ends-above": "session_X/evil/..", "backslash": "..\\evil",
    "backslash-within": "session_X\\..\\..\\evil", "drive": "C:\\evil",
    "drive-slash": "C:/evil", "ignorable-above": "__MACOSX/../../evil", "ignorable-drive": "C:\\__MACOSX\\._evil",
}


def hostile_zips():
    modes = {"link": LINK, "fifo": FIFO, "characters": CHARACTERS, "blocks": BLOCKS}
    whole = members(WHOLE)
    found = {name: [Member(evil, b"x")] for name, evil in NAMES.items()}
    found |= {name: [Member("session_X/evil", b"/etc/passwd" if mode == LINK else b"", mode=mode)] for name, mode in modes.items()}
    found |= {
        "link-as-picture": [Member("session_X/rgb/000099.jpg", b"/evil", mode=LINK)],
        "link-ignorable": [Member("__MACOSX/._evil", b"/etc/passwd", mode=LINK)],
        "link-in-viz": [Member("session_X/viz/evil", b"/etc", mode=LINK)],
        "link-with-slash": [Member("session_X/evil/", b"/etc", mode=LINK, method=0)],
        "above-directory": [Member("../evil/", mode=DIRECTORY, method=0)],
        "twice": [Member("session_X/poses.json", b"[]")],
        "twice-the-same": [Member("session_X/poses.json", WHOLE["poses.json"])],
        "twice-ignorable": [Member("session_X/.DS_Store", b"1"), Member("session_X/.DS_Store", b"2")],
    }
    last = {name: zipped(whole + evil) for name, evil in found.items()}
    return last | {f"{name}-first": zipped(found[name] + whole) for name in ("above", "link", "twice")}


def hostile_tars():
    kinds = {"hard-link": b"1", "link": b"2", "characters": b"3", "blocks": b"4", "fifo": b"6"}
    whole = tar_entries(WHOLE)
    found = {name: entry(evil, b"x") for name, evil in NAMES.items()}
    found |= {name: header("session_X/evil", kind=kind, link="session_X/poses.json") for name, kind in kinds.items()}
    found |= {
        "link-as-picture": header("session_X/rgb/000099.jpg", kind=b"2", link="/evil"),
        "link-ignorable": header("__MACOSX/._evil", kind=b"2", link="/etc/passwd"),
        "link-with-slash": header("session_X/evil/", kind=b"2", link="/etc"),
        "above-directory": header("../evil/", kind=b"5"),
        "above-by-pax": pax({"path": "../evil"}) + entry("session_X/viz/good", b"x"),
        "above-by-pax-for-all": pax({"path": "../evil"}, kind=b"g") + entry("session_X/viz/good", b"x"),
        "above-by-gnu": long_name("../" + "long/" * 30 + "evil") + entry("session_X/viz/good", b"x"),
        "above-by-prefix": entry("evil", b"x", prefix=".."),
        "absolute-by-prefix": entry("evil", b"x", prefix=OUTSIDE),
        "twice": entry("session_X/poses.json", b"[]"),
        "twice-ignorable": entry("session_X/.DS_Store") + entry("session_X/.DS_Store"),
        "twice-dotted": entry("./session_X/poses.json", b"[]"),
    }
    last = {name: whole + evil + END for name, evil in found.items()}
    return last | {f"{name}-first": found[name] + whole + END for name in ("above", "link", "twice")}


@pytest.fixture(scope="module")
def hostile(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    searched(takeset, root, named(hostile_zips(), hostile_tars()) | {"good.zip": zip_of(WHOLE), "plain": WHOLE}, check=3)
    return root


@pytest.mark.parametrize("name", [f"zip-{name}" for name in hostile_zips()] + [f"tar-{name}" for name in hostile_tars()])
def test_an_archive_with_a_hostile_member_is_refused_entirely(hostile, name):
    culprits = {"as-picture": "000099.jpg", "twice-ignorable": ".DS_Store", "twice": "poses.json"}
    culprit = next((member for part, member in culprits.items() if part in name), "evil")
    failed = take(hostile / "out", name)
    assert (failed["outcome"], failed["findings"][-1]["code"]) == ("failed", "archive-hostile"), failed["findings"]
    assert culprit in failed["reason"]


def test_hostile_archives_harm_nothing_else(hostile, takeset):
    assert sorted(demos(hostile / "out")) == ["good", "plain"]
    assert content(hostile / "out", "good") == content(hostile / "out", "plain")
    assert list(hostile.rglob("*evil*")) == [] and not os.path.exists(OUTSIDE)
    inspected = json.loads(takeset("inspect", hostile / "in", "--json", check=3).stdout)["takes"]
    assert {one["id"] for one in inspected if one["would_be"] == "written"} == {"good", "plain"}
    assert {one["findings"][-1]["code"] for one in inspected if one["would_be"] == "failed"} == {"archive-hostile"}


def test_nothing_is_unpacked_to_disk(takeset, tmp_path):
    placed(tmp_path / "in", {
        "a.zip": zip_of(session("v3-slam")), "b.tar": tar_of(session("v1")), "c.zip": zip_of(session("v1"), streamed="signed"),
        "d": WHOLE, "d.zip": zip_of(WHOLE), "e.zip": zipped(members(WHOLE) + [Member("session_X/../evil", b"x")]),
    })
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = "open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat"
    log, output = tmp_path / "log", tmp_path / "out"
    trace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={calls}", "-o", log]
    command = [*trace, BINARY, "run", tmp_path / "in", "--output", output]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "nowhere")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, env=environment)
    if "ptrace" in done.stderr.lower() and not log.read_text():
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 3, done.stderr
    made = [line for line in log.read_text().splitlines() if re.search(r"O_CREAT|O_TMPFILE|^\d+ +(creat|mk|rename|link|symlink)", line)]
    assert len(made) > 5
    for line in made:
        for place, name in re.findall(r'(?:AT_FDCWD|\d+)?<?([^<>(,"]*)>?(?:, )?"([^"]*)"', line):
            path = Path(place or tmp_path) / name
            assert path == output or output in path.parents or str(path).startswith(("/dev/", "/proc/")), line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "log", "out"]
