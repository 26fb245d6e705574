"""Every test that docs/faults.md names exists, and every row names one or is named as open."""

import re

from command import ROOT

PAGE = (ROOT / "docs/faults.md").read_text()


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 80
    missing = []
    for file, name in named:
        path = next((ROOT / "Tests/python").rglob(file), None)
        if not path or not re.search(rf"^def {name}\(", path.read_text(), re.M):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_row_has_a_test_or_says_that_it_has_none():
    rows = re.findall(r"^\| +([0-9, ]*)\| (.+) \| (.+) \|(.*)\|$", PAGE, re.M)
    assert len(rows) > 60
    without = [fault for _, fault, outcome, tests in rows if "::" not in tests and "open" not in outcome and "see the tests" not in outcome]
    assert [fault for fault in without if not re.fullmatch(r"[-:| ]+|fault \| outcome|.*tried.*", fault)] == [], without


def test_every_fault_of_the_list_is_there():
    numbers = {int(n) for cell in re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.M) for n in cell.split(",")}
    assert numbers == {*range(1, 51), *range(73, 85)}
