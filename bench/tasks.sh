#!/usr/bin/env bash
# What a task that is a Go function costs, beside goroutines and, where g++ and libtbb-dev
# are installed, beside oneTBB: in turns, every figure ten times, best and median.
#
#   bench/tasks.sh
#   RUNS=3 bench/tasks.sh     a quick look
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh

runs=${RUNS:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

provenance "RUNS=$runs bench/tasks.sh"

go test -c -o "$work/task.test" ./task
peer=:
if echo '#include <tbb/task_group.h>' | g++ -E -xc++ - >/dev/null 2>&1; then
	g++ -O2 -o "$work/tbb" bench/tbb.cpp -ltbb
	peer="$work/tbb $(nproc) 1"
else
	echo "tasks.sh: without g++ and libtbb-dev there is no peer in C++" >&2
fi
for ((i = 0; i < runs; i++)); do
	"$work/task.test" -test.run '^$' -test.bench '^BenchmarkTasks' -test.benchtime 1s -test.benchmem | grep '^Benchmark'
	$peer
done | tee "$work/raw"

benchmarks "$work/raw"
