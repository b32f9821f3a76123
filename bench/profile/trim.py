"""Makes a profile small enough for the repository: `llvm-profdata merge --text` in, the same out.

A function that was called is kept. One that was not is worth keeping where it is large: the compiler then makes it small instead of fast, and puts it
where it is in nobody's way. There are tens of thousands of small ones, and of them nothing is kept, so they are compiled as without a profile.
"""

import sys

# Of a function that was never called: the fewest branches that are counted in it for it to be kept. With 1 the profile has 21 MB, with 16 9 MB.
COUNTERS_MIN = 16


def is_kept(record):
    """`record`: the lines of a function, which are its name, a hash, the number of its counters, and those."""
    lines = [line for line in record.split("\n") if line and line[0] not in "#:"]
    if len(lines) < 4:
        return True
    counters = lines[3:3 + int(lines[2])]
    return len(counters) >= COUNTERS_MIN or any(counter != "0" for counter in counters)


sys.stdout.write("\n\n".join(filter(is_kept, sys.stdin.read().split("\n\n"))))
