#!/usr/bin/env bash
# Figures on a machine with many cores and no Go: carries binaries built with
#   CGO_ENABLED=0 go build -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -o bin/engine.test ./internal/engine   (and sched, sim)
# and prints short tables. Usage: bench/cpu16.sh [core|overhead|scaling|peer]...; peer
# takes PyTorch.
set -euo pipefail
cd "$(dirname "$0")/.."
lscpu | grep -E '^(Model name|CPU\(s\)|Thread|L2|L3)' || true
uptime
for what in "${@:-core overhead scaling}"; do
	for w in $what; do
		echo "== $w"
		case $w in
		core)
			(cd internal/engine && ../../bin/engine.test -test.run XXX -test.bench 'DAG|Chain|Independent' -test.benchtime 20x -test.count 3 | grep ns/task)
			(cd sched && ../bin/sched.test -test.run XXX -test.bench Place -test.count 3 | grep Benchmark)
			(cd sim && ../bin/sim.test -test.run XXX -test.bench SimMillion -test.benchtime 1x -test.count 3 | grep Benchmark)
			;;
		overhead)
			bin/weft bench overhead --repeat 20
			bin/weft bench overhead --repeat 20 --devices cpu/4
			;;
		scaling)
			# Strong scaling at sizes that take seconds, beside what the cores reach
			# that share no work: what this machine calls cores may not be.
			bin/weft bench scaling --devices "cpu/$(nproc)" --at-least 3s --limit --counts "4,$(nproc)" --only gemm,tropical,conv,merkle,landscape
			;;
		peer)
			MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 bench/cores.py
			bin/weft bench scaling --devices "cpu/$(nproc)" --at-least 3s --counts "$(nproc)" --only gemm,conv
			;;
		esac
	done
done
