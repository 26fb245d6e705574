"""Damaged sessions next to an intact one."""

import json

from conversions import plain
from outputs import demos, take
from stack_sessions import write

V1, V2 = "session_2026-01-31_120000", "session_2026-02-01_130000"


def fails(takeset, sessions, output, code, *words, take_id=V1):
    """The damaged take fails with this code and these words; the other one is written; the command exits with 3."""
    done = takeset.convert(sessions, output=output, check=3)
    record = take(output, take_id)
    assert record["outcome"] == "failed"
    assert record["findings"][-1]["code"] == code and record["findings"][-1]["severity"] == "error"
    for word in words:
        assert word in record["reason"], record["reason"]
    assert record["reason"] in done.stderr  # the person at the terminal reads the same sentence
    other = V2 if take_id == V1 else V1
    assert take(output, other)["outcome"] == "written"
    assert list(demos(output)) == [other]
    assert sorted(p.name for p in (output / "episodes").iterdir()) == [f"{other}.h5"]
    assert takeset("verify", output).returncode == 0
    inspected = takeset("inspect", sessions, "--json", check=3)
    reported = {t["id"]: t for t in json.loads(inspected.stdout)["takes"]}
    assert reported[take_id]["would_be"] == "failed" and reported[other]["would_be"] == "written"


def tree(root):
    return {p.relative_to(root): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def converted(takeset, session, root, check=0, arguments=(), name="session"):
    """The entry, demo and meta of one session."""
    write(root / name, session.contents())
    takeset.convert(root / name, output=root / "out", check=check, arguments=plain(arguments))
    return take(root / "out", name), *demos(root / "out").get(name, (None, None))


def pipeline(root, text):
    (root / "p.yaml").write_text("version: 1\n" + text)
    return ["--pipeline", root / "p.yaml"]
