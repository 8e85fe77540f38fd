"""A sink that stalls: memory stays within the budget, nothing spins, and then all goes on.

The sink is standard output, a pipe that nobody reads for a while. The budget is the default, so
much of a message's record, and no more, may be in flight.
"""

import os
import threading
import time

from harness import check, wait_until

MIB = 1 << 20
BUDGET = 64 * MIB
# Of what the engine adds to the records (what steps made of them, queues, the allocator).
OVERHEAD = 0.2
BUSY_AT_MOST = 0.02
# Between two looks at a stalled process its memory may move by so much: a log line, a page.
JITTER = MIB


def small_messages_of_a_file(t):
    """a stalled sink with messages of 100 bytes from a file"""
    stall(t, *write_file(t, short(100), t.choose(60_000, 1_500_000)))


def large_messages_of_a_file(t):
    """a stalled sink with messages of 100 kB from a file"""
    stall(t, *write_file(t, short(100_000), t.choose(1_200, 4_000)))


def small_messages_of_many_partitions(t):
    """a stalled sink with messages of 100 bytes from a topic with 64 partitions"""
    stall(t, *write_topic(t, short(100), t.choose(100_000, 1_500_000)))


def wide_messages_of_many_partitions(t):
    """a stalled sink with messages of 20 fields from a topic with 64 partitions"""
    stall(t, *write_topic(t, wide, t.choose(100_000, 500_000)))


def large_messages_of_many_partitions(t):
    """a stalled sink with messages of 100 kB from a topic with 64 partitions"""
    stall(t, *write_topic(t, short(100_000), t.choose(1_200, 4_000)))


SCENARIOS = [small_messages_of_a_file, large_messages_of_a_file, small_messages_of_many_partitions,
             wide_messages_of_many_partitions, large_messages_of_many_partitions]


def short(size):
    """Makes messages of two fields and so many bytes."""
    def message(number):
        start = b'{"n":%d,"text":"' % number
        return start + b"x" * (size - len(start) - 3) + b'"}\n'
    return message


def wide(number):
    """A message of many fields takes the most memory when it is decoded, measured by its text."""
    fields = b"".join(b',"field_%d":%d' % (index, index * number) for index in range(19))
    return b'{"n":%d%s}\n' % (number, fields)


def write_file(t, message, count):
    with open(t.folder.path("in.jsonl"), "wb") as file:
        for number in range(count):
            file.write(message(number))
    return "file: { path: in.jsonl }", count


def write_topic(t, message, count):
    write_file(t, message, count)
    t.folder.run("produce", "--db", "q.db", "--topic", "t", "--partitions", "64", "--key", "n",
                 "in.jsonl").expect(0)
    t.folder.path("in.jsonl").unlink()
    return "local: { path: q.db, topic: t, group: g, until_end: true }", count


def stall(t, source, count):
    t.folder.write("stall.yaml", f"name: stall\nsource: {{ {source} }}\nsteps: [ {{ jq: . }} ]\n"
                                 "sink: { stdout: {} }\n")
    baseline = memory_of_an_idle_one(t)
    reading, writing = os.pipe()
    with t.folder.start("run", "stall.yaml", stdout=writing) as running:
        os.close(writing)
        wait_until_still(running)
        seconds = t.choose(10, 60)
        cpu, memory = watch(running, seconds)
        collected = Collected(reading)
        collected.start()
        ended = running.wait().expect(0)
        collected.join(60)
    check(ended.counts["committed"] == count, f"{count} messages should be committed", ended)
    check(collected.numbers == set(range(count)), f"not all of {count} messages came out")
    check(collected.lines == count, f"{collected.lines} lines for {count} messages")
    peak, moved = max(memory), max(memory) - min(memory)
    above, most = peak - baseline, int(BUDGET * (1 + OVERHEAD))
    t.report(f"{seconds} s: {above / MIB:.1f} MiB of memory above an idle one (at most"
             f" {most / MIB:.1f}), {peak / MIB:.1f} in all, moved by {moved / MIB:.2f};"
             f" {cpu / seconds:.2%} of a processor")
    check(above <= most, f"{above:,} bytes of memory above an idle one, at most {most:,} are right")
    check(moved <= JITTER, "memory is not flat", memory)
    check(cpu <= BUSY_AT_MOST * seconds, f"it was busy for {cpu:.2f} s of {seconds} s")


def memory_of_an_idle_one(t):
    t.folder.write("idle.jsonl", '{"n":1}\n')
    t.folder.write("idle.yaml", "name: idle\nsource: { file: { path: idle.jsonl, follow: true } }\n"
                                "steps: [ { jq: . } ]\nsink: { stdout: {} }\n")
    with t.folder.start("run", "idle.yaml") as running:
        wait_until(lambda: running.stdout_path.stat().st_size > 0, "the idle one has started")
        return running.memory()


def wait_until_still(running):
    """Waits until it has filled what there is to fill: no time on the processor for a second."""
    seen = [running.cpu_seconds(), time.monotonic()]

    def is_still():
        check(running.is_running(), "it has ended before its output was read", running.log())
        now = running.cpu_seconds()
        if now - seen[0] > 0.01:
            seen[:] = [now, time.monotonic()]
        return time.monotonic() - seen[1] > 1.0
    wait_until(is_still, "it is still", within=120, every=0.1)


def watch(running, seconds):
    """Its time on the processor and its memory over so long."""
    begin, memory = running.cpu_seconds(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        memory.append(running.memory())
        check(running.is_running(), "it has ended while its sink stalled", running.log())
        time.sleep(0.2)
    return running.cpu_seconds() - begin, memory


class Collected(threading.Thread):
    """Reads the pipe to its end and notes the messages' numbers."""

    def __init__(self, descriptor):
        super().__init__(daemon=True)
        self.descriptor, self.numbers, self.lines = descriptor, set(), 0

    def run(self):
        with os.fdopen(self.descriptor, "rb", buffering=1 << 20) as pipe:
            for line in pipe:
                number, _, rest = line[len(b'{"n":'):].partition(b",")
                if rest.endswith(b"}\n"):
                    self.lines += 1
                    self.numbers.add(int(number))
