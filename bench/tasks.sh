#!/usr/bin/env bash
# What a task that is a Go function costs, beside goroutines and, where g++ and libtbb-dev
# are installed, beside oneTBB: in turns, every figure ten times, best and median.
#
#   bench/tasks.sh
#   RUNS=3 bench/tasks.sh     a quick look
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "command: RUNS=$runs bench/tasks.sh"
echo "commit: $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ', with changes')"
echo "go: $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"
echo "machine: $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo

go test -c -o "$work/weft.test" .
peer=:
if echo '#include <tbb/task_group.h>' | g++ -E -xc++ - >/dev/null 2>&1; then
	g++ -O2 -o "$work/tbb" bench/tbb.cpp -ltbb
	peer="$work/tbb $(nproc) 1"
else
	echo "tasks.sh: without g++ and libtbb-dev there is no peer in C++" >&2
fi
for ((i = 0; i < runs; i++)); do
	"$work/weft.test" -test.run '^$' -test.bench '^BenchmarkTasks' -test.benchtime 1s -test.benchmem | grep '^Benchmark'
	$peer
done | tee "$work/raw"

echo
awk '
	{
		name = $1
		sub(/-[0-9]+$/, "", name)
		sub(/^Benchmark/, "", name)
		if (!(name in n)) order[++names] = name
		v[name, ++n[name]] = $3 + 0
		for (i = 5; i < NF; i += 2) if ($(i + 1) == "allocs/op") allocs[name] = $i
	}
	END {
		if (names == 0) exit 1
		printf "%-28s %14s %14s  %-6s %10s\n", "benchmark", "best", "median", "unit", "allocs/op"
		for (k = 1; k <= names; k++) {
			name = order[k]
			m = n[name]
			for (i = 2; i <= m; i++)
				for (j = i; j > 1 && v[name, j] < v[name, j-1]; j--) {
					t = v[name, j]; v[name, j] = v[name, j-1]; v[name, j-1] = t
				}
			median = m % 2 ? v[name, (m+1)/2] : (v[name, m/2] + v[name, m/2+1]) / 2
			printf "%-28s %14.0f %14.0f  %-6s %10s\n", name, v[name, 1], median, "ns/op", allocs[name]
		}
	}' "$work/raw"
