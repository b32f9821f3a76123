"""What both benches do alike: their options, their groups of rows, and their place in the documents."""

import argparse
import pathlib


def parse(description, groups):
    """The options of the command line; `groups` are those that were asked for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--only", default=",".join(groups))
    options = parser.parse_args()
    options.groups = options.only.split(",")
    unknown = [group for group in options.groups if group not in groups]
    if unknown:
        parser.error(f"no such group: {unknown}; there are {list(groups)}")
    return options


def drive(run, groups, say):
    """Runs the groups that were asked for, in the order of `groups`."""
    for name, measure in groups.items():
        if name not in run.options.groups:
            continue
        say(f"--- {name}")
        try:
            measure(run)
        except Exception as why:  # One group that breaks must not take the others' numbers along.
            say(f"SKIPPED the rest of {name}: {type(why).__name__}: {why}")


def write_between(page, begin, end, text):
    """Puts `text` between two markers of a page below docs/."""
    page = pathlib.Path(page)
    content = page.read_text()
    if begin not in content or end not in content:
        raise SystemExit(f"{page} has no markers {begin}; the text is above")
    before, rest = content.split(begin, 1)
    page.write_text(before + begin + "\n\n" + text + "\n" + end + rest.split(end, 1)[1])
