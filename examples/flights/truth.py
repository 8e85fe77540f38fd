#!/usr/bin/env python3
"""Checks what the flights pipeline wrote against the raw data.

    python3 examples/flights/truth.py

Works the right table and the right dead letters out again, from the raw files, without anything
of Tidegate, and compares every value of every row, its type included. Prints a report; exits with
0 if everything agrees, 1 if something differs, 2 if there is nothing to compare.
"""

import argparse
import glob
import gzip
import json
import sqlite3
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", default=str(HERE / "data" / "*.jsonl.gz"), metavar="GLOB",
        help="the raw files (default: data/*.jsonl.gz, beside this script)",
    )
    parser.add_argument("--db", default=str(HERE / "out" / "flights.db"), help="the database")
    parser.add_argument("--table", default="flights", help="its table (default: flights)")
    parser.add_argument("--dead", default=str(HERE / "out" / "dead.jsonl"), help="the dead letters")
    options = parser.parse_args()

    truth = Truth(options.data)
    print(
        f"raw data: {truth.read} flights = {truth.cancelled} cancelled"
        f" + {len(truth.dead)} without arrival + {len(truth.rows)} rows"
    )
    problems = compare_table(truth.rows, options.db, options.table)
    problems += compare_dead_letters(truth.dead, options.dead)
    print("everything agrees" if problems == 0 else f"WRONG: {problems} problems")
    sys.exit(0 if problems == 0 else 1)


class Truth:
    """What has to come out, by the words of README.md."""

    def __init__(self, pattern):
        self.read = self.cancelled = 0
        self.rows = {}
        self.dead = []
        paths = sorted(glob.glob(pattern))
        if not paths:
            give_up(f"no raw data: no file matches {pattern}")
        for path in paths:
            with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
                for line in file:
                    self.add(line.rstrip("\n"))

    def add(self, line):
        raw = json.loads(line)
        self.read += 1
        if raw["dep_time"] is None:
            self.cancelled += 1
        elif raw["arr_time"] is None:
            self.dead.append(line)
        else:
            row = row_of(raw)
            assert row["id"] not in self.rows, f"{row['id']} is not unique"
            self.rows[row["id"]] = row


def row_of(raw):
    scheduled_hour = datetime.strptime(raw["time_hour"], "%Y-%m-%dT%H:%M:%SZ")
    scheduled = scheduled_hour + timedelta(minutes=raw["minute"])
    delay = raw["arr_delay"]
    row = {
        "id": f"{raw['carrier']}{raw['flight']}-{raw['origin']}-{raw['time_hour']}",
        "carrier": raw["carrier"],
        "flight": raw["flight"],
        "tailnum": raw["tailnum"],
        "origin": raw["origin"],
        "dest": raw["dest"],
        "route": raw["origin"] + "-" + raw["dest"],
        "scheduled_at": scheduled.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "dep_delay": raw["dep_delay"],
        "arr_delay": delay,
        "diverted": 1,
        "late": None,
        "delay_bucket": None,
        "made_up": None,
        "distance": raw["distance"],
        "air_time": raw["air_time"],
        "speed_mph": None,
    }
    if delay is not None:
        limits = [(0, "early"), (15, "on time"), (60, "late"), (float("inf"), "very late")]
        row["diverted"] = 0
        row["late"] = int(delay >= 15)
        row["delay_bucket"] = next(name for limit, name in limits if delay < limit)
        row["made_up"] = raw["dep_delay"] - delay
    if raw["air_time"] is not None:
        # Tenths of a mile per hour, rounded half up, in whole numbers.
        tenths = (2 * 600 * raw["distance"] + raw["air_time"]) // (2 * raw["air_time"])
        row["speed_mph"] = tenths / 10
    return row


def compare_table(expected, path, table):
    """Prints how the table differs, and returns in how many ways."""
    if not Path(path).is_file():
        give_up(f"there is no database {path}: run the pipeline first")
    quoted = '"' + table.replace('"', '""') + '"'
    try:
        connection = sqlite3.connect(Path(path).resolve().as_uri() + "?mode=ro", uri=True)
        cursor = connection.execute(f"SELECT * FROM {quoted}")
        columns = [column[0] for column in cursor.description]
        found = [dict(zip(columns, values)) for values in cursor]
        connection.close()
    except sqlite3.Error as error:
        give_up(f"table {table} of {path} can't be read: {error}")

    wanted = list(next(iter(expected.values()))) if expected else columns
    if sorted(columns) != sorted(wanted):
        print(f"table {table}: columns {columns}, expected {wanted}")
        return 1
    times = Counter(row["id"] for row in found)
    by_id = {row["id"]: row for row in found}
    missing = [id for id in expected if id not in by_id]
    unexpected = [id for id in by_id if id not in expected]
    repeated = [id for id, count in times.items() if count > 1]
    differing = []
    for id, row in expected.items():
        for column, value in row.items():
            actual = by_id.get(id, row)[column]
            if (type(actual), actual) != (type(value), value):
                differing.append(f"{id}: {column} is {actual!r}, expected {value!r}")
    print(f"table {table}: {len(found)} rows, expected {len(expected)}")
    return report(
        {
            "rows missing": missing,
            "rows unexpected": unexpected,
            "rows repeated": repeated,
            "values differing": differing,
        }
    )


def compare_dead_letters(expected, path):
    """Prints how the dead letters differ, and returns in how many ways.

    A message that was in flight when the process was killed is handled again, so a dead letter
    may come twice, and is only mentioned then.
    """
    lines = []
    if Path(path).is_file():
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = [line for line in file.read().split("\n") if line]
    payloads, unreadable = [], []
    for number, line in enumerate(lines, 1):
        try:
            letter = json.loads(line)
            payloads.append(letter["payload"]["text"])
            if "departed but has no arrival" not in letter["error"]:
                unreadable.append(f"line {number}: another error: {letter['error']}")
        except (ValueError, KeyError, TypeError) as error:
            unreadable.append(f"line {number}: {error!r}")
    times = Counter(payloads)
    repeats = len(payloads) - len(times)
    known = set(expected)
    note = f", {repeats} of them repeats" if repeats else ""
    print(f"dead letters: {len(payloads)}{note}, expected {len(expected)}")
    return report(
        {
            "dead letters missing": [line for line in expected if line not in times],
            "dead letters unexpected": [line for line in times if line not in known],
            "dead letters that can't be read": unreadable,
        }
    )


def report(problems):
    for what, which in problems.items():
        if which:
            print(f"  {len(which)} {what}:")
            for one in which[:SHOWN]:
                print(f"    {one}")
            if len(which) > SHOWN:
                print(f"    … and {len(which) - SHOWN} more")
    return sum(len(which) for which in problems.values())


def give_up(message):
    print(f"nothing to compare: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
