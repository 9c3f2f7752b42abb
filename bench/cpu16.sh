#!/usr/bin/env bash
# Figures on a machine with many cores and no Go: carries binaries built with
#   CGO_ENABLED=0 go build -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -o bin/engine.test ./internal/engine   (and sched, sim)
# and prints short tables. Usage: bench/cpu16.sh [core|overhead|limit|scaling]...
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lscpu | grep -E '^(Model name|CPU\(s\)|Thread|L2|L3)' || true
uptime
for what in "${@:-core overhead limit scaling}"; do
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
		limit)
			# What one core does alone and with a process like it on every other
			# core: no scheduling, nothing shared but the machine. Scaling cannot
			# be better than the ratio.
			n=$(nproc)
			for job in "gemm --size 3072" "tropical --size 2048" "conv --batch 256" "merkle --leaves 8388608" "landscape --residues 190"; do
				one="bin/weft run $job --devices cpu/$n --max-devices 1 --repeat 5 --calibrate off --check=false --json"
				for copies in 1 "$n"; do
					for ((i = 0; i < copies; i++)); do $one >"$scratch/$i" & done
					wait
					cat "$scratch"/* | grep '"seconds"' | tr -dc '0-9.\n' | sort -g |
						awk -v job="$job" -v n="$copies" '{ t[NR] = $1 } END { printf "%-26s %2d at once: median %.0f ms\n", job, n, 1e3 * t[int((NR + 1) / 2)] }'
					rm -f "$scratch"/*
				done
			done
			;;
		scaling)
			# Strong scaling at sizes that take one core seconds.
			bin/weft bench scaling --devices "cpu/$(nproc)" --at-least 3s --only gemm,tropical,conv,merkle,landscape
			;;
		esac
	done
done
