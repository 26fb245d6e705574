"""Every test that docs/faults.md names exists, and every row names one."""

import re

from command import ROOT

PAGE = (ROOT / "docs/faults.md").read_text()


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = set(re.findall(r"^def (test_\w+)\(", "\n".join(path.read_text() for path in (ROOT / "Tests/python").rglob("test_*.py")), re.M))
    assert len(named) > 60 and named - there == set()


def test_every_row_has_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not re.match(r"\| (#|what happens) |\|--", line)]
    assert len(rows) > 60 and [row for row in rows if "`test_" not in row] == []


def test_every_fault_of_the_list_is_there():
    numbers = {int(n) for cell in re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.M) for n in cell.split(",")}
    assert numbers == {*range(1, 51), *range(73, 85)}
