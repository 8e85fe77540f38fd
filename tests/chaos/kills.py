"""`kill -9` at any moment of the flights job: the table equals the truth afterwards."""

import shutil
import time

from flights_job import RESULTS, FlightsJob
from harness import check
from numbers_job import NumbersJob


def files_slow(t):
    """a throttled job from files is killed again and again, goes on, and gets the right table"""
    kill_again_and_again(t, "file")


def local_slow(t):
    """a throttled job from a local topic is killed again and again, and gets the right table"""
    kill_again_and_again(t, "local")


def files_fast(t):
    """a job from files is killed anywhere between its start and its end, and gets it right"""
    kill_anywhere(t, "file")


def local_fast(t):
    """a job from a local topic is killed anywhere between start and end, and gets it right"""
    kill_anywhere(t, "local")


def lines_and_topics(t):
    """jobs that write lines of a file, and a topic, are killed: all is whole and there"""
    for kind in ("file", "local"):
        folder = t.folder.inside(kind)
        longest, count = 1.0, t.choose(5_000, 50_000)
        job = NumbersJob(folder, sink=(kind, "out"), count=count, every=100,
                         rate=int(count / (t.rounds * longest)))
        killed = kill_repeatedly(t, job, longest, t.rounds)
        job.hurry()
        job.run().expect(0)
        job.check_complete()
        again = len(job.outputs()) - (count - count // job.every)
        t.report(f"{kind}: {killed} of {t.rounds} runs were killed before their end;"
                 f" {again} of {count} messages written again")


def producer(t):
    """`tidegate produce` is killed: what it wrote is whole, and another run writes all of it"""
    count = 20_000
    t.folder.write("in.jsonl", "".join(f'{{"n":{n}}}\n' for n in range(count)))
    arguments = ["produce", "--db", "q.db", "--topic", "t", "in.jsonl"]
    begin = time.monotonic()
    t.folder.run("produce", "--db", "other.db", "--topic", "t", "in.jsonl").expect(0)
    longest = time.monotonic() - begin
    there = []
    for _ in range(t.rounds):
        with t.folder.start(*arguments) as running:
            time.sleep(t.random.uniform(0.0, longest))
            running.kill()
        if t.folder.path("q.db").exists():
            there.append(sum(topic["records"] for topic in t.folder.topics("q.db")["topics"]))
    t.folder.run(*arguments).expect(0)
    [topic] = t.folder.topics("q.db")["topics"]
    check(topic["records"] == (there[-1] if there else 0) + count, "it wrote a part twice", topic)
    t.report(f"records there after each kill: {' '.join(map(str, there))}")


SCENARIOS = [files_slow, local_slow, files_fast, local_fast, lines_and_topics, producer]


def kill_repeatedly(t, job, longest, rounds):
    """Starts it and kills it at a random moment. Returns how often it was still running."""
    killed = 0
    for _ in range(rounds):
        with job.start() as running:
            # A third of the kills hit the start, where the last crash is recovered from.
            limit = t.random.choice([0.3, longest, longest])
            time.sleep(t.random.uniform(0.0, limit))
            killed += running.kill()
    return killed


def kill_again_and_again(t, source):
    """One job that is so slow that every kill hits it in the middle."""
    longest = 2.5
    lines = t.choose(6_000, 100_000)
    # On average a run is killed after half of `longest`; twice that is left for the end.
    job = FlightsJob(t.folder, source, lines, rate=int(lines / (t.rounds * longest)))
    repeats, killed = [], 0
    for _ in range(t.rounds):
        killed += kill_repeatedly(t, job, longest, rounds=1)
        repeats.append(job.writes()[1])
    job.finish()
    repeats.append(job.writes()[1])
    report(t, killed, repeats, job)


def kill_anywhere(t, source):
    """A job of its own for every kill, at full speed."""
    job = FlightsJob(t.folder, source, t.choose(2_000, 27_000))
    fresh = t.folder.path("fresh")
    fresh.mkdir()
    for name in RESULTS:
        if t.folder.path(name).exists():
            shutil.copy(t.folder.path(name), fresh / name)
    longest = job.finish()
    wanted = t.rounds if t.is_long else 2
    repeats, killed, ended = [0], 0, 0
    while killed < wanted and ended < 2 * wanted:
        start_afresh(t, fresh)
        with job.start() as running:
            seconds = running.wait_at_most(t.random.uniform(0.0, longest))
            if not running.kill():
                # It has become faster, so from now on it is killed earlier.
                longest, ended = seconds, ended + 1
                continue
        killed += 1
        job.finish()
        repeats.append(repeats[-1] + job.writes()[1])
    check(killed == wanted, f"{ended} runs had ended before they were killed")
    report(t, killed, repeats, job)


def start_afresh(t, fresh):
    for name in RESULTS:
        for file in t.folder.root.glob(name + "*"):
            file.unlink()
        if (fresh / name).exists():
            shutil.copy(fresh / name, t.folder.path(name))


def report(t, killed, repeats, job):
    each = [after - before for before, after in zip(repeats, repeats[1:])]
    total, _ = job.writes()
    letters, again = job.dead_letters()
    t.report(f"{killed} of {len(repeats) - 1} runs were killed before their end; rows written"
             f" again after each: {' '.join(map(str, each))}")
    t.report(f"the last job: {job.lines} messages, {total} rows written,"
             f" {letters} dead letters, {again} of them again")
