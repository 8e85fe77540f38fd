"""A database that another process has locked: below the sink, the store, and both ends of a topic.
"""

import sqlite3
import time

from harness import check, wait_until
from numbers_job import NumbersJob

CASES = {
    "out.db": {"sink": ("sqlite", "out.db")},
    "state.db": {"sink": ("sqlite", "other.db")},
    "in.db": {"sink": ("sqlite", "another.db"), "source": ("local", "in.db")},
    "out-topic.db": {"sink": ("local", "out-topic.db"), "store": "another-state.db"},
}


def for_a_while(t):
    """another process holds a database's lock for 3 s: the run waits for it and gets to its end"""
    for path, running in locked_in_the_middle(t, settings="retry_for: 30s"):
        with Lock(t.folder.path(path)):
            time.sleep(3.0)
            check(running.is_running(), f"{path}: it has given up", running.log())
        running.wait(60).expect(0)


def for_too_long(t):
    """another process holds a lock for longer than `retry_for`: a clear error, and nothing lost"""
    for path, running in locked_in_the_middle(t, settings="retry_for: 1s"):
        with Lock(t.folder.path(path)):
            ended = running.wait(60).expect(1, path, "(?i)lock")
        t.said(ended)


def same_pipeline_twice(t):
    """a pipeline that runs already is refused; one that was killed isn't in the way"""
    job = NumbersJob(t.folder, sink=("sqlite", "out.db"), count=2_000, rate=500)
    with job.start() as running:
        wait_until(job.has_begun, "the first one has begun")
        t.said(job.run().expect(1, "state.db", "(?i)another|already"))
        check(running.is_running(), "the second one ended the first", running.log())
    job.hurry()
    job.run().expect(0)
    job.check_complete()


SCENARIOS = [for_a_while, for_too_long, same_pipeline_twice]


def locked_in_the_middle(t, settings):
    """Yields each case while its job runs, lets it finish afterwards, and checks what came out."""
    for number, (path, places) in enumerate(CASES.items()):
        store = places.get("store", "state.db" if path == "state.db" else f"state-{number}.db")
        job = NumbersJob(t.folder, count=1_500, every=100, rate=500, settings=settings,
                         dead=f"dead-{number}.jsonl", **{**places, "store": store})
        with job.start() as running:
            wait_until(job.has_begun, f"the job with {path} has begun")
            yield path, running
        job.hurry()
        job.run().expect(0)
        job.check_complete()


class Lock:
    """Another connection's write lock on a database."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=30, isolation_level=None)

    def __enter__(self):
        self.connection.execute("BEGIN EXCLUSIVE")
        return self

    def __exit__(self, *_):
        self.connection.rollback()
        self.connection.close()
