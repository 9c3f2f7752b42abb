#!/usr/bin/env bash
# How far predictions are off: every workload at three sizes, on the cores as one
# device and as two, ten runs each with nothing known before; the first three
# teach. Prints the commit, the machine and a table of medians, and with -v every
# run as real/predicted in milliseconds.
#
#   bench/predict.sh [-v] [WORKLOAD…]
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh
verbose=0
if [[ ${1:-} == -v ]]; then
	verbose=1
	shift
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -o "$scratch/weft" ./cmd/weft

echo "commit   $(git describe --always --dirty --abbrev=12)"
echo "machine  $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(go version | cut -d' ' -f3)"
echo "load     $(cut -d' ' -f1-3 /proc/loadavg) when it began"

declare -A sizes=(
	[gemm]="--size=512 --size=1024 --size=2048"
	[reduce]="--n=4194304 --n=16777216 --n=67108864"
	[conv]="--batch=8 --batch=16 --batch=32"
	[merkle]="--leaves=65536 --leaves=262144 --leaves=1048576"
	[tropical]="--size=384 --size=768 --size=1536"
	[automata]="--rows=2048 --rows=4096 --rows=8192"
	[landscape]="--residues=60 --residues=100 --residues=140"
)
workloads=("$@")
((${#workloads[@]})) || workloads=(gemm reduce conv merkle tropical automata landscape)

for devices in cpu cpu/2; do
	for w in "${workloads[@]}"; do
		: >"$scratch/off"
		for size in ${sizes[$w]}; do
			"$scratch/weft" run "$w" "$size" --devices "$devices" --repeat 10 --check=false --json --cache-dir off |
				awk -F'[:,]' '/"seconds"/ {real = $2} /"predicted_seconds"/ {
					n++
					if (n > 3) {off = 100 * ($2 - real) / real; print "off", off < 0 ? -off : off}
					all = all sprintf(" %.2f/%.2f", 1e3 * real, 1e3 * $2)
				} END {print "all" all}' >"$scratch/out"
			sed -n 's/^off //p' "$scratch/out" >>"$scratch/off"
			if ((verbose)); then
				echo "  $w $size$(sed -n 's/^all//p' "$scratch/out")"
			fi
		done
		printf '%-6s %-10s off by %5s %% in the median\n' "$devices" "$w" "$(of x "x=$(median $(cat "$scratch/off"))")"
	done
done
echo "load     $(cut -d' ' -f1-3 /proc/loadavg) when it ended"
