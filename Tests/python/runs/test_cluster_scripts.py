"""The scripts of deploy/slurm without Slurm: its commands are stand-ins that write down how they were called."""

import json
import os
import signal
import subprocess

import pytest
from clusters import environment, tiny_takes
from command import BINARY, ROOT
from system import until

SCRIPTS = ROOT / "deploy/slurm"


@pytest.fixture
def stand_in(tmp_path):
    """Makes a program that runs a line of Bash; their folder is the first on the path."""
    (tmp_path / "bin").mkdir()

    def make(name, line):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)
        return path

    make("hostname", "echo here")
    return make


def variables(tmp_path, **more):
    return environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", **more)


def test_submit_with_strange_paths(takeset, stand_in, tmp_path):
    """Spaces, newlines, quotes, and the characters that Slurm replaces in names of logs."""
    said = tmp_path / "said"
    stand_in("sbatch", f"printf '%s\\0' \"$@\" >> {said}; printf '\\0' >> {said}; echo '77;cluster'")
    stand_in("scontrol", "echo 'MaxArraySize            = 3'")
    takes = tiny_takes(takeset, tmp_path / "some\ntakes 'x' $(y)", 4)
    output = tmp_path / "a b\nc%x \"d\""
    command = [SCRIPTS / "submit.sh", "--limit", "2", "--convert=--take-memory=8G", "--sbatch=--comment=x y", output, takes]
    done = subprocess.run(command, env=variables(tmp_path, TAKESET=str(BINARY)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    array, publish = [call.split("\0") for call in said.read_text().split("\0\0")[:-1]]
    logs = str(output).replace("%", "%%") + "/logs"
    # At most three jobs for four tasks.
    assert array[-5:] == [str(SCRIPTS / "convert.sh"), str(output), "--count", "2", "--take-memory=8G"]
    assert {"--array=0-1%2", "--comment=x y", f"--output={logs}/%A_%a.log"} <= set(array)
    assert publish[-2:] == [str(SCRIPTS / "publish.sh"), str(output)]
    assert {"--dependency=afterany:77", f"--output={logs}/publish_%j.log"} <= set(publish)
    assert len(json.loads((output / "tasks.json").read_text())["tasks"]) == 4 and (output / "logs").is_dir()


@pytest.mark.parametrize("codes, tries, code", [([75, 75, 0], 3, 0), ([3], 1, 3), ([75, 65], 2, 65), ([75] * 9, 4, 75)])
def test_publish_waits_for_a_network_file_system(stand_in, tmp_path, codes, tries, code):
    """It shows what other nodes have written a minute late; whatever is still missing then is missing."""
    stand_in("sleep", f"echo $1 >> {tmp_path}/slept")
    stand_in("takeset", f"echo \"$@\" >> {tmp_path}/said; n=$(wc -l < {tmp_path}/said); set -- {' '.join(map(str, codes))}; exit ${{!n}}")
    done = subprocess.run([SCRIPTS / "publish.sh", "/some where"], env=variables(tmp_path, TAKESET="takeset"))
    assert done.returncode == code
    assert (tmp_path / "said").read_text() == "publish /some where\n" * tries
    slept = (tmp_path / "slept").read_text().split() if tries > 1 else []
    assert len(slept) == tries - 1 and (tries < 4 or sum(map(int, slept)) >= 60)


def converted(stand_in, tmp_path, line, **more):
    """convert.sh over a command that is this line of Bash."""
    stand_in("takeset", f"echo \"$@\" >> {tmp_path}/said\n{line}")
    stand_in("scontrol", f"echo \"$@\" >> {tmp_path}/requeued")
    given = {"TAKESET": "takeset", "SLURM_JOB_ID": "4711", "SLURM_CPUS_PER_TASK": "3"} | more
    command = [SCRIPTS / "convert.sh", "/some where", "--count", "7", "--jobs", "2"]
    return subprocess.Popen(command, env=variables(tmp_path, **given), stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("line, code, is_requeued", [
    ("exit 0", 0, False), ("exit 65", 65, False), ("exit 66", 66, False), ("exit 73", 73, True), ("exit 74", 74, True), ("exit 75", 75, True),
    ("exit 64", 64, False), ("exit 70", 70, False), ("exit 78", 78, False), ("kill -KILL $$", 137, True),
])
def test_convert_requeues_what_may_succeed(stand_in, tmp_path, line, code, is_requeued):
    process = converted(stand_in, tmp_path, line)
    process.communicate(timeout=300)
    assert process.returncode == code
    # Options that are given come last, so that they count.
    assert (tmp_path / "said").read_text() == "convert --jobs 3 /some where --count 7 --jobs 2\n"
    assert (tmp_path / "requeued").exists() == is_requeued
    if is_requeued:
        assert (tmp_path / "requeued").read_text() == "requeue 4711\n"
        process = converted(stand_in, tmp_path, line, SLURM_RESTART_COUNT="3")
        process.communicate(timeout=300)
        assert process.returncode == code and (tmp_path / "requeued").read_text() == "requeue 4711\n"


def test_convert_passes_a_signal_on(stand_in, tmp_path):
    """And ends with the code of the command, however long that takes."""
    ending = f"touch {tmp_path}/trapped; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo ended >> {tmp_path}/said; exit 75"
    process = converted(stand_in, tmp_path, f"trap '{ending}' TERM\ntouch {tmp_path}/ready\nwhile true; do sleep 0.1; done")
    until((tmp_path / "ready").exists, "its start")
    process.send_signal(signal.SIGTERM)
    until((tmp_path / "trapped").exists, "the signal")
    assert process.poll() is None
    (tmp_path / "go").touch()
    process.communicate(timeout=300)
    assert process.returncode == 75 and (tmp_path / "said").read_text().endswith("ended\n") and (tmp_path / "requeued").exists()
