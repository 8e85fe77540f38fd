"""The flights job of examples/flights, made ready to be killed: other paths, other data, a counter.

The right results come from examples/flights/truth.py, which knows nothing of Tidegate.
"""

import contextlib
import glob
import gzip
import itertools
import json
import sqlite3
import subprocess
import sys
import time

from harness import FLIGHTS, check

DATA = "data/*.jsonl.gz"
RESULTS = ["flights.db", "flights.state.db", "dead.jsonl", "q.db"]


class FlightsJob:
    """The job in a folder, reading files or a local topic."""

    def __init__(self, folder, source, lines, rate=None, settings=""):
        """Reads so many flights, at most `rate` a second."""
        self.folder, self.source, self.rate = folder, source, rate
        self.settings = settings
        self.lines = lines
        folder.path("data").mkdir()
        self._write_data(lines)
        self._write_pipeline("job.yaml", DATA)
        if source == "local":
            produce = ["produce", "--db", "q.db", "--topic", "flights", "--key", "carrier", DATA]
            folder.run(*produce).expect(0)
        self._count_writes()

    def _write_data(self, lines):
        """January again and again, each time of another year, in files of half a month."""
        [january] = glob.glob(str(FLIGHTS / "data" / "*.jsonl.gz"))
        with gzip.open(january, "rt", encoding="utf-8") as file:
            flights = file.readlines()
        numbers = itertools.count(1)
        for year in range(2013, 2100):
            for half in (flights[:13_500], flights[13_500:]):
                if lines <= 0:
                    return
                text = "".join(half[:lines]).replace('"2013-', f'"{year}-')
                lines -= len(half)
                path = self.folder.path(f"data/part-{next(numbers):02}.jsonl.gz")
                path.write_bytes(gzip.compress(text.encode(), 1))

    def _write_pipeline(self, name, data):
        text = (FLIGHTS / "flights.yaml").read_text("utf-8")
        changes = {
            "examples/flights/out/": "",
            "commit: { every: 1s }": "commit: { every: 100ms }",
            "file: { path: examples/flights/data/*.jsonl.gz, format: json }":
                f"file: {{ path: '{data}', format: json }}",
        }
        if self.source == "local" and data == DATA:
            # With a name of its own a restarted member needn't wait until the session of the
            # killed one has ended.
            changes[f"file: {{ path: '{data}', format: json }}"] = (
                "local: { path: q.db, topic: flights, group: job, member: one, until_end: true }")
            changes["store:\n  sqlite: { path: flights.state.db }\n"] = ""
        if self.rate:
            changes["steps:\n"] = (
                f"steps:\n  - throttle: {{ rate: {max(self.rate // 10, 1)}, per: 100ms }}\n")
        for old, new in changes.items():
            check(old in text, f"flights.yaml has no `{old}` any more")
            text = text.replace(old, new, 1 if old.startswith("s") else -1)
        self.folder.write(name, text + self.settings)

    def _count_writes(self):
        """Lets the job make its table, and the table note every write to it from then on."""
        self.folder.write("none.jsonl.gz", gzip.compress(b""))
        with gzip.open(self.folder.path("data/part-01.jsonl.gz"), "rb") as file:
            first = next(line for line in file if b'"arr_delay":null' not in line)
        self.folder.write("one.jsonl.gz", gzip.compress(first))
        self._write_pipeline("table.yaml", "one.jsonl.gz")
        self.folder.run_pipeline("table.yaml")
        with self.database() as database:
            database.executescript("""
                DELETE FROM flights;
                CREATE TABLE writes (number INTEGER PRIMARY KEY, id TEXT NOT NULL);
                CREATE TRIGGER inserted AFTER INSERT ON flights
                    BEGIN INSERT INTO writes (id) VALUES (new.id); END;
                CREATE TRIGGER updated AFTER UPDATE ON flights
                    BEGIN INSERT INTO writes (id) VALUES (new.id); END;
            """)
        for name in ("flights.state.db", "dead.jsonl"):
            self.folder.path(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def database(self):
        connection = sqlite3.connect(self.folder.path("flights.db"), timeout=30)
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def start(self):
        return self.folder.start("run", "job.yaml")

    def finish(self):
        """Runs the job to its end and checks the results. Returns how long it took."""
        begin = time.monotonic()
        self.folder.run_pipeline("job.yaml")
        seconds = time.monotonic() - begin
        self.check_results()
        return seconds

    def check_results(self):
        """The table and the dead letters against the raw data."""
        command = [sys.executable, str(FLIGHTS / "truth.py"), "--data", DATA, "--db", "flights.db",
                   "--dead", "dead.jsonl"]
        answer = subprocess.run(command, cwd=self.folder.root, capture_output=True, text=True,
                                timeout=120, check=False)
        check(answer.returncode == 0, "the results are wrong", answer.stdout, answer.stderr)

    def writes(self):
        """How many rows were written so far, and how many of them for the second time or more."""
        with self.database() as database:
            query = "SELECT count(*), count(*) - count(DISTINCT id) FROM writes"
            return database.execute(query).fetchone()

    def dead_letters(self):
        """How many dead letters there are, and how many of them are repeats."""
        payloads = [json.loads(line)["payload"]["text"] for line in self.folder.lines("dead.jsonl")]
        return len(payloads), len(payloads) - len(set(payloads))
