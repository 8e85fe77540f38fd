"""Processes of one group on a local topic: one is killed, stopped or paused, another one comes.

A producer writes a steady flow of numbered messages for a fixed set of keys. The members copy
them to another topic and put their names in. Afterwards that topic says who handled what, in
which order and how often; how the group moved is watched from outside with `tidegate topics`.
"""

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections import defaultdict

from harness import Failed, check, stop, wait_until

SESSION_TIMEOUT = 2.0
COMMIT_EVERY = 0.1
# A partition of a member that died is silent for the session timeout. Then the others have to
# notice (they look every 50 ms), take it, and handle and commit a first message (100 ms); and we
# have to see that, looking every 100 ms or so. Each of these can be late on a busy machine.
MARGIN = 1.5
PARTITIONS = 6
KEYS = [f"key-{number}" for number in range(24)]

MEMBER = """
name: {name}
source: {{ local: {{ path: q.db, topic: in, group: g, session_timeout: {session:.0f}s }} }}
steps: [ {{ jq: '. + {{by: "{name}"}}' }} ]
sink: {{ local: {{ path: out.db, topic: out, key: key, partitions: {partitions} }} }}
commit: {{ every: {commit:.0f}ms }}
"""


def two_one_killed(t):
    """of two processes one is killed and one added: all handled, in order, none stalls for long"""
    group = Group(t, ["a", "b"])
    with group:
        group.flow(1.5)
        group.end_member("b", signal.SIGKILL)
        group.flow(SESSION_TIMEOUT + 1.5)
        group.add("c")
        group.flow(1.5)
    group.verify(repeated_of={"b"}, stall=SESSION_TIMEOUT + MARGIN)


def three_one_killed(t):
    """of three processes one is killed and one added before its session has ended"""
    group = Group(t, ["a", "b", "c"])
    with group:
        group.flow(1.5)
        group.end_member("a", signal.SIGKILL)
        group.flow(0.5)
        group.add("d")
        group.flow(SESSION_TIMEOUT + 1.5)
    group.verify(repeated_of={"a"}, stall=SESSION_TIMEOUT + MARGIN)


def three_one_terminated(t):
    """of three processes one is told to stop and one added: nothing is repeated, none stalls"""
    group = Group(t, ["a", "b", "c"])
    with group:
        group.flow(1.5)
        group.end_member("b", signal.SIGTERM)
        group.flow(1.5)
        group.add("d")
        group.flow(1.5)
    # A partition is handed over, so nobody waits for the end of a session.
    group.verify(repeated_of=set(), stall=MARGIN)


def three_one_zombie(t):
    """of three processes one is paused beyond its session and wakes up: it commits nothing more"""
    group = Group(t, ["a", "b", "c"])
    with group:
        group.flow(1.5)
        group.members["c"].send(signal.SIGSTOP)
        group.flow(SESSION_TIMEOUT * 2)
        group.members["c"].send(signal.SIGCONT)
        group.flow(2.0)
    group.verify(repeated_of={"c"}, stall=SESSION_TIMEOUT + MARGIN)


def many_changes(t):
    """members come, are killed, told to stop and paused at random, for as long as it takes"""
    group = Group(t, ["m0", "m1", "m2"])
    suspects, changes = set(), t.choose(4, 20)
    with group:
        for number in range(3, 3 + changes):
            group.flow(t.random.uniform(0.2, 1.5))
            victim = t.random.choice(sorted(group.members))
            how = t.random.choice(["kill", "kill", "stop", "pause"])
            if how == "pause":
                suspects.add(victim)
                group.members[victim].send(signal.SIGSTOP)
                group.flow(t.random.uniform(0.2, SESSION_TIMEOUT * 1.5))
                group.members[victim].send(signal.SIGCONT)
                continue
            if how == "kill":
                suspects.add(victim)
            group.end_member(victim, signal.SIGKILL if how == "kill" else signal.SIGTERM)
            if t.random.random() < 0.5:
                group.flow(t.random.uniform(0.0, 1.0))
            group.add(f"m{number}")
    # Deaths can follow one another, each after the partition has moved on.
    group.verify(repeated_of=suspects, stall=3 * SESSION_TIMEOUT + MARGIN)


SCENARIOS = [two_one_killed, three_one_killed, three_one_terminated, three_one_zombie, many_changes]


class Group:
    """The members, the producer that feeds them, and what was seen of them."""

    def __init__(self, t, names):
        self.t, self.folder, self.names = t, t.folder, names
        self.rate, self.sent = t.choose(300, 1_000), 0
        self.members, self.processes = {}, contextlib.ExitStack()
        self.watcher = Watcher(self.folder)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.processes = stack.enter_context(contextlib.ExitStack())
            self.folder.write("none", "")
            create = ["--db", "q.db", "--topic", "in", "--partitions", str(PARTITIONS), "none"]
            self.folder.run("produce", *create).expect(0)
            for name in self.names:
                self.add(name)
            wait_until(self._is_complete, "all members have joined")
            self.producer = self.processes.enter_context(self.folder.start(
                "produce", "--db", "q.db", "--topic", "in", "--key", "key", stdin=subprocess.PIPE))
            self.processes.enter_context(self.watcher)
            stack.pop_all()  # all is well: `__exit__` ends it
        return self

    def _is_complete(self):
        group = self.folder.group("q.db", "g")
        live = [m for m in group["members"] if m["is_live"]] if group else []
        return len(live) == len(self.members)

    def add(self, name):
        self.folder.write(f"{name}.yaml", MEMBER.format(
            name=name, session=SESSION_TIMEOUT, commit=COMMIT_EVERY * 1000, partitions=PARTITIONS))
        self.members[name] = self.processes.enter_context(self.folder.start("run", f"{name}.yaml"))

    def end_member(self, name, number):
        member = self.members.pop(name)
        if number == signal.SIGKILL:
            check(member.kill(), f"{name} ended before it was killed", member.log())
        else:
            stop(member).expect(0)

    def flow(self, seconds):
        """Produces steadily for so long, and checks that no member has ended by itself."""
        pause = 0.02
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lines = []
            for _ in range(max(int(self.rate * pause), 1)):
                key, number = KEYS[self.sent % len(KEYS)], self.sent // len(KEYS)
                lines.append(json.dumps({"key": key, "n": number}) + "\n")
                self.sent += 1
            self.producer.process.stdin.write("".join(lines).encode())
            self.producer.process.stdin.flush()
            time.sleep(pause)
        for name, member in self.members.items():
            check(member.is_running(), f"{name} has ended by itself", member.log())

    def __exit__(self, kind, *_):
        with self.processes:
            if kind is None:
                self.producer.process.stdin.close()
                self.producer.wait(60).expect(0)
                wait_until(lambda: self.folder.group("q.db", "g")["lag"] == 0, "the lag is 0")
                for member in self.members.values():
                    stop(member).expect(0)

    def verify(self, repeated_of, stall):
        """What the output topic says, and what was seen of the group."""
        check(self.folder.group("q.db", "g")["lag"] == 0, "the lag is not 0 at the end")
        handled = self._handled()
        first, repeats = {}, []
        order = defaultdict(list)
        for message in handled:
            at = (message["key"], message["n"])
            if at in first:
                repeats.append((at, first[at], message["by"]))
            else:
                first[at] = message["by"]
                order[message["key"]].append(message["n"])
        check(len(first) == self.sent, f"{len(first)} of {self.sent} messages were handled")
        for key, numbers in order.items():
            check(numbers == sorted(numbers), f"the order of {key} was not kept", numbers)
        wrong = [repeat for repeat in repeats if not repeated_of & {repeat[1], repeat[2]}]
        check(not wrong, f"repeats not of {sorted(repeated_of)}, first few:", wrong[:5])
        longest = max(self.watcher.longest_stalls().items(), key=lambda one: one[1])
        check(longest[1] <= stall,
              f"partition {longest[0]} stood still for {longest[1]:.2f} s, at most {stall:g} s are"
              " right")
        self.t.report(f"{self.sent} messages, {len(repeats)} repeated; the longest stall of a"
                      f" partition {longest[1]:.2f} s (session timeout {SESSION_TIMEOUT:g} s)")

    def _handled(self):
        self.folder.write("read.yaml", (
            "name: read\nsource: { local: { path: out.db, topic: out, group: r, until_end: true } }"
            "\nsink: { file: { path: handled.jsonl } }\n"))
        self.folder.run_pipeline("read.yaml")
        return [json.loads(line) for line in self.folder.lines("handled.jsonl")]


class Watcher:
    """Looks at the group's commits all the time, as somebody outside would."""

    def __init__(self, folder):
        self.folder, self.samples = folder, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(60)

    def _watch(self):
        while not self.ended.is_set():
            try:
                group = self.folder.group("q.db", "g")
            except Failed as failed:
                self.samples.append(failed)
                return
            partitions = {p["partition"]: (p["committed"], p["lag"]) for p in group["partitions"]}
            self.samples.append((time.monotonic(), partitions))
            self.ended.wait(0.1)

    def longest_stalls(self):
        """For each partition the longest time in which it had work and its commit didn't move."""
        check(len(self.samples) > 10, "the group was hardly watched")
        stalls, since = defaultdict(float), {}
        for sample in self.samples:
            if isinstance(sample, Failed):
                raise sample
            now, partitions = sample
            for partition, (committed, lag) in partitions.items():
                before = since.get(partition)
                if not lag or before is None or before[0] != committed:
                    since[partition] = (committed, now)
                stalls[partition] = max(stalls[partition], now - since[partition][1])
        return stalls
