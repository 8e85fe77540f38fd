"""Full disks, below each thing that is written: a clear error, exit code 1, and nothing is lost.

Where a small file system can't be mounted, a limit on the size of files takes its place.
"""

import contextlib
import json

from harness import SizeLimit, SmallDisk, check
from numbers_job import NumbersJob

DISK = 16 << 20
MIB = 1 << 20
# With a limit on the size of files it is not the disk that is full.
FULL = "(?i)is full|ulimit"


def below_a_file(t):
    """a full disk below the output file"""
    full_disk(t, "disk/out.jsonl", sink=("file", "disk/out.jsonl"))


def below_a_database(t):
    """a full disk below the output database"""
    full_disk(t, "disk/out.db", sink=("sqlite", "disk/out.db"))


def below_a_topic(t):
    """a full disk below the output topic"""
    full_disk(t, "disk/q.db", sink=("local", "disk/q.db"))


def below_the_dead_letters(t):
    """a full disk below the dead letters"""
    full_disk(t, "disk/dead.jsonl", sink=("file", "out.jsonl"), dead="disk/dead.jsonl", every=2)


def below_the_store(t):
    """a full disk below the store"""
    if not SmallDisk.is_possible():
        t.skip("no file system can be mounted here, and a limit would concern the sink first")
        return
    # Slowly, so that commits come and need more space than there is.
    full_disk(t, "disk/state.db", sink=("sqlite", "out.db"), store="disk/state.db",
              rate=4_000, leave=100_000)


def full_disk(t, named, leave=MIB, **places):
    with small_disk(t) as disk:
        job = NumbersJob(t.folder, settings="retry_for: 1s", **places)
        disk.fill(leave)
        ended = job.run(**disk.options).expect(1, named, FULL)
        check(ended.counts["committed"] < job.count, "it can't have committed everything", ended)
        # Trying again without making space gets a little further at best.
        again = job.run(**disk.options).expect(1, named)
        disk.make_space()
        job.hurry()
        job.run().expect(0)
        job.check_complete()
        t.report(f"{disk.kind}: {ended.counts['committed']} of {job.count} committed before,"
                 f" {again.counts['committed']} by another try")
        t.said(ended)


def below_a_producer(t):
    """a full disk below a local topic: `produce` counts nothing that isn't there"""
    with small_disk(t) as disk:
        job = NumbersJob(t.folder, sink=("file", "out.jsonl"))
        disk.fill(MIB)
        produce = ["produce", "--db", "disk/q.db", "--topic", "t", "--json", "in.jsonl"]

        def records():
            return t.folder.topics("disk/q.db")["topics"][0]["records"]
        ended = t.folder.run(*produce, **disk.options).expect(1, "disk/q.db", FULL)
        counted, there = json.loads(ended.stdout)["written"], records()
        check(counted <= there < job.count, f"{counted} counted, {there} there", ended)
        disk.make_space()
        t.folder.run(*produce).expect(0)
        check(records() == there + job.count, f"{there} + {job.count} records, not {records()}")


def limited_files(t):
    """a limit on the size of files (`ulimit -f`) stops it, and nothing is lost"""
    for kind, path in (("file", "out.jsonl"), ("sqlite", "out.db")):
        job = NumbersJob(t.folder, sink=(kind, path), store=f"{path}.state.db",
                         dead=f"{path}.dead.jsonl", settings="retry_for: 1s")
        ended = job.run(file_size=MIB).expect(1, path, "ulimit")
        t.said(ended)
        job.run().expect(0)
        job.check_complete()


SCENARIOS = [below_a_file, below_a_database, below_a_topic, below_the_dead_letters,
             below_the_store, below_a_producer, limited_files]


@contextlib.contextmanager
def small_disk(t):
    path = t.folder.path("disk")
    if SmallDisk.is_possible():
        with SmallDisk(path, DISK) as disk:
            yield disk
    else:
        path.mkdir()
        yield SizeLimit()
