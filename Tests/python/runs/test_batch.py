"""A night's batch: two thousand takes of every kind, one in twenty bad, killed ten times, alone and on Slurm. Short here, long with `make torture`."""

import contextlib
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
import slurm_cluster
from batches import failures, mixed
from command import BINARY, ROOT
from run_outputs import outputs
from strange_takes import unfinished
from system import stopped

LONG, LONG_KILLS = 2000, 10
SHORT, SHORT_KILLS = 60, 3
SIZES = pytest.mark.parametrize("count, kills", [(SHORT, SHORT_KILLS), pytest.param(LONG, LONG_KILLS, marks=pytest.mark.torture)], ids=["short", "long"])
SUBMIT = ROOT / "deploy/slurm/submit.sh"


def digests(output):
    return {name: hashlib.sha256(data).hexdigest() for name, data in outputs(output).items()}


class Batch:
    """Takes, the codes of the bad ones, and the digests of the dataset that a run makes of them to which nothing happens."""

    def __init__(self, takeset, root, count):
        self.takeset, self.takes, self.count = takeset, root / "takes", count
        self.codes = mixed(self.takes, count)
        assert len(self.codes) == count // 20
        began = time.monotonic()
        done = subprocess.run([BINARY, "run", self.takes, "--output", root / "whole", "--progress", "none"], capture_output=True, text=True)
        assert done.returncode == 3, done.stderr
        self.seconds = time.monotonic() - began
        self.expected = digests(root / "whole")
        assert len(self.expected) == 2 + count - len(self.codes)
        self.check_outcomes(root / "whole")
        shutil.rmtree(root / "whole")

    def check_outcomes(self, output):
        """Every bad take has the code of its fault, and all others are written, each once."""
        failed, takes = failures(output)
        assert failed == self.codes
        assert len({take["id"] for take in takes}) == len(takes) == self.count
        assert {take["outcome"] for take in takes if take["id"] not in failed} == {"written"}

    def check_whole(self, output):
        found = digests(output)
        assert found.keys() == self.expected.keys()
        assert [name for name, digest in found.items() if digest != self.expected[name]] == []
        self.check_outcomes(output)
        assert [path for path in unfinished(output) if path != output / "results/.published"] == []
        self.takeset("verify", output, check=0)

    def wait_for_shards(self, output, count):
        deadline = time.monotonic() + 900
        while len(self.shards(output)) < count:
            assert time.monotonic() < deadline, f"{len(self.shards(output))} of {count} shards"
            time.sleep(0.1)

    @staticmethod
    def shards(output):
        with contextlib.suppress(FileNotFoundError):
            return {name for name in os.listdir(output / "episodes") if not name.startswith(".")}
        return set()

    def check_shards(self, output):
        """Whatever has its final name is complete and right. The files by name, to see whether they are written again."""
        found = {}
        for name in self.shards(output):
            path = output / "episodes" / name
            assert hashlib.sha256(path.read_bytes()).hexdigest() == self.expected[name], name
            found[name] = path.stat().st_ino, path.stat().st_mtime_ns
        return found


@pytest.fixture(scope="module")
def batch(takeset, tmp_path_factory):
    """Batches by their size, each made once."""
    return functools.cache(lambda count: Batch(takeset, tmp_path_factory.mktemp("batch"), count))


def moments(batch, kills, chance):
    """Numbers of shards at which to kill: one in each part of the work, and the last when nothing but the index is left to write."""
    good = batch.count - len(batch.codes)
    return [chance.randrange(part * good // kills, (part + 1) * good // kills) for part in range(kills - 1)] + [good]


@pytest.mark.slow
@SIZES
def test_a_batch_that_is_killed_on_one_machine(batch, failing_look, count, kills, tmp_path):
    batch = batch(count)
    chance, output = random.Random(2000 + kills), tmp_path / "out"
    command = [*map(str, [BINARY, "run", batch.takes, "--output", output, "--jobs", 4, "--progress", "none"])]
    quiet, began = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}, time.monotonic()
    again, seen, places = 0, {}, moments(batch, kills, chance)
    for place in places:
        # At the name of a shard; the last time, when nothing but the index is left to write.
        stop = (output / "episodes", max(1, place - len(batch.shards(output)))) if place < places[-1] else (output / "dataset.h5", 1)
        process = stopped(command, failing_look, "rename", *stop, start_new_session=True)
        assert process.returncode is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        found = batch.check_shards(output)
        again += sum(found[name] != was for name, was in seen.items())
        seen = found
    assert not (output / "manifest.json").exists()
    assert subprocess.run(command, **quiet).returncode == 3
    found = batch.check_shards(output)
    again += sum(found[name] != was for name, was in seen.items())
    batch.check_whole(output)
    # What was done at a kill stays done; only takes whose line in the journal was not there yet are converted again.
    assert again <= kills * 8, again
    print(f"{batch.count} takes, {len(batch.codes)} bad; {kills} kills at {places} shards; {again} takes converted twice; "
          f"{time.monotonic() - began:.0f} s, undisturbed {batch.seconds:.0f} s")


# Slurm


class Killer:
    """What is killed on a cluster; daemons are started again."""

    def __init__(self, slurm, output, chance):
        self.slurm, self.output, self.chance, self.down = slurm, output, chance, []
        self.killed = []

    def kill(self, what):
        self.restart_nodes()
        getattr(self, what)()
        self.killed.append(what)

    def workers(self):
        """Process numbers of the commands that convert here, with those of their job's script."""
        return [(number, parent) for number, (parent, words) in slurm_cluster.processes().items()
                if words.startswith(f"{BINARY} convert ") and f" {self.output} " in words]

    def one(self):
        found = []
        self.slurm._until(lambda: found.extend(self.workers()) or found, "worker")
        return self.chance.choice(found)

    def worker(self):
        """Its job puts itself back into the queue."""
        while not self.slurm._kill(self.one()[0]):
            pass

    def job(self):
        """The script and the command: nobody puts the job back into the queue."""
        while True:
            number, parent = self.one()
            if self.slurm._kill(parent) | self.slurm._kill(number):
                return

    def node(self):
        self.slurm._until(lambda: self.slurm.running("takeset"), "running job")
        name = self.chance.choice(self.slurm.running("takeset") or self.slurm.NODES)
        self.slurm.kill_node(name)
        self.down.append(name)

    def controller(self):
        old = next(daemon for daemon in self.slurm.daemons if daemon.args[0] == "slurmctld" and daemon.poll() is None)
        old.kill()
        old.wait()
        self.slurm._start("slurmctld", "-D", "-i")
        self.slurm._until(lambda: "UP" in self.slurm("scontrol", "ping", check=False), "controller")

    def restart_nodes(self):
        while self.down:
            name = self.down.pop()
            self.slurm.nodes[name].wait()
            self.slurm.nodes[name] = self.slurm._start("slurmd", "-D", "-N", name)


@pytest.mark.cluster
@SIZES
def test_a_batch_that_is_killed_on_slurm(takeset, slurm, batch, count, kills, tmp_path):
    """Daemons of nodes, workers, whole jobs and the controller; what nothing puts back into the queue is submitted again."""
    batch = batch(count)
    output, began, chance = tmp_path / "out", time.monotonic(), random.Random(kills)
    submit = [SUBMIT, "--count", 5 if batch.count == SHORT else 20, output, batch.takes]
    environment = {"TAKESET": str(BINARY)}
    slurm(*submit, environment=environment)
    killer, places = Killer(slurm, output, chance), moments(batch, kills, chance)
    # The work must not be done when the last kill is due.
    places[-1] = places[-2] + (len(batch.expected) - 2 - places[-2]) // 3
    kinds = ["node", "worker", "job", "worker", "controller", "node", "worker", "job", "node", "worker"]
    for place, kind in zip(places, kinds):
        batch.wait_for_shards(output, place)
        killer.kill(kind)
        batch.check_shards(output)
    submissions = 1
    while True:
        killer.restart_nodes()
        slurm.wait(1800)
        if (output / "manifest.json").exists():
            break
        state = json.loads(takeset("status", output, "--format", "json", check=0).stdout)
        assert state["missing"] and submissions < 4, state
        assert takeset("publish", output).returncode == 75  # nothing is published while a task is missing
        slurm(*submit, environment=environment)
        submissions += 1
    batch.check_whole(output)
    logs = [path.read_text(errors="replace") for path in (output / "logs").glob("*_*.log")]
    print(f"{batch.count} takes, {len(batch.codes)} bad; killed at {places} shards: {', '.join(killer.killed)}; {submissions} submissions, "
          f"{len(logs)} jobs, {sum(log.count(': requeued after') for log in logs)} requeued themselves, {slurm.released} released; "
          f"{time.monotonic() - began:.0f} s")
