#!/usr/bin/env bash
# Figures on a machine with many cores and no Go: carries binaries built with
#   CGO_ENABLED=0 go build -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -o bin/engine.test ./internal/engine   (and sched, sim)
# and prints short tables. Usage: bench/cpu16.sh [core|overhead|limit|busy|scaling]...
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
		busy)
			# Where the time goes with all cores: how busy devices were in the last
			# run, and how much longer they computed, together, than one alone.
			n=$(nproc)
			for job in "gemm --size 5184" "tropical --size 4288" "conv --batch 960" "merkle --leaves 30542912" "landscape --residues 255"; do
				for devices in 1 "$n"; do
					# shellcheck disable=SC2086
					bin/weft run $job --devices "cpu/$n" --max-devices "$devices" --repeat 5 --check=false --json >"$scratch/$devices"
				done
				python3 - "$job" "$scratch/1" "$scratch/$n" <<-'PY'
					import json, sys
					one, all = (json.load(open(f)) for f in sys.argv[2:])
					alone = min(r["seconds"] for r in one["runs"])
					best = min(r["seconds"] for r in all["runs"])
					last, devs = all["runs"][-1]["seconds"], all["devices"]
					busy = [d["busy_seconds"] for d in devs]
					print(f"{sys.argv[1]:26} {len(devs)} devices: best {1e3*best:.0f} ms, {100*alone/best/len(devs):.1f} %; last {1e3*last:.0f} ms, "
					      f"busy {100*sum(busy)/len(devs)/last:.1f} % ({100*min(busy)/last:.0f} to {100*max(busy)/last:.0f}), work {sum(busy)/one['devices'][0]['busy_seconds']:.3f} of one's, {all['tasks']} tasks")
				PY
			done
			;;
		scaling)
			# Strong scaling at sizes that take one core seconds.
			bin/weft bench scaling --devices "cpu/$(nproc)" --at-least 1500ms --counts "4,$(nproc)" --only gemm,tropical,conv,merkle,landscape
			;;
		esac
	done
done
