#!/usr/bin/env bash
# What the core costs: every figure ten times, best and median.
#
#   bench/core.sh            all of it, some minutes on a quiet machine
#   RUNS=1 bench/core.sh     a quick look
#   bench/core.sh > bench/core-$(git rev-parse --short HEAD).txt
#
# The raw runs come first, as benchstat reads them; the table comes last.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh

runs=${RUNS:-10}
raw=$(mktemp)
trap 'rm -f "$raw" "$raw.part"' EXIT

# Package, benchmarks, and how long one run of each lasts. A benchmark that is
# not there passes too, hence the second look.
measure() {
	go test "$1" -run '^$' -bench "$2" -benchtime "$3" -count "$runs" -benchmem |
		tee "$raw.part"
	grep -q '^Benchmark' "$raw.part" || { echo "core.sh: $1 has no $2" >&2; exit 1; }
	cat "$raw.part" >>"$raw"
}

provenance "RUNS=$runs bench/core.sh"

measure ./internal/engine '^Benchmark(DAG|Chain|Independent)$' 1s
measure ./sched '^BenchmarkPlace$/^finish$' 1s
measure ./experimental/sim '^Benchmark(Sim)?Million$' 1x
measure ./trace '^BenchmarkRecord$' 1s

benchmarks "$raw"
