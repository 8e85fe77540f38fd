"""Places where writing isn't allowed: read-only files, folders and file systems, a closed pipe.

Each is a clear error, and once it may be written to, a further run has everything. Root may do
anything, so then the command runs as a user without rights.
"""

import contextlib
import os

from harness import SmallDisk, as_nobody, check
from numbers_job import NumbersJob

# What can't be written, by its path, and the job that uses it. Each runs in its own folder.
CASES = {
    "place/out.jsonl": {"sink": ("file", "place/out.jsonl")},
    "place/out.db": {"sink": ("sqlite", "place/out.db")},
    "place/topic.db": {"sink": ("local", "place/topic.db")},
    "place/dead.jsonl": {"sink": ("file", "out.jsonl"), "dead": "place/dead.jsonl"},
    "place/state.db": {"sink": ("file", "out.jsonl"), "store": "place/state.db"},
    "place/in.db": {"sink": ("file", "out.jsonl"), "source": ("local", "place/in.db")},
}


# What a pipe holds.
PIPE = 64 << 10


def read_only_files(t):
    """an output, a store or a log that may only be read"""
    for path, job in jobs(t):
        job.run(user=as_nobody()).expect(0)
        job.extend(1_000)
        target = job.folder.path(path)
        target.chmod(0o444)
        refused(t, job, path)
        target.chmod(0o644)
        finish(job)


def read_only_folders(t):
    """an output, a store or a log in a folder in which no file may be made"""
    for path, job in jobs(t):
        place = job.folder.path("place")
        place.chmod(0o555)
        refused(t, job, path)
        place.chmod(0o755)
        finish(job)


def read_only_disks(t):
    """an output, a store or a log on a file system that is mounted read-only"""
    if not SmallDisk.is_possible():
        t.skip("no file system can be mounted here")
        return
    for path, job in jobs(t, lambda place: SmallDisk(place, 4 << 20)):
        job.place.make_read_only()
        refused(t, job, path)
        job.place.make_writable()
        finish(job)


def closed_output(t):
    """the reader of standard output goes away in the middle: an error, and the rest comes again"""
    job = NumbersJob(t.folder, sink=("file", "-"))
    reading, writing = os.pipe()
    with job.start(stdout=writing) as running:
        os.close(writing)
        os.read(reading, 5_000)
        os.close(reading)
        ended = running.wait(60).expect(1, "standard output")
    t.said(ended)
    # What a pipe has taken is out of our hands, so that may be committed, and nothing more.
    most = (PIPE + 5_000) // len(f'{{"n":0,"text":"{"x" * 80}"}}')
    check(ended.counts["committed"] <= most, f"at most {most} messages fit into the pipe", ended)
    again = job.run().expect(0)
    read = ended.counts["committed"] + again.counts["read"]
    check(read == job.count, f"{read} of {job.count} messages were handled", again)


SCENARIOS = [read_only_files, read_only_folders, read_only_disks, closed_output]


def jobs(t, make_place=None):
    """Each case's job. Everything belongs to the user who will run it."""
    for number, (path, places) in enumerate(CASES.items()):
        folder = t.folder.inside(f"case-{number}")
        with contextlib.ExitStack() as stack:
            if make_place is None:
                folder.path("place").mkdir()
                place = None
            else:
                place = stack.enter_context(make_place(folder.path("place")))
            job = NumbersJob(folder, count=500, every=100, settings="retry_for: 1s", **places)
            job.place = place
            folder.give_to(as_nobody())
            yield path, job


def refused(t, job, path):
    ended = job.run(user=as_nobody()).expect(1, path, "(?i)permission|read-only|can't be opened")
    t.said(ended)


def finish(job):
    job.folder.give_to(as_nobody())
    job.run(user=as_nobody()).expect(0)
    job.check_complete()
