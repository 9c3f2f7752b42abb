#!/usr/bin/env python3
"""Measures how well weft fills two devices with foldings: chains of one length and of mixed lengths.

    go build -o weft ./cmd/weft && bench/fold_mixed.py ./weft

The efficiency of two devices is the time that the parts take on one core, one after another, of twice the
time that they take together on cpu/2. Each time is the least of three, in turns, of the rounds after the
first one of a part and of all rounds together: 50 seconds in all on two cores that are idle.
"""

import json
import subprocess
import sys

CASES = [  # structures, replicas of each, steps, bar in percent
    ("1CRN", 16, 20_000, 95),
    ("1CRN,BPTI,1UBI", 16, 10_000, 90),
    ("1CRN,BPTI,1UBI", 8, 20_000, 90),
]


def seconds(weft, cores, structures, replicas, steps):
    done = subprocess.run(["taskset", "-c", f"0-{cores - 1}", weft, "run", "fold", "--devices", f"cpu/{cores}", "--structure", structures, "--replicas", str(replicas),
                           "--steps", str(steps), "--frame", "1000", "--check=false", "--calibrate=false", "--json"], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    return report["seconds"] if "seconds" in report else steps * replicas / report["steps_per_second"]


def main():
    weft = sys.argv[1]
    for structures, replicas, steps, bar in CASES:
        one, two = {}, 1e9
        for _ in range(3):
            for s in structures.split(","):
                one[s] = min(one.get(s, 1e9), seconds(weft, 1, s, replicas, steps))
            two = min(two, seconds(weft, 2, structures, replicas, steps))
        share = 100 * sum(one.values()) / 2 / two
        print(f"{structures}, {replicas} replicas of {steps} steps: {' + '.join(f'{t:.2f}' for t in one.values())} s on one core, {two:.2f} s on two: {share:.1f} %, {'meets' if share >= bar else 'below'} {bar} %", flush=True)


main()
