"""Input that isn't as it should be: a message that names the file and the line, and nothing lost.

Every case runs twice: once with the bad input, and once more when it was repaired. A good file
comes before the bad one and another one behind it.
"""

import contextlib
import gzip
import json
import os
import threading

from harness import as_nobody, check

PIPELINE = """
name: bad input
source: {{ file: {{ path: '{path}', format: {format}{options} }} }}
steps: [ {{ jq: '{jq}' }} ]
sink: {{ sqlite: {{ path: out.db, table: t, key: [n], create: true, columns: {{ n: integer }} }} }}
commit: {{ every: 20ms }}
store: {{ sqlite: {{ path: state.db }} }}
{settings}
"""

BEFORE, BEHIND = range(0, 100), range(200, 300)
GOOD = b'{"n":100}\n{"n":101}\n{"n":102}\n'
COMPRESSED = gzip.compress(b"".join(b'{"n":%d}\n' % n for n in range(100, 103)) + b"\n" * 5000, 0)
DEAD = "dead_letters: { file: { path: dead.jsonl } }"


class Case:
    """A folder with three files in a row, of which the middle one is to be made bad."""

    def __init__(self, t, name):
        self.folder = t.folder.inside(name)
        self.folder.path("in").mkdir()
        self.t, self.bad = t, "in/b.jsonl"
        self.folder.write("in/a.jsonl", lines(BEFORE))
        self.folder.write("in/c.jsonl", lines(BEHIND))
        self.pipeline()

    def pipeline(self, path="in/*", format="json", options="", jq=".", settings=""):
        self.folder.write("p.yaml", PIPELINE.format(
            path=path, format=format, options=options, jq=jq, settings=settings))

    def make(self, content, name=None):
        self.bad = f"in/{name}" if name else self.bad
        self.folder.write(self.bad, content)

    def run(self, **options):
        return self.folder.run("run", "p.yaml", **options)

    def refuse(self, code, *patterns, **options):
        ended = self.run(**options).expect(code, *patterns)
        self.t.said(ended)

    def repaired(self, *numbers, **options):
        """Runs to the end; these numbers have to be there, beside those of the good files."""
        ended = self.run(**options).expect(0)
        rows = {n for (n,) in self.folder.rows("out.db", "SELECT n FROM t")}
        expected = {*BEFORE, *BEHIND, *(numbers or (100, 101, 102))}
        check(rows == expected, f"missing {sorted(expected - rows)[:9]}, unexpected"
              f" {sorted(rows - expected)[:9]}", ended)


def lines(numbers):
    return "".join(f'{{"n":{n}}}\n' for n in numbers)


# Files that aren't there, aren't files, or can't be read.

def missing(t):
    """a file that isn't there, and a pattern that matches nothing"""
    for name, path in (("file", "in/none.jsonl"), ("pattern", "in/none-*.jsonl")):
        case = Case(t, name)
        case.pipeline(path)
        case.refuse(1, path.replace("*", r"\*"))
        case.make(GOOD)
        case.pipeline()
        case.repaired()


def directory(t):
    """a directory in place of a file"""
    case = Case(t, "directory")
    case.pipeline("in")
    case.refuse(1, "in.*directory")
    case.make(GOOD)
    case.pipeline()
    case.repaired()


def forbidden(t):
    """a file that may not be read"""
    case = Case(t, "forbidden")
    case.make(GOOD)
    case.folder.give_to(as_nobody())
    case.folder.path(case.bad).chmod(0)
    case.refuse(1, "in/b.jsonl", "Permission denied", user=as_nobody())
    case.folder.path(case.bad).chmod(0o644)
    case.repaired(user=as_nobody())


# Damaged files.

def truncated_gzip(t):
    """a gzip file that ends too early, at any place in it"""
    for cut in (3, 30, len(COMPRESSED) // 2, len(COMPRESSED) - 1):
        case = Case(t, f"cut-{cut}")
        case.make(COMPRESSED[:cut], "b.jsonl.gz")
        case.refuse(1, r"in/b\.jsonl\.gz")
        case.make(COMPRESSED)
        case.repaired()


def damaged_gzip(t):
    """a gzip file with a changed byte, one that is none, and one with rubbish behind it"""
    middle = len(COMPRESSED) // 2
    changed = COMPRESSED[:middle] + b"\x01" + COMPRESSED[middle + 1:]
    for name, content in (("changed", changed), ("none", GOOD), ("rubbish", COMPRESSED + b"xyz")):
        case = Case(t, name)
        case.make(content, "b.jsonl.gz")
        case.refuse(1, r"in/b\.jsonl\.gz")
        case.make(COMPRESSED)
        case.repaired()


# Odd files that are all right.

def odd_but_good(t):
    """empty files, CRLF, a byte-order mark, blank lines, no line break at the end"""
    for name, content, numbers in (
        ("empty", b"", (0,)),
        ("blank", b"\n \n\n", (0,)),
        ("crlf", GOOD.replace(b"\n", b"\r\n"), (100, 101, 102)),
        ("mark", b"\xef\xbb\xbf" + GOOD, (100, 101, 102)),
        ("only-a-mark", b"\xef\xbb\xbf", (0,)),
        ("unended", GOOD[:-1], (100, 101, 102)),
        ("gaps", GOOD.replace(b"\n", b"\n\n"), (100, 101, 102)),
        ("members", gzip.compress(GOOD[:10]) + gzip.compress(GOOD[10:]), (100, 101, 102)),
    ):
        case = Case(t, name)
        case.make(content)
        case.repaired(*numbers)
        # Nothing is left for a second run.
        check(case.run().expect(0).counts["read"] == 0, f"{name}: it is read twice")


# Lines that aren't right. Without dead letters they stop the run, with them they are put aside.

def wrong_lines(t):
    """lines that aren't JSON, or not UTF-8, with their place; alone and into the dead letters"""
    for name, line, place in (
        ("no-json", b"nonsense", "2:1"),
        ("cut", b'{"n":101', "2:9"),
        ("invalid-utf-8", b'{"n":101,"x":"\xff\xfe"}', "2:15"),
        ("zero-bytes", b"\0\0\0", "2:1"),
        ("two-values", b'{"n":1} {"n":2}', "2:9"),
    ):
        bad = GOOD.replace(b'{"n":101}', line)
        case = Case(t, name)
        case.make(bad)
        case.refuse(1, rf"in/b\.jsonl:{place}\b")
        case.make(GOOD)
        case.repaired()

        aside = Case(t, f"{name}-aside")
        aside.pipeline(settings=DEAD)
        aside.make(bad)
        aside.repaired(100, 102)
        [letter] = map(json.loads, aside.folder.lines("dead.jsonl"))
        check(f"in/b.jsonl:{place}" in letter["error"], "the dead letter doesn't say where", letter)
        text = letter["payload"].get("text")
        if name == "invalid-utf-8":
            check(text is None, "bytes that are no text must not be made one", letter)
        else:
            check(text == line.decode(), "the dead letter is not the line", letter)


def wrong_text(t):
    """lines of a text file that aren't UTF-8, with their place"""
    case = Case(t, "text")
    case.pipeline(format="lines", jq="fromjson")
    case.make(GOOD.replace(b"101}", b"10\xff}"))
    case.refuse(1, r"in/b\.jsonl:2\b", "UTF-8")
    case.make(GOOD)
    case.repaired()


def wrong_rows(t):
    """rows of a CSV file with too many fields, or a quote that isn't closed, with their place"""
    good = "n,text\n100,a\n101,b\n102,c\n"
    for name, bad, place in (
        ("fields", "n,text\n100,a\n101,b,x\n102,c\n", "3"),
        ("quote", 'n,text\n100,a\n101,"b\n102,c\n', "3"),
        ("columns", "n,n\n100,a\n101,b\n102,c\n", "1"),
    ):
        case = Case(t, name)
        for letter, numbers in (("a", BEFORE), ("c", BEHIND)):
            rows = "".join(f"{n},x\n" for n in numbers)
            case.folder.write(f"in/{letter}.jsonl", f"n,text\n{rows}")
        case.pipeline(format="csv", jq="{n: (.n | tonumber)}")
        case.make(bad)
        case.refuse(1, rf"in/b\.jsonl:{place}\b")
        case.make(good)
        case.repaired()


def long_lines(t):
    """a line of 100 MB: refused by default with little memory, and handled where it is allowed"""
    size = 100_000_000
    case = Case(t, "default")
    with open(case.folder.path(case.bad), "wb") as file:
        file.write(GOOD[:10])
        write_long_line(file, size)
        file.write(GOOD[20:])
    with peak_memory(t, case, "refused") as running:
        running.wait().expect(1, r"in/b\.jsonl:2\b", "max_line")
    allowed = Case(t, "allowed")
    os.rename(case.folder.path(case.bad), allowed.folder.path(allowed.bad))
    allowed.pipeline(options=", max_line: 200000000", jq="{n}")
    with peak_memory(t, allowed, "handled", most=size * 4) as running:
        running.wait().expect(0)
    allowed.repaired()
    case.make(GOOD)
    case.repaired()


def write_long_line(file, size):
    file.write(b'{"n":101,"text":"')
    for _ in range(size // 1_000_000):
        file.write(b"x" * 1_000_000)
    file.write(b'"}\n')


@contextlib.contextmanager
def peak_memory(t, case, what, most=64 << 20):
    """Watches the memory of a run."""
    with case.folder.start("run", "p.yaml") as running:
        peak, ended = [0], threading.Event()

        def watch():
            while not ended.wait(0.005) and running.is_running():
                with contextlib.suppress(OSError, TypeError):
                    peak[0] = max(peak[0], running.peak_memory())
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        yield running
        ended.set()
        thread.join()
    t.report(f"a line of 100 MB {what}: at most {peak[0] / (1 << 20):.0f} MiB")
    check(peak[0] <= most, f"{what}: {peak[0]:,} bytes of memory, at most {most:,} are right")


# Programs that aren't right.

def wrong_programs(t):
    """a jq program that doesn't compile: its place is shown, and nothing is touched"""
    for name, program, place in (
        ("bracket", "select(.n == 1", "1:15"),
        ("function", ".n | nonesuch(1)", "1:6"),
        ("variable", "$none", "1:1"),
    ):
        case = Case(t, name)
        case.make(GOOD)
        case.pipeline(jq=program)
        before = sorted(os.listdir(case.folder.root))
        case.folder.run("check", "p.yaml").expect(2, rf"p\.yaml:4: steps\[0\]\.jq: at {place} ")
        ended = case.run().expect(2, rf"p\.yaml:4: steps\[0\]\.jq: at {place} ", r"\^")
        t.said(ended)
        made = [f for f in os.listdir(case.folder.root) if not f.startswith("run-")]
        check([f for f in before if not f.startswith("run-")] == sorted(made),
              "a pipeline that isn't valid must not make files", made)
        case.pipeline()
        case.repaired()


def failing_programs(t):
    """a jq program that fails on one record: the step and the record are named"""
    case = Case(t, "stopped")
    case.make(GOOD)
    failing = 'if .n == 101 then error("no \\(.n)") else . end'
    case.pipeline(jq=failing)
    case.refuse(1, r"steps\[0\]\.jq", r"in/b\.jsonl@2", "no 101")
    case.pipeline()
    case.repaired()
    aside = Case(t, "aside")
    aside.make(GOOD)
    aside.pipeline(jq=failing, settings=DEAD)
    aside.repaired(100, 102)
    [letter] = map(json.loads, aside.folder.lines("dead.jsonl"))
    check(letter["payload"]["text"] == '{"n":101}' and "no 101" in letter["error"],
          "the dead letter isn't right", letter)


SCENARIOS = [missing, directory, forbidden, truncated_gzip, damaged_gzip, odd_but_good, wrong_lines,
             wrong_text, wrong_rows, long_lines, wrong_programs, failing_programs]
