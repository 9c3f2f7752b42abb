#!/usr/bin/env bash
# Folding on an NVIDIA GPU, beside all cores of its machine, where there is no Go. It
# carries binaries, bench/table.sh and itself:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/fold.test ./workload/protein/fold
#   bench/fold.sh
#
# First it is right: steps against the reference, the same bytes again, means of Q and Rg
# against the processors', a GPU and processors together. Then it folds: 1CRN at two temperatures,
# BPTI by replica exchange of eight seeds, lysozyme (1HEL) where bin/structures has it (fetch.sh of
# workload/protein brings it), and where 1CRN melts by two seeds. Then it is fast: steps a second of
# all replicas, the median of three runs in turns with the processors. Everything has a limit of its
# own, 200 s in all; PARTS names what to do of right, folds, melts and fast. The table comes last, and is
# in $OUT/fold.txt too ($OUT is ./out unless it is set). DEVICE=cpu and SMALL=1 try the script where
# there is no GPU.
#
# Each replica draws Philox blocks with its number in the counter and the seed in the key, so that 64
# replicas of seed 1 are as independent of each other as one of each of 64 seeds.
set -uo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh
weft=$PWD/bin/weft device=${DEVICE:-cuda:0}
begin
versions

parts=${PARTS:-right folds melts fast}
if [[ -n ${SMALL:-} ]]; then
	many=64 folding=5000 walking=8000 medium=3000 melting=6400 sample=100 cuda64=4000 cuda1024=8000 cpu64=4000 cpu1024=2000 frame=1000 times=1
else
	many=1024 folding=2000000 walking=600000 medium=300000 melting=2000000 sample=1000 cuda64=600000 cuda1024=400000 cpu64=200000 cpu1024=20000 frame=5000 times=3
fi

# fold runs a folding of 1CRN within so many seconds and writes its report as JSON to a file.
fold() {
	local limit=$1 file=$2
	shift 2
	timeout "$limit" "$weft" run fold --json --calibrate=false "$@" >"$file" 2>"$file.err" || tail -n 3 "$file.err"
}

right() {
	echo "== right"
	if [[ $device == cuda* ]]; then
		(cd workload/protein/fold && timeout 60 ../../../bin/fold.test -test.timeout 58s -test.v -test.run '^TestCUDA') >"$scratch/tests" 2>&1
		local code=$?
		grep -v '^=== ' "$scratch/tests" | tail -n 40
		row "tests on the GPU" "pass" "$code" "== 0"
		note "of them, means apart in standard errors" "$(sed -n 's/.*apart by \([0-9.]*\) standard.*/\1/p' "$scratch/tests" | sort -n | tail -n 1)"
	fi
	for structure in 1CRN BPTI 1UBI; do
		fold 20 "$scratch/check" --structure $structure --devices "$device" --replicas 64 --steps 5000 --frame 1000
		row "$structure agrees with the reference" "True" "$(get "$scratch/check" "int(d['checked'])")" "== 1"
	done
	local both=$device,cpu
	[[ $device == cpu ]] && both=cpu/2
	fold 20 "$scratch/check" --devices "$both" --replicas $many --steps 20000 --frame 1000
	row "on $both it agrees with the reference" "True" "$(get "$scratch/check" "int(d['checked'])")" "== 1"
	note "  Msteps/s" "$(get "$scratch/check" "d['steps_per_second'] / 1e6")"
}

# counted notes the number of replicas of a run that folded, with the step by which half of them had.
counted() {
	row "$1" "$3" "$(get "$2" "d['folded']")" "$4"
	note "  median step of the first folded frame" "$(get "$2" "sorted(r['folded_at'] for r in d['replicas'] if 'folded_at' in r)[len(d['replicas']) // 2 - 1]")"
	note "  not folded, but at RMSD 1.5 to 2.5 at best" "$(get "$2" "sum('folded_at' not in r and r['best_rmsd'] < 2.5 for r in d['replicas'])")"
}

folds() {
	echo "== folds"
	local j=$scratch/folded
	for temperature in 0.5 0.7; do
		fold 25 "$j" --devices "$device" --replicas 64 --steps $folding --frame 1000 --temperature $temperature --check=false
		counted "of 64 replicas folded at T = $temperature" "$j" "≥ 60" ">= 60"
	done
	fold 30 "$j" --devices "$device" --replicas $many --steps $folding --frame 2000 --temperature 0.5 --seed 2 --check=false
	note "of $many replicas folded at T = 0.5, %" "$(get "$j" "100 * d['folded'] / len(d['replicas'])")"
	note "  standard error" "$(get "$j" "100 * (d['folded'] / len(d['replicas']) * (1 - d['folded'] / len(d['replicas'])) / len(d['replicas'])) ** 0.5")"
	note "  not folded, but at RMSD 1.5 to 2.5 at best, %" "$(get "$j" "100 * sum('folded_at' not in r and r['best_rmsd'] < 2.5 for r in d['replicas']) / len(d['replicas'])")"
	local seeds=0
	for seed in 1 2 3 4 5 6 7 8; do
		fold 8 "$j" --structure BPTI --devices "$device" --replicas 64 --temperature 0.6-1.1 --steps $walking --frame 1000 --seed $seed --check=false
		echo "BPTI, seed $seed: $(get "$j" "d['folded']") of 64 folded, best RMSD $(get "$j" "d['best']['rmsd']")"
		[[ $(get "$j" "int(d['folded'] > 0)") == 1 ]] && ((seeds++))
	done
	row "BPTI folds by replica exchange, of seeds 1-8" "8" "$seeds" "== 8"
	local file=bin/structures/1hel.pdb
	[[ -f $file ]] || file=1UBI
	fold 25 "$j" --structure $file --devices "$device" --replicas 64 --temperature 0.6-1.1 --steps $medium --frame 1000 --check=false
	note "$(basename $file .pdb) by replica exchange: folded of 64" "$(get "$j" "d['folded']")"
	note "  best RMSD" "$(get "$j" "d['best']['rmsd']")"
	note "  Msteps/s" "$(get "$j" "d['steps_per_second'] / 1e6")"
}

melts() {
	echo "== melts"
	local j=$scratch/melt
	for seed in 1 2; do
		fold 20 "$j.$seed" --devices "$device" --replicas 64 --temperature 0.8-1.2 --steps $melting --frame $sample --seed $seed --check=false
		note "1CRN melts at, seed $seed" "$(get "$j.$seed" "'%.4f ± %.4f' % (d['heat_capacity']['melting'], d['heat_capacity']['error'])")"
	done
	local a b
	a=$(get "$j.1" "'%.6f %.6f' % (d['heat_capacity']['melting'], d['heat_capacity']['error'])")
	b=$(get "$j.2" "'%.6f %.6f' % (d['heat_capacity']['melting'], d['heat_capacity']['error'])")
	row "  apart, in standard errors" "≤ 2" "$(awk -v a="$a" -v b="$b" 'BEGIN { split(a, x, " "); split(b, y, " "); e = sqrt(x[2]^2 + y[2]^2); if (e > 0) { d = x[1] - y[1]; printf "%.2f", (d < 0 ? -d : d) / e } }')" "<= 2"
	for ladder in geometric tuned; do
		fold 20 "$j" --devices "$device" --replicas 16 --temperature 0.6-1.2 --spacing $ladder --steps $melting --frame $sample --check=false
		note "acceptance by neighbours, 16 rungs, $ladder" "$(get "$j" "'%.2f to %.2f' % (min(d['acceptance_by_pair']), max(d['acceptance_by_pair']))")"
	done
}

# millions prints the median of its arguments, in millions.
millions() { of 'm / 1e6' "m=$(median "$@")"; }

fast() {
	echo "== fast"
	declare -A rates
	local i replicas
	for ((i = 0; i < times; i++)); do
		for case in "cuda $device 64 $cuda64 $frame" "cpu cpu 64 $cpu64 $frame" "cuda $device 1024 $cuda1024 $frame" "cpu cpu 1024 $cpu1024 $frame" "short $device 1024 $((cuda1024 / 4)) 1000"; do
			read -r name devices replicas steps every <<<"$case"
			fold 10 "$scratch/rate" --devices "$devices" --replicas "$replicas" --steps "$steps" --frame "$every" --check=false
			rate=$(get "$scratch/rate" "d['steps_per_second']")
			echo "$name, $replicas replicas, frames of $every: ${rate:-none}"
			rates[$name$replicas]+=" $rate"
		done
	done
	for replicas in 64 1024; do
		# shellcheck disable=SC2086
		local cuda cpu
		cuda=$(millions ${rates[cuda$replicas]}) cpu=$(millions ${rates[cpu$replicas]})
		note "1CRN, $replicas replicas, Msteps/s on $device" "$cuda"
		note "  on $(nproc) cores" "$cpu"
		# In units of the model, of about a picosecond.
		note "  µs-equivalent a day, if the unit of time is 1 ps" "$(awk -v c="$cuda" 'BEGIN { if (c) printf "%.4g", c * 1e6 * 0.005e-6 * 86400 }')"
		if ((replicas == 1024)); then
			row "  times the cores" "≥ 20" "$(ratio "$cuda" "$cpu")" ">= 20"
			# About 33,000 instructions in float64 a step of a folded replica; 132 units of 64 at 1.98 GHz.
			note "  % of the GPU's float64 instructions" "$(awk -v a="$cuda" 'BEGIN { if (a) printf "%.3g", 100 * a * 1e6 * 33e3 / (132 * 64 * 1.98e9) }')"
			# shellcheck disable=SC2086
			local short
			short=$(millions ${rates[short1024]})
			note "  with frames of 1,000 steps, Msteps/s" "$short"
			row "  times the cores" "≥ 20" "$(ratio "$short" "$cpu")" ">= 20"
		else
			note "  times the cores" "$(ratio "$cuda" "$cpu")"
		fi
	done
}

for part in $parts; do
	$part
	echo "$SECONDS s"
done

table fold.txt
