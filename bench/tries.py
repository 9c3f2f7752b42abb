#!/usr/bin/env python3
"""Compares what weft plan predicts for this machine from its trials with what is then measured.

    bench/tries.py [WEFT [WORKLOAD...]]

For workloads that no recording has, at two sizes each, weft plan --local predicts one run and its
90 % interval, and weft run takes the median of five. A table says whether the interval holds it.
It needs a binary (bin/weft) and takes about two minutes for all of them.
"""
import json
import statistics
import subprocess
import sys

WEFT = sys.argv[1] if len(sys.argv) > 1 else "bin/weft"
FOLD = ["fold", "--structure", "BPTI", "--replicas", "16"]
JOBS = [
    ["relativity", "--count", "512"], ["relativity", "--count", "4096"],
    ["enumerative", "--n", "20"], ["enumerative", "--n", "24"],
    ["clifford", "--count", "100000"], ["clifford", "--count", "4000000"],
    ["phase", "--residues", "256"], ["phase", "--residues", "768"],
    ["elastic", "--residues", "256"], ["elastic", "--residues", "1024"],
    FOLD + ["--steps", "20000"], FOLD + ["--steps", "100000"],
]
if sys.argv[2:]:
    JOBS = [j for j in JOBS if j[0] in sys.argv[2:]]


def output(*args):
    return json.loads(subprocess.run([WEFT, *args, "--json"], check=True, capture_output=True, text=True).stdout)


def measured(job):
    if job[0] == "fold":
        rep = output("run", *job, "--temperature", "0.6-1.1", "--check=false")
        return 16 * int(job[-1]) / rep["steps_per_second"]
    runs = output("run", *job, "--repeat", "5", "--check=false")["runs"]
    return statistics.median(r["seconds"] for r in runs)


held = 0
print(f"{'job':44} {'rates alone':>12} {'predicted':>10} {'from':>9} {'to':>9} {'measured':>9}")
for job in JOBS:
    before = output("plan", *job, "--local", "--try=false")["best"]["estimate"]
    e = output("plan", *job, "--local")["best"]["estimate"]
    took = measured(job)
    ok = e["Low"] <= took <= e["High"]
    held += ok
    print(f"{' '.join(job):44} {before['Median']:12.4g} {e['Median']:10.4g} {e['Low']:9.4g} {e['High']:9.4g} {took:9.4g} {'' if ok else 'not held'}", flush=True)
print(f"{held} of {len(JOBS)} are held")
