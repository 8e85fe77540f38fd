"""SIGINT and SIGTERM: what was read is finished and committed, or comes again; the exit code is 0.
"""

import json
import os
import select
import signal
import time

from flights_job import FlightsJob
from harness import check, wait_until

BOTH = [signal.SIGINT, signal.SIGTERM]


def files_anywhere(t):
    """a job from files is told to stop again and again: nothing is lost and nothing repeated"""
    stop_anywhere(t, "file")


def local_anywhere(t):
    """a job from a local topic is told to stop again and again: nothing is lost or repeated"""
    stop_anywhere(t, "local")


def stop_anywhere(t, source):
    longest = 1.5
    lines = t.choose(4_000, 50_000)
    # With more in flight than this the first drain would finish the job.
    job = FlightsJob(t.folder, source, lines, rate=int(lines / (t.rounds * longest)),
                     settings="limits: { messages_per_partition: 300 }\n")
    stopped, before_start, slowest = 0, 0, 0.0
    for number in range(t.rounds):
        with job.start() as running:
            time.sleep(t.random.uniform(0.0, longest))
            running.send(BOTH[number % 2])
            begin = time.monotonic()
            ended = running.wait(60)
            slowest = max(slowest, time.monotonic() - begin)
        if ended.code in (-signal.SIGINT, -signal.SIGTERM):
            before_start += 1  # it was not listening yet, and had not begun
            continue
        ended.expect(0)
        counts = ended.counts
        check(counts["committed"] == counts["read"], "not everything that was read is committed",
              ended)
        check(counts["failed"] == 0, "a stop is no failure", ended)
        stopped += 1
    job.finish()
    total, repeated = job.writes()
    check(repeated == 0, f"{repeated} of {total} rows were written again after a clean stop")
    t.report(f"{stopped} stops, each within {slowest:.2f} s, and {before_start} before it had begun;"
             f" {total} rows written, none twice")


def while_the_sink_stalls(t):
    """a stop while nobody takes the output ends after the drain time, and the rest comes again"""
    count = 20_000
    t.folder.write("in.jsonl", "".join(f'{{"n":{n},"text":"{"x" * 80}"}}\n' for n in range(count)))
    t.folder.write("p.yaml", "name: n\nsource: { file: { path: in.jsonl } }\n"
                             "sink: { stdout: {} }\ndrain: 1s\n"
                             "store: { sqlite: { path: state.db } }\n")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        with t.folder.start("run", "p.yaml", stdout=writing) as running:
            wait_until(lambda: is_full(writing), "the pipe is full")
            begin = time.monotonic()
            running.send(signal.SIGTERM)
            ended = running.wait(30)
            seconds = time.monotonic() - begin
        os.close(writing)
        taken = numbers(pipe.read())
    ended.expect(0, "not finished and committed before the drain time", "come again")
    check(seconds < 5.0, f"the drain time is 1 s, and it took {seconds:.1f} s", ended)
    rest = numbers(t.folder.run_pipeline("p.yaml").stdout)
    missing = set(range(count)) - taken - rest
    check(not missing, f"{len(missing)} messages are lost, such as {sorted(missing)[:5]}", ended)
    t.report(f"ended {seconds:.2f} s after the signal; {len(taken)} messages were in the pipe, and"
             f" the next run brought {len(rest)}")


def numbers(output):
    """The numbers of the whole lines."""
    lines = (line for line in output.split(b"\n") if line.startswith(b"{") and line.endswith(b"}"))
    return {json.loads(line)["n"] for line in lines}


def is_full(descriptor):
    """Whether a pipe takes nothing more."""
    return not select.select([], [descriptor], [], 0)[1]


def twice(t):
    """a second signal ends a drain at once with 130, and what wasn't committed comes again"""
    count = 2_000
    t.folder.write("in.jsonl", "".join(f'{{"n":{n}}}\n' for n in range(count)))
    slow = ("name: n\nsource: { file: { path: in.jsonl } }\n"
            "steps: [ { throttle: { rate: 50, per: 1s } } ]\n"
            "sink: { sqlite: { path: out.db, table: t, key: [n], create: true } }\n"
            "commit: { every: 100ms }\nstore: { sqlite: { path: state.db } }\n")
    t.folder.write("p.yaml", slow)
    for number in BOTH:
        with t.folder.start("run", "p.yaml") as running:
            wait_until(lambda: t.folder.path("out.db").exists(), "it writes")
            time.sleep(0.5)
            running.send(number)
            running.wait_for_log("a second signal stops at once")
            begin = time.monotonic()
            running.send(number)
            ended = running.wait(10).expect(130, "stopped at once by a second signal", "come again")
            check(time.monotonic() - begin < 2.0, "it took its time after the second signal", ended)
    t.folder.write("p.yaml", slow.replace("rate: 50", "rate: 1000000"))
    t.folder.run_pipeline("p.yaml")
    rows = t.folder.rows("out.db", "SELECT n FROM t ORDER BY n")
    check(rows == [(n,) for n in range(count)], f"{len(rows)} of {count} rows are there")


SCENARIOS = [files_anywhere, local_anywhere, while_the_sink_stalls, twice]
