#!/usr/bin/env bash
# Folding on an NVIDIA GPU, beside all cores of its machine, where there is no Go. It
# carries binaries:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/fold.test ./workload/protein/fold
#   bench/fold.sh
#
# First it is right: steps against the reference, the same bytes again, means of Q and Rg
# against the processors', and how many of 64 replicas of 1CRN fold. Then it is fast: steps
# a second of all replicas, the median of three runs in turns with the processors. Everything has
# a limit of its own, four minutes in all at most; the table comes last, and is in
# $OUT/fold.txt too ($OUT is ./out unless it is set). DEVICE=cpu and SMALL=1 try
# the script where there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
weft=$PWD/bin/weft device=${DEVICE:-cuda:0}
OUT=${OUT:-out}
mkdir -p "$OUT"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache
rows=$scratch/rows
: >"$rows"

if [[ -n ${SMALL:-} ]]; then
	folding=5000 cuda64=4000 cuda1024=8000 cpu64=4000 cpu1024=2000 frame=1000 times=1
else
	folding=2000000 cuda64=600000 cuda1024=400000 cpu64=200000 cpu1024=20000 frame=5000 times=3
fi

# get prints what an expression comes to for the JSON in a file, nothing if it fails.
get() {
	python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
x = eval(sys.argv[2])
print(f"{x:.4g}" if isinstance(x, float) else x)' "$1" "$2" 2>/dev/null
}

# row notes a figure beside its bar: name, bar, figure, a test of it.
row() {
	local verdict=short
	if [[ -z $3 ]]; then
		verdict=none
	elif awk -v x="$3" "BEGIN { exit !(x + 0 $4) }"; then
		verdict=pass
	fi
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "${3:--}" "$verdict" >>"$rows"
}

# note notes a figure that has no bar.
note() { printf '%s\t\t%s\t\n' "$1" "${2:--}" >>"$rows"; }

# fold runs a folding of 1CRN within so many seconds and writes its report as JSON to a file.
fold() {
	local limit=$1 file=$2
	shift 2
	timeout "$limit" "$weft" run fold --json --calibrate=false "$@" >"$file" 2>"$file.err" || tail -n 3 "$file.err"
}

# median prints that of the numbers it is given, in millions.
median() { printf '%s\n' "$@" | python3 -c 'import statistics, sys
x = [float(line) for line in sys.stdin if line.strip()]
print(f"{statistics.median(x) / 1e6:.4g}" if x else "")'; }

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader 2>/dev/null
echo "$("$weft" --version), $(nproc) cores"

echo "== right"
if [[ $device == cuda* ]]; then
	(cd workload/protein/fold && timeout 80 ../../../bin/fold.test -test.timeout 75s -test.v -test.run '^TestCUDA') >"$scratch/tests" 2>&1
	code=$?
	grep -v '^=== ' "$scratch/tests" | tail -n 40
	row "tests on the GPU" "pass" "$code" "== 0"
	note "of them, means apart in standard errors" "$(sed -n 's/.*apart by \([0-9.]*\) standard.*/\1/p' "$scratch/tests" | sort -n | tail -n 1)"
fi
for structure in 1CRN BPTI 1UBI; do
	fold 20 "$scratch/check.$structure" --structure $structure --devices "$device" --replicas 64 --steps 5000 --frame 1000
	row "$structure agrees with the reference" "True" "$(get "$scratch/check.$structure" "int(d['checked'])")" "== 1"
done
for temperature in 0.5 0.7; do
	j=$scratch/folded.$temperature
	fold 30 "$j" --devices "$device" --replicas 64 --steps $folding --frame 1000 --temperature $temperature --check=false
	row "of 64 replicas folded at T = $temperature" "≥ 60" "$(get "$j" "d['folded']")" ">= 60"
	note "  median step of the first folded frame" "$(get "$j" "sorted(r['folded_at'] for r in d['replicas'] if 'folded_at' in r)[31]")"
done

echo "== fast"
if [[ $device == cuda* ]]; then
	timeout 30 bin/fold.test -test.run '^$' -test.bench '^BenchmarkCUDA$' -test.benchtime 1x | grep ^Benchmark
fi
declare -A rates
for ((i = 0; i < times; i++)); do
	for case in "cuda $device 64 $cuda64 $frame" "cpu cpu 64 $cpu64 $frame" "cuda $device 1024 $cuda1024 $frame" "cpu cpu 1024 $cpu1024 $frame" "short $device 1024 $((cuda1024 / 4)) 1000"; do
		read -r name devices replicas steps every <<<"$case"
		fold 20 "$scratch/rate" --devices "$devices" --replicas "$replicas" --steps "$steps" --frame "$every" --check=false
		rate=$(get "$scratch/rate" "d['steps_per_second']")
		echo "$name, $replicas replicas, frames of $every: ${rate:-none}"
		rates[$name$replicas]+=" $rate"
	done
done
for replicas in 64 1024; do
	# shellcheck disable=SC2086
	cuda=$(median ${rates[cuda$replicas]}) cpu=$(median ${rates[cpu$replicas]})
	note "1CRN, $replicas replicas, Msteps/s on $device" "$cuda"
	note "  on $(nproc) cores" "$cpu"
	# In units of the model, of about a picosecond.
	note "  µs-equivalent a day, if the unit of time is 1 ps" "$(awk -v c="$cuda" 'BEGIN { if (c) printf "%.4g", c * 1e6 * 0.005e-6 * 86400 }')"
	times_cores=$(awk -v a="$cuda" -v b="$cpu" 'BEGIN { if (a > 0 && b > 0) printf "%.3g", a / b }')
	if ((replicas == 1024)); then
		row "  times the cores" "≥ 20" "$times_cores" ">= 20"
		# About 60,000 instructions in float64 a step of a replica; 132 units of 64 at 1.98 GHz.
		note "  % of the GPU's float64 instructions" "$(awk -v a="$cuda" 'BEGIN { if (a) printf "%.3g", 100 * a * 1e6 * 60e3 / (132 * 64 * 1.98e9) }')"
	else
		note "  times the cores" "$times_cores"
	fi
done
# shellcheck disable=SC2086
note "1CRN, 1024 replicas, frames of 1,000 steps, Msteps/s on $device" "$(median ${rates[short1024]})"

{
	echo
	printf 'what\tbar\tfigure\tverdict\n' | cat - "$rows" | python3 -c '
import sys
rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
wide = [max(len(r[i]) for r in rows) for i in range(4)]
for r in rows:
    print("  ".join(c.ljust(w) for c, w in zip(r, wide)).rstrip())'
	echo "$SECONDS s in all"
} | tee "$OUT/fold.txt"
