"""What the scenarios share: a folder, the command run in it, and looking at a process from outside.

Everything that waits is bounded; only processes that were started here are ended, by their id.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = ROOT / "examples" / "flights"

# No run of a scenario takes so long on the slowest machine; what does, hangs.
LONGEST_RUN = 240.0


class Failed(Exception):
    """Something isn't as it has to be."""


def check(condition, what, *context):
    if not condition:
        raise Failed("\n".join([what, *(str(part) for part in context)]))


def wait_until(condition, what, within=60.0, every=0.02):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + within
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failed(f"after {within:g} s still not: {what}")
        time.sleep(every)


class Ended:
    """A command that has ended."""

    def __init__(self, args, code, stdout, stderr):
        self.args, self.code, self.stdout, self.stderr = args, code, stdout, stderr

    def __str__(self):
        out = self.stdout[-300:].decode("utf-8", "replace")
        return (f"$ tidegate {' '.join(self.args)}\nexit code {self.code}\n"
                f"stdout: {out}\nstderr: {self.error_text[-4000:]}")

    @property
    def error_text(self):
        return self.stderr.decode("utf-8", "replace")

    @property
    def counts(self):
        """The numbers of the summary line."""
        text = self.stdout + b"\n" + self.stderr
        lines = [line for line in text.splitlines() if line.startswith(b"read=")]
        check(lines, "there is no summary line", self)
        pairs = re.findall(r"(\w+)=(\d+) ", lines[-1].decode())
        return {name: int(number) for name, number in pairs}

    def expect(self, code, *patterns):
        """Checks the exit code, that it didn't panic, and that every pattern is found on stderr."""
        check(self.code == code, f"expected exit code {code}", self)
        check("panicked" not in self.error_text, "it panicked", self)
        for pattern in patterns:
            check(re.search(pattern, self.error_text), f"expected a message with /{pattern}/", self)
        return self


class Started:
    """A command that runs. As a context it is killed at the end if it still does."""

    def __init__(self, args, process, stdout_path, stderr_path):
        self.args, self.process = args, process
        self.stdout_path, self.stderr_path = stdout_path, stderr_path
        self.pid = process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_running():
            self.kill()

    def is_running(self):
        return self.process.poll() is None

    def send(self, number):
        if self.is_running():
            self.process.send_signal(number)

    def kill(self):
        """Ends it as a crash would. Returns whether it was still running."""
        running = self.is_running()
        self.process.kill()
        self.process.wait()
        return running

    def log(self):
        return self.stderr_path.read_text("utf-8", "replace")

    def wait_for_log(self, text, within=60.0):
        def found():
            check(self.is_running() or text in self.log(), f"it ended without `{text}`", self.log())
            return text in self.log()
        wait_until(found, f"`{text}` is logged", within)

    def wait_at_most(self, seconds):
        """Waits for so long, or until it has ended. Returns how long that was."""
        begin = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return time.monotonic() - begin

    def wait(self, within=LONGEST_RUN):
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            state = self.log()[-2000:]
            self.kill()
            raise Failed(f"`tidegate {' '.join(self.args)}` hangs, killed after {within:g} s\n"
                         f"{state}") from None
        stdout = self.stdout_path.read_bytes() if self.stdout_path else b""
        return Ended(self.args, code, stdout, self.stderr_path.read_bytes())

    # What the kernel says of it.

    def cpu_seconds(self):
        """Time on a processor since its start, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Bytes that are resident now."""
        return self._status("VmRSS")

    def peak_memory(self):
        """The most bytes that were ever resident."""
        return self._status("VmHWM")

    def _status(self, name):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024


class Folder:
    """A folder in which the command runs."""

    def __init__(self, binary, path):
        self.binary, self.root = binary, Path(path)
        self.count = 0

    def path(self, name):
        return self.root / name

    def inside(self, name):
        """A folder in it."""
        self.path(name).mkdir()
        return Folder(self.binary, self.path(name))

    def give_to(self, user):
        """Lets everything in it belong to this user; to nobody else if there is none."""
        if user is not None:
            for path in [self.root, *self.root.rglob("*")]:
                os.chown(path, user, user)

    def write(self, name, content):
        if isinstance(content, str):
            content = content.encode()
        self.path(name).write_bytes(content)
        return name

    def append(self, name, content):
        with open(self.path(name), "ab") as file:
            file.write(content.encode())

    def lines(self, name):
        path = self.path(name)
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []

    def rows(self, database, query):
        """What a query on a SQLite file gives."""
        with contextlib.closing(sqlite3.connect(self.path(database), timeout=30)) as connection:
            return connection.execute(query).fetchall()

    def start(self, *args, stdout=None, stdin=subprocess.DEVNULL, user=None, file_size=None):
        """Starts the command. Standard output goes to a file unless it is given.

        `file_size` is how large files may get; writing more is an error then, not a signal.
        """
        self.count += 1
        stdout_path = None if stdout is not None else self.path(f"run-{self.count}.stdout")
        stderr_path = self.path(f"run-{self.count}.stderr")
        environment = {k: v for k, v in os.environ.items() if k != "TIDEGATE_LOG"}
        command = [self.binary, *args]
        if file_size is not None:
            blocks = file_size // 512  # the unit of POSIX
            command = ["sh", "-c", f'ulimit -f {blocks} && exec "$0" "$@"', *command]
        with open(stderr_path, "wb") as stderr, open(stdout_path or os.devnull, "wb") as file:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=stdin,
                stdout=file if stdout is None else stdout, stderr=stderr, user=user, group=user,
                extra_groups=None if user is None else [], restore_signals=file_size is None)
        return Started(args, process, stdout_path, stderr_path)

    def run(self, *args, within=LONGEST_RUN, **options):
        """Runs the command to its end."""
        with self.start(*args, **options) as started:
            return started.wait(within)

    def run_pipeline(self, name, **options):
        """Runs the pipeline to its end, which has to be a good one."""
        return self.run("run", name, **options).expect(0)

    def topics(self, db):
        """What `tidegate topics` says. Not counted as a run: it is asked often."""
        answer = subprocess.run([self.binary, "topics", "--db", str(db), "--json"], cwd=self.root,
                                capture_output=True, timeout=30, check=False)
        check(answer.returncode == 0, "`tidegate topics` failed", answer.stderr)
        return json.loads(answer.stdout)

    def group(self, db, name):
        """What `tidegate topics` says of one group; `None` before it joined."""
        groups = [g for g in self.topics(db)["groups"] if g["group"] == name]
        return groups[0] if groups else None


class Scenario:
    """What a scenario is given: a folder, how long to be, seeded randomness; and takes figures."""

    def __init__(self, folder, options, random):
        self.folder, self.is_long, self.random = folder, options.long, random
        self.rounds, self.shows_messages = options.rounds, options.messages
        self.figures, self.skipped = [], None

    def choose(self, short, long):
        return long if self.is_long else short

    def report(self, text):
        """A figure to be shown."""
        self.figures.append(text)

    def said(self, ended):
        """What the command said, shown with `--messages`."""
        if self.shows_messages and ended.error_text.strip():
            self.figures.append(ended.error_text.strip().splitlines()[-1])

    def skip(self, why):
        """What it needs isn't there."""
        self.skipped = why


def as_nobody():
    """The id of a user without rights if we may become it, else `None`."""
    return 65534 if os.geteuid() == 0 else None


class SmallDisk:
    """A file system of its own with so many bytes, where one may be mounted."""

    kind = "a small disk"
    options = {}

    def __init__(self, path, size):
        self.path, self.size = Path(path), size

    def __enter__(self):
        self.path.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={self.size}", "tmpfs")
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", str(self.path)], check=True, capture_output=True)

    def fill(self, leave):
        """Takes the space but for so many bytes, with a file that `make_space` removes."""
        taken = max(shutil.disk_usage(self.path).free - leave, 1)
        with open(self.path / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, taken)

    def make_space(self):
        (self.path / "filler").unlink()

    def make_read_only(self):
        self._mount("-o", "remount,ro")

    def make_writable(self):
        self._mount("-o", "remount,rw")

    def _mount(self, *arguments):
        subprocess.run(["mount", *arguments, str(self.path)], check=True, capture_output=True)

    @staticmethod
    def is_possible():
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return False
        with tempfile.TemporaryDirectory() as folder:
            try:
                with SmallDisk(Path(folder) / "probe", 1 << 20):
                    return True
            except (subprocess.CalledProcessError, OSError):
                return False


class SizeLimit:
    """Files that can't grow past so many bytes, in place of a small disk."""

    kind = "a limit on the size of files"

    def __init__(self):
        self.options = {}

    def fill(self, leave):
        # Less, and the databases couldn't even be made.
        self.options = {"file_size": max(leave, 16 << 10)}

    def make_space(self):
        self.options = {}


def stop(started, within=30.0):
    """Asks for a stop as an operator would, and waits for it."""
    started.send(signal.SIGTERM)
    return started.wait(within)
