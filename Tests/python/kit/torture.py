"""Takes of every kind, small enough to be converted a thousand times, and what holds after anything that can happen to a run."""

import json
import subprocess

import archives
import small_sessions
from bundles import SMALL, bundle
from command import BINARY
from run_outputs import outputs
from scans import session as scan
from strange_takes import movie, session, unfinished
from system import begun, stopping


def takes_of_every_kind(root):
    session(root / "session")
    movie(root / "movie.mov")
    bundle(8, **SMALL).write(root / "bundle")
    (root / "zipped.zip").write_bytes(archives.zip_of(small_sessions.session("v1")))
    scan(count=6, times="number", size=(48, 36), depth_size=(8, 6)).write(root / "scan")
    return root


class Whole:
    """The dataset of a run to which nothing happens, and the comparison of others with it."""

    def __init__(self, takeset, takes, output):
        self.takeset, self.takes = takeset, takes
        takeset.convert(takes, output=output)
        self.expected = outputs(output)
        locations = json.loads((output / "manifest.json").read_text())["run"]["takes"]
        self.ids = {entry["location"].rpartition("/")[2]: id for id, entry in locations.items()}
        self.size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
        assert len(self.expected) == 7

    def shard_of(self, name):
        """Names such as `bundle` are not unique, so those takes are named after their contents."""
        return f"{self.ids[name]}.h5"

    def arguments(self, output, *more):
        return ["run", self.takes, "--output", output, "--progress", "none", *more]

    def begun(self, output, *arguments, **options):
        """A run in a process group of its own."""
        command = [*map(str, [BINARY, *self.arguments(output, *arguments)])]
        return begun(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, **options))

    def stopping(self, library, number, output, policy, *arguments):
        """A run that stops before it changes the output for the n-th time: with the policy "always", each child does, counting its own changes."""
        where = "child" if policy == "always" else "parent"
        return self.begun(output, "--isolate", policy, *arguments, env=stopping(library, "change", output, number, where))

    def has_no_half_files(self, output):
        """What has its final name is complete and right; manifest and index are, too. How many episodes there are."""
        found = 0
        for path in output.glob("episodes/[!.]*"):
            assert path.read_bytes() == self.expected[path.name], f"{path} is not what it should be"
            found += 1
        if (output / "manifest.json").exists():
            json.loads((output / "manifest.json").read_text())
            done = self.takeset("verify", output)
            assert done.returncode == 0 or "episodes/" in done.stdout + done.stderr, done.stdout + done.stderr
        return found

    def resumes(self, output, *arguments):
        """The same command finishes the dataset, with the same bytes and without leftovers."""
        done = self.takeset(*self.arguments(output, *arguments))
        assert done.returncode == 0, done.stderr
        assert {name for name, data in outputs(output).items() if data != self.expected.get(name)} == set()
        assert outputs(output).keys() == self.expected.keys() and unfinished(output) == []
        self.takeset("verify", output, check=0)
