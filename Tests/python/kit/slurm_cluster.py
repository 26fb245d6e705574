"""A Slurm of three nodes on this machine, from the packages of Debian."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo", "squeue", "scontrol"]


def missing():
    """Why there can be no cluster here; None if there can."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"needs Slurm ({', '.join(absent)} missing): apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "needs root, to start the daemons of Slurm"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]


def processes():
    """Process number to its parent and command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(folder.name)] = parent, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


class Slurm:
    NODES = ["n1", "n2", "n3"]

    def __init__(self, folder):
        # munge insists that nobody else can write to the folders of its socket.
        self.folder, self.daemons, self.nodes, self.released = folder, [], {}, 0
        folder.mkdir(mode=0o755, parents=True)
        ports = free_ports(2 + len(self.NODES))
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text("\n".join([
            "ClusterName=test", "SlurmctldHost=localhost(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
            # A requeued job waits as long as a credential lives.
            f"AuthInfo=socket={folder}/munge.socket,cred_expire=5", "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
            f"SlurmctldPort={ports[0]}", f"StateSaveLocation={folder}/state", f"SlurmctldPidFile={folder}/slurmctld.pid",
            f"SlurmdSpoolDir={folder}/spool-%n", f"SlurmdPidFile={folder}/slurmd-%n.pid", f"SlurmctldLogFile={folder}/slurmctld.log",
            f"SlurmdLogFile={folder}/slurmd-%n.log", "SlurmdTimeout=8", "ReturnToService=2", "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "MpiDefault=none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
            "SlurmdParameters=config_overrides", "AccountingStorageType=accounting_storage/none", "JobCompType=jobcomp/none",
            "SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0", "KillWait=5",
            *(f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000"
              for name, port in zip(self.NODES, ports[2:])),
            f"PartitionName=test Nodes={','.join(self.NODES)} Default=YES State=UP", ""]))
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + os.pathsep + "/usr/sbin"}

    def __enter__(self):
        try:
            key = self.folder / "munge.key"
            key.write_bytes(os.urandom(1024))
            key.chmod(0o600)
            names = {"key-file": key, "socket": self.folder / "munge.socket", "pid-file": self.folder / "munged.pid",
                     "log-file": self.folder / "munged.log", "seed-file": self.folder / "munged.seed"}
            self._start("munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in names.items()))
            self._until(lambda: names["socket"].exists(), "munge")
            self._start("slurmctld", "-D", "-i", "-c")
            for name in self.NODES:
                self.nodes[name] = self._start("slurmd", "-D", "-N", name)
            self._until(lambda: self("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip() == "3", "idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.nodes:
            self("scancel", "--user=root", check=False)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "ab")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return self.daemons[-1]

    def _until(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            logs = "\n".join(f"{p.name}: {p.read_text(errors='replace')[-600:]}" for p in self.folder.glob("*.out"))
            assert time.monotonic() < deadline, f"no {what} after {seconds} s\n{logs}"
            time.sleep(0.1)

    def __call__(self, *command, check=True, code=0, environment=None):
        done = subprocess.run([*map(str, command)], env=self.environment | (environment or {}), capture_output=True, text=True, timeout=300)
        assert not check or done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def wait(self, seconds):
        """Until no job is left. Does what docs/cluster.md asks of an administrator: a node may be drained and a job held after a daemon was
        killed whose job lived on."""
        def is_empty():
            jobs = [line.split(maxsplit=1) for line in self("squeue", "-h", "-r", "-o", "%i %r").splitlines()]
            for job, reason in jobs:
                if "held" in reason.lower():
                    self("scontrol", "release", job, check=False)
                    self.released += 1
            for name in self("sinfo", "-h", "-N", "-t", "drained", "-o", "%N").split():
                self("scontrol", "update", f"nodename={name}", "state=resume", check=False)
            return not jobs

        self._until(is_empty, "empty queue", seconds)

    def running(self, name):
        """Nodes of the jobs of this name that run."""
        return self("squeue", "-h", "-t", "R", "-n", name, "-o", "%N").split()

    def kill_node(self, name):
        """A node's daemon and the daemons of its steps, at once. The workers themselves live on, as on a node that lost its network."""
        def steps():
            jobs = self("squeue", "-h", "-t", "R", "-w", name, "-o", "%A").split()
            return [number for number, (_, words) in processes().items()
                    if words.startswith(tuple(f"slurmstepd: [{job}." for job in jobs)) and self._is_own(number)]

        # A job that runs has no step yet when it was just started, and none any more when it is about to end.
        self._until(lambda: any(self._kill(number) for number in steps()), f"step on {name}")
        self._kill(self.nodes[name].pid)
        for number in steps():
            self._kill(number)

    def preempt(self, name, logs):
        """Signals jobs of this name as at their time limit, until one has put itself back into the queue for it. Those of a node that was killed
        count as running for a while, and get no signals."""
        alive = ",".join(node for node in self.NODES if self.nodes[node].poll() is None)

        def is_requeued():
            for job in self("squeue", "-h", "-t", "R", "-n", name, "-w", alive, "-o", "%A").split()[:1]:
                self("scancel", "--batch", "--signal=TERM", job, check=False)
            return any("exit code 143: requeued" in path.read_text() for path in logs.glob("*.log"))

        self._until(is_requeued, "requeued job")

    def _kill(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
            return True
        return False

    def _is_own(self, number):
        with contextlib.suppress(OSError):
            return f"SLURM_CONF={self.environment['SLURM_CONF']}".encode() in Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        return False
