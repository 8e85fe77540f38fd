"""A job that copies numbered messages from a file or topic to any sink, and diverts some of them.

It is complete when every number is in the output or in the dead letters, and none in both.
"""

import json
import sqlite3

from harness import check

SINKS = {
    "file": "file: {{ path: '{path}' }}",
    "sqlite": "sqlite: {{ path: {path}, table: t, key: [n], create: true, busy_timeout: 500ms }}",
    "local": "local: {{ path: {path}, topic: t, lock_timeout: 500ms }}",
}
SOURCES = {
    "file": "file: {{ path: {path} }}",
    "local": "local: {{ path: {path}, topic: t, group: g, member: one, until_end: true,"
             " lock_timeout: 500ms }}",
}


class NumbersJob:
    """The job in a folder. `source` and `sink` are a kind and a path."""

    def __init__(self, folder, sink, source=("file", "in.jsonl"), count=20_000, every=1_000,
                 dead="dead.jsonl", store="state.db", rate=None, settings=""):
        self.folder, self.source, self.sink, self.dead = folder, source, sink, dead
        self.count, self.every = 0, every
        self.extend(count)
        self.text = (
            f"name: numbers\nsource: {{ {SOURCES[source[0]].format(path=source[1])} }}\nsteps:\n"
            f"  - throttle: {{ rate: {(rate or 1_000_000) // 10}, per: 100ms }}\n"
            f"  - jq: 'if .n % {every} == 0 then error(\"\\(.n) is refused\") else . end'\n"
            f"sink: {{ {SINKS[sink[0]].format(path=sink[1])} }}\n"
            f"dead_letters: {{ file: {{ path: {dead} }} }}\n"
            "commit: { every: 50ms }\nlimits: { messages_per_partition: 2000 }\n"
            f"{settings}\n")
        if source[0] == "file":
            self.text += f"store: {{ sqlite: {{ path: {store}, busy_timeout: 500ms }} }}\n"
        self.write(self.text)

    def extend(self, count):
        """Adds to the source, up to this count."""
        lines = (f'{{"n":{n},"text":"{"x" * 80}"}}\n' for n in range(self.count, count))
        self.count = count
        kind, path = self.source
        name = "in.jsonl" if kind == "file" else "more.jsonl"
        self.folder.append(name, "".join(lines))
        if kind == "local":
            self.folder.run("produce", "--db", path, "--topic", "t", name).expect(0)
            self.folder.path(name).unlink()

    def write(self, text):
        self.folder.write("numbers.yaml", text)

    def hurry(self):
        """From now on without the throttle."""
        lines = self.text.splitlines(keepends=True)
        self.write("".join(line for line in lines if "throttle" not in line))

    def start(self, **options):
        return self.folder.start("run", "numbers.yaml", **options)

    def run(self, **options):
        return self.folder.run("run", "numbers.yaml", **options)

    def outputs(self):
        """The numbers that came out so far, repeats too. A line has to be whole to be read."""
        kind, path = self.sink
        if kind == "sqlite":
            return [n for (n,) in self.folder.rows(path, "SELECT n FROM t")]
        if kind == "local":
            self.folder.write("read.yaml", (
                f"name: read\nsource: {{ local: {{ path: {path}, topic: t, group: read,"
                " until_end: true } }\nsink: { file: { path: read.jsonl } }\n"))
            self.folder.run_pipeline("read.yaml")
            path = "read.jsonl"
        return [json.loads(line)["n"] for line in self.folder.lines(path)]

    def has_begun(self):
        """Whether something has come out."""
        kind, path = self.sink
        if not self.folder.path(path).exists():
            return False
        if kind == "local":
            return any(topic["records"] for topic in self.folder.topics(path)["topics"])
        try:
            return bool(self.outputs())
        except sqlite3.OperationalError:
            return False  # there is no table yet

    def check_complete(self):
        numbers = set(range(self.count))
        refused = {n for n in numbers if n % self.every == 0}
        letters = (json.loads(line) for line in self.folder.lines(self.dead))
        diverted = {json.loads(letter["payload"]["text"])["n"] for letter in letters}
        check(diverted == refused, f"{len(diverted)} dead letters, expected {len(refused)}")
        written = set(self.outputs())
        missing = numbers - refused - written
        check(not missing, f"{len(missing)} messages are lost, such as {sorted(missing)[:5]}")
        check(written == numbers - refused, "something came out that shouldn't")
