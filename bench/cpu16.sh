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
			for job in "gemm --size 4096" "tropical --size 3392" "conv --batch 480" "merkle --leaves 15271424" "landscape --residues 228"; do
				for copies in 1 "$n"; do
					# shellcheck disable=SC2086
					for ((i = 0; i < copies; i++)); do
						bin/weft run $job --devices "cpu/$n" --max-devices 1 --repeat 4 --calibrate off --check=false --json >"$scratch/$copies.$i" &
					done
					wait
				done
				python3 - "$job" "$scratch" "$n" <<-'PY'
					import glob, json, sys
					from statistics import median
					def each(copies):  # the first run of a process has its memory made
					    return median(r["seconds"] for f in glob.glob(f"{sys.argv[2]}/{copies}.*") for r in json.load(open(f))["runs"][1:])
					one, all = each(1), each(sys.argv[3])
					print(f"{sys.argv[1]:26} alone {1e3*one:.0f} ms, {sys.argv[3]} at once {1e3*all:.0f} ms: {100*one/all:.1f} %")
				PY
				rm -f "$scratch"/*
			done
			;;
		scaling)
			# Strong scaling at sizes that take one core seconds.
			bin/weft bench scaling --devices "cpu/$(nproc)" --at-least 3s --counts "4,$(nproc)" --only gemm,tropical,conv,merkle,landscape
			;;
		esac
	done
done
