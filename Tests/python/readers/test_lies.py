"""Every lie on a simulated take of every format that can carry it: the rows are right, or a finding names the lie, or the take fails.

Never wrong rows and silence. What is right is told by the sound take of the format, whose images carry their numbers."""

import dataclasses

import pytest
from command import ROOT
from lie_formats import FORMATS
from lie_oracle import Rows, problems, told
from lying_takes import NAMES, UNSEEN, cells, made
from outputs import demos, manifest
from phone_takes import PIPELINE


@dataclasses.dataclass
class Outcome:
    lie: str
    what: str
    # r: rows are right; f: a finding; x: the take fails; "silent".
    kind: str
    # Of rows that are wrong, in words; the reason of a take that fails.
    wrong: list
    codes: set


@pytest.fixture(scope="module", params=FORMATS)
def outcomes(request, takeset, tmp_path_factory):
    """The name of a format, and what became of its lying takes, all converted in one run with the sound one."""
    root = tmp_path_factory.mktemp("lies")
    takes = made(takeset, root, request.param, [cell for cell in cells() if cell[1] == request.param])
    (root / "p.yaml").write_text(PIPELINE.format("", "align"))
    done = takeset("run", *(root / "in" / take for take in takes), "--output", root / "out", "--pipeline", root / "p.yaml")
    assert done.returncode in (0, 3), done.stderr
    entries, stored = {entry["id"]: entry for entry in manifest(root / "out")["record"]["takes"]}, demos(root / "out")
    assert entries.keys() == takes.keys()
    sound = Rows(entries[request.param], *stored[request.param])
    return request.param, [outcome(*takes[take], sound, entries[take], stored.get(take)) for take in takes if takes[take][0]]


def outcome(lie, what, sound, entry, stored):
    found = told(sound.entry, entry)
    codes = {one["code"] for one in found if entry["outcome"] == "written" or one["severity"] == "error"}
    if entry["outcome"] != "written":
        return Outcome(lie, what, "x", [entry["reason"]], codes)
    wrong = sorted(problems(sound, Rows(entry, *stored)))
    return Outcome(lie, what, "r" if not wrong else "f" if codes else "silent", wrong, codes)


def test_no_lie_passes_in_silence(outcomes):
    assert [one for one in outcomes[1] if one.kind == "silent"] == []


def test_what_is_found_names_the_lie(outcomes):
    assert [one for one in outcomes[1] if one.kind in "fx" and not one.codes & NAMES[one.lie]] == []


def table():
    """The rows of the table of lies: by lie, the cells by format."""
    lines = (ROOT / "Tests/python/readers/lies.md").read_text().partition("| lie |")[2].partition("\n\n")[0].splitlines()
    names = [name.strip() for name in lines[0].strip("| ").split("|")]
    assert names == list(FORMATS)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {lie: dict(zip(names, found, strict=True)) for lie, *found in rows}


def column(name, found):
    """What the table says of a format, by lie."""
    kinds = {}
    for one in found:
        kinds.setdefault(one.lie, set()).add(one.kind)
    return {lie: "?" if name in UNSEEN.get(lie, ()) else "".join(sorted(kinds.get(lie, ()))) for lie in NAMES}


def test_the_table_of_lies_is_what_happens(outcomes):
    name, found = outcomes
    assert {lie: cells[name] for lie, cells in table().items()} == column(name, found)
