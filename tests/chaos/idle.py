"""Who has nothing to do takes no time on the processor."""

import time

from harness import check, wait_until

SECONDS = 10
BUSY_AT_MOST = 0.01


def following_and_waiting(t):
    """a follower of a file and a consumer of a topic use less than 1 % of a processor when idle"""
    t.folder.write("in.jsonl", '{"n":1}\n')
    t.folder.run("produce", "--db", "q.db", "--topic", "t", "in.jsonl").expect(0)
    sources = {
        "follow": "file: { path: in.jsonl, follow: true }",
        "pattern": "file: { path: '*.jsonl', follow: true }",
        "consumer": "local: { path: q.db, topic: t, group: g }",
    }
    running = {}
    try:
        for name, source in sources.items():
            t.folder.write(f"{name}.yaml", f"name: {name}\nsource: {{ {source} }}\n"
                           f"sink: {{ file: {{ path: {name}.out }} }}\ncommit: {{ every: 100ms }}\n"
                           + ("" if name == "consumer" else
                              f"store: {{ sqlite: {{ path: {name}.db }} }}\n"))
            running[name] = t.folder.start("run", f"{name}.yaml")
        for name in running:
            wait_until(lambda name=name: t.folder.lines(f"{name}.out"), f"{name} has written")
        begin = {name: started.cpu_seconds() for name, started in running.items()}
        time.sleep(SECONDS)
        for name, started in running.items():
            check(started.is_running(), f"{name} has ended", started.log())
            share = (started.cpu_seconds() - begin[name]) / SECONDS
            t.report(f"{name}: {share:.2%}")
            check(share < BUSY_AT_MOST, f"{name} takes {share:.2%} of a processor")
        # They are idle, not dead.
        t.folder.append("in.jsonl", '{"n":2}\n')
        t.folder.write("more", '{"n":2}\n')
        t.folder.run("produce", "--db", "q.db", "--topic", "t", "more").expect(0)
        for name in running:
            wait_until(lambda name=name: len(t.folder.lines(f"{name}.out")) == 2,
                       f"{name} has written what came later")
    finally:
        for started in running.values():
            started.kill()


SCENARIOS = [following_and_waiting]
