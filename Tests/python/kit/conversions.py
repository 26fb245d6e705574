"""Converting takes and looking at what became of them."""

import re
import shutil

import yaml
from command import ROOT
from outputs import demos, manifest, only
from videos import video_file

PLAIN = ["--pipeline", ROOT / "Tests/python/plain.yaml"]


def plain(arguments):
    """Arguments with the pipeline that leaves values as the source has them, unless they name one."""
    return [*arguments] if "--pipeline" in arguments else [*PLAIN, *arguments]


def pipeline(directory, reader="auto", **transforms):
    """A pipeline file: reader options, then align and what is given."""
    steps = [{"align": {}}, *({name.replace("_", "-"): options} for name, options in transforms.items())]
    path = directory / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "reader": reader, "transforms": steps}, sort_keys=False))
    return ["--pipeline", path]


def converted(takeset, path, arguments=()):
    """The entry, demo and meta of one take, converted into a folder next to it; plainly, unless a pipeline is given."""
    takeset.convert(path, output=path.parent / "out", arguments=plain(arguments))
    return only(path.parent / "out")


def together(takeset, root, found, arguments=(), check=0):
    """The entries of takes by their names, all converted plainly in one run: takes that write themselves, or files by name."""
    (root / "in").mkdir(parents=True, exist_ok=True)
    for name, one in found.items():
        if isinstance(one, bytes):
            (root / "in" / name).write_bytes(one)
        else:
            one.write(root / "in" / name)
    takeset.convert(*(root / "in" / name for name in found), output=root / "out", arguments=plain(arguments), check=check)
    return {entry["id"]: entry for entry in manifest(root / "out")["record"]["takes"]}


class Together:
    """Takes that are converted in one run; each by its name with its entry, demo and meta. The name of a file is given with its suffix."""

    def __init__(self, takeset, root, found, arguments=(), check=0):
        self.inputs = root / "in"
        self.entries = together(takeset, root, found, arguments, check)
        self.demos = demos(root / "out")
        assert len(self.entries) == len(found)

    def __getitem__(self, name):
        found = name if name in self.entries else name.rpartition(".")[0]
        return self.entries[found], *self.demos.get(found, (None, None))


def same_for_all_jobs(takeset, source, check=0, jobs=(1, 3), arguments=()):
    """Converts with one job and with more; everything must be equal. The number of episodes."""
    seen = []
    for count in jobs:
        output = source.parent / f"out{count}"
        takeset.convert(source, output=output, check=check, arguments=["--jobs", count, *arguments])
        shards = {p.name: p.read_bytes() for p in (output / "episodes").iterdir()}
        seen.append((manifest(output)["record"], shards, (output / "dataset.h5").read_bytes()))
    assert all(one == seen[0] for one in seen)
    return len(seen[0][1])


def failed_with(entry, code, *words):
    """Checks that a take failed with this code, and that the reason contains these words and numbers."""
    assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] == code, entry["findings"]
    assert entry["findings"][-1]["severity"] == "error"
    for word in words:
        assert re.search(rf"(?<![0-9]){re.escape(str(word))}(?![0-9])", entry["reason"]), entry["reason"]


def fails(takeset, bad, code, *words, arguments=()):
    """The bad take fails with this code and these words; the good one next to it is written."""
    good = bad.parent / "good.mov"
    good.write_bytes(video_file(count=6))
    output = bad.parent / "out"
    done = takeset.convert(good, bad, output=output, check=3, arguments=arguments)
    (entry,) = [t for t in manifest(output)["record"]["takes"] if t["outcome"] == "failed"]
    failed_with(entry, code, *words)
    assert entry["reason"] in done.stderr
    assert [p.name for p in (output / "episodes").iterdir()] == ["good.h5"] and list(demos(output)) == ["good"]
    return entry


def with_a_failed_take(takeset, takes, root):
    """The dataset `out` of takes, of which one is v1, and of the take `bad`, which fails."""
    shutil.copytree(takes / "v1", root / "takes/bad")
    (root / "takes/bad/poses.json").write_text("{")
    takeset.convert(takes, root / "takes", output=root / "out", check=3)
