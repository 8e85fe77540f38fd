"""Kills, starves, stalls and misfeeds the `tidegate` command, and checks that nothing is lost.

    python3 tests/chaos --binary target/debug/tidegate
    python3 tests/chaos --binary target/release/tidegate --long
    python3 tests/chaos --binary target/debug/tidegate --seed 7 kills
    python3 tests/chaos --list

The short form takes a few minutes, the long one has the full numbers (twenty kills, a stall of a
minute). Whatever is random comes from the seed, which is printed. Needs Linux and nothing beside
Python; scenarios that need a right this user lacks say so and count as skipped.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import bad_input
import disks
import groups
import idle
import kills
import locks
import rights
import signals
import stalls
from harness import Failed, Folder, Scenario

MODULES = [kills, groups, stalls, signals, disks, locks, rights, bad_input, idle]


def main():
    options = parse()
    chosen = [(f"{module.__name__}.{scenario.__name__}", scenario)
              for module in MODULES for scenario in module.SCENARIOS]
    if options.only:
        chosen = [one for one in chosen if any(text in one[0] for text in options.only)]
    if options.list:
        print("\n".join(name for name, _ in chosen))
        return 0
    if not chosen:
        print(f"no scenario has one of {options.only} in its name", file=sys.stderr)
        return 2
    print(f"{options.binary}, seed {options.seed}, {'long' if options.long else 'short'} form,"
          f" {options.jobs} at a time")
    base = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    base.chmod(0o755)  # some scenarios run as a user without rights
    binary = base / "tidegate"
    shutil.copy(options.binary, binary)
    runner = Runner(options, base, binary)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda one: runner.run(*one), chosen))
    binary.unlink()
    failed = results.count("FAIL")
    if failed == 0:
        shutil.rmtree(base)
    if "skip" in results:
        print(f"{results.count('skip')} skipped")
    print(f"{results.count('ok')} passed, {failed} failed")
    return 1 if failed else 0


def parse():
    parser = argparse.ArgumentParser(prog="tests/chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, help="the command to test")
    parser.add_argument("--long", action="store_true", help="the full numbers")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="how often a job is killed (default 4, in the long form 20)")
    parser.add_argument("--seed", type=int, default=None, help="default: another each time")
    parser.add_argument("--jobs", type=int, default=2, metavar="N",
                        help="scenarios at a time (default 2)")
    parser.add_argument("--messages", action="store_true",
                        help="show what the command said, as an operator reads it")
    parser.add_argument("--list", action="store_true", help="only print the scenarios' names")
    parser.add_argument("only", nargs="*", metavar="TEXT",
                        help="only scenarios with one of these in their name")
    options = parser.parse_args()
    if options.binary is None and not options.list:
        parser.error("--binary is needed")
    if options.binary and not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not there: build it first")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    if options.rounds is None:
        options.rounds = 20 if options.long else 4
    return options


class Runner:
    """Runs scenarios, each in a folder of its own, and prints what came of them."""

    def __init__(self, options, base, binary):
        self.options, self.base, self.binary = options, base, binary
        self.printing = threading.Lock()

    def run(self, name, scenario):
        path = self.base / name
        path.mkdir()
        seeded = random.Random(f"{self.options.seed} {name}")
        context = Scenario(Folder(str(self.binary), path), self.options, seeded)
        begin = time.monotonic()
        try:
            scenario(context)
            problem = None
        except Failed as failed:
            problem = str(failed)
        except Exception:  # a scenario that is wrong itself has failed too
            problem = traceback.format_exc()
        seconds = time.monotonic() - begin
        if problem is None:
            shutil.rmtree(path)
        result = "FAIL" if problem else "skip" if context.skipped else "ok"
        with self.printing:
            print(f"{result:4} {name}: {scenario.__doc__.strip()} ({seconds:.1f} s)")
            self.show_details(name, context, problem)
        return result

    def show_details(self, name, context, problem):
        if context.skipped:
            print(f"       skipped: {context.skipped}")
        for figure in context.figures:
            print(f"       {figure}")
        if problem is not None:
            print("     " + problem.replace("\n", "\n     "))
            print(f"     its folder is kept: {self.base / name}")
            long = " --long" if self.options.long else ""
            print(f"     again: python3 tests/chaos --binary {self.options.binary}{long}"
                  f" --rounds {self.options.rounds} --seed {self.options.seed} {name}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
