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

echo "command: RUNS=$runs bench/core.sh"
echo "commit: $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ', with changes')"
echo "go: $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"
echo "machine: $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo

measure ./internal/engine '^Benchmark(DAG|Chain|Independent)$' 1s
measure ./sched '^BenchmarkPlace$/^finish$' 1s
measure ./sim '^Benchmark(Sim)?Million$' 1x
measure ./trace '^BenchmarkRecord$' 1s

# Where a benchmark reports a time for each task that is what counts, else its
# time for each operation.
echo
awk '
	function figure(x) { return sprintf(x < 100 ? "%.3f" : "%.0f", x) }
	/^Benchmark/ {
		name = $1
		sub(/-[0-9]+$/, "", name)
		sub(/^Benchmark/, "", name)
		value = ""
		for (i = 3; i < NF; i += 2) {
			if ($(i + 1) ~ /^n?s\/op$/ && value == "" || $(i + 1) == "ns/task") {
				value = $i
				unit[name] = $(i + 1)
			}
			if ($(i + 1) == "allocs/op") allocs[name] = $i
		}
		if (!(name in n)) order[++names] = name
		v[name, ++n[name]] = value + 0
	}
	END {
		if (names == 0) {
			print "no benchmark ran" > "/dev/stderr"
			exit 1
		}
		printf "%-28s %14s %14s  %-8s %10s %5s\n", "benchmark", "best", "median", "unit", "allocs/op", "runs"
		for (k = 1; k <= names; k++) {
			name = order[k]
			m = n[name]
			for (i = 2; i <= m; i++)
				for (j = i; j > 1 && v[name, j] < v[name, j-1]; j--) {
					t = v[name, j]; v[name, j] = v[name, j-1]; v[name, j-1] = t
				}
			median = m % 2 ? v[name, (m+1)/2] : (v[name, m/2] + v[name, m/2+1]) / 2
			printf "%-28s %14s %14s  %-8s %10d %5d\n", name, figure(v[name, 1]), figure(median), unit[name], allocs[name], m
		}
	}' "$raw"
