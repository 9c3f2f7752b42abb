#!/usr/bin/env bash
# How long predictions take through HTTP: starts `weft serve` with the model that it makes itself
# (1000 neurons, 64 channels, 20 steps), sends it Poisson arrivals with binary tensors from the
# same machine, and prints a table. It needs bash, awk and the binary, no Go.
#
#   bench/latency.sh [-b WEFT] [-r RATE[,RATE…]] [-t SECONDS] [-p PORT]
#   bench/latency.sh -m MINUTES [-b WEFT] [-r RATE] [-s SECONDS] [-p PORT]
#
# On two cores of a larger machine: taskset -c 0,1 bench/latency.sh -b ./weft
#
# -m runs for so many minutes (of -s seconds, 60) and samples what the server holds: memory that is
# resident, the least heap, goroutines and descriptors. It fails if the last minute is not within
# 5 % of the second.
set -euo pipefail
weft='' rates=1000 seconds=30 port=18099 minutes=0 minute=60
while getopts b:r:t:p:m:s: o; do
	case $o in
	b) weft=$OPTARG ;;
	r) rates=$OPTARG ;;
	t) seconds=$OPTARG ;;
	p) port=$OPTARG ;;
	m) minutes=$OPTARG ;;
	s) minute=$OPTARG ;;
	*) sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p' >&2; exit 2 ;;
	esac
done
scratch=$(mktemp -d)
server=''
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
if [[ -z $weft ]]; then
	weft=$scratch/weft
	(cd "$(dirname "$0")/.." && go build -o "$weft" ./cmd/weft)
fi

# get prints the answer of the server to a request for a path; it fails if there is none.
get() {
	exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
	printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$1" >&3
	cat <&3
	exec 3>&-
} 2>/dev/null

# figure prints a figure of the server by its name in /metrics.
figure() { awk -v name="$1" '$1 == name {printf "%.0f", $2}' "$scratch/metrics"; }

# field prints a field of the load's JSON, of its latencies with the name of the object.
field() { awk -F'[:,]' -v of="$1" -v name="$2" '/\{/ {in_ = $1} index($1, "\"" name "\"") && index(in_, of) {print $2 + 0; exit}' "$scratch/load"; }

# load sends requests at a rate for some seconds, and leaves JSON and the seconds of processor time
# that the load itself took.
load() {
	local TIMEFORMAT='%U %S'
	{ time "$weft" load "http://127.0.0.1:$port" --rate "$1" --duration "$2s" --arrivals poisson --binary --json >"$scratch/load" 2>"$scratch/err"; } 2>"$scratch/time" || {
		cat "$scratch/err" "$scratch/load" >&2
		return 1
	}
}

# cpu prints the processor time of the server so far, in ticks.
cpu() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$server/stat"; }

echo "weft     $("$weft" --version 2>/dev/null | head -n 1)"
echo "machine  $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "load     $(cut -d' ' -f1-3 /proc/loadavg) when it began"
"$weft" serve --listen "127.0.0.1:$port" >"$scratch/log" 2>&1 &
server=$!
for ((i = 0; ; i++)); do
	if get /readyz | grep -q '^HTTP/1.. 200'; then break; fi
	if ((i == 300)) || ! kill -0 "$server" 2>/dev/null; then
		cat "$scratch/log" >&2
		exit 1
	fi
	sleep 0.2
done
ticks=$(getconf CLK_TCK)

# row prints a line of the table for the load that has ended, which took so many ticks of the server.
row() {
	awk -v head="$1" -v reached="$(field '' reached)" -v p50="$(field latency p50)" -v p95="$(field latency p95)" -v p99="$(field latency p99)" -v max="$(field latency max)" \
		-v late="$(field own_lateness p99)" -v server="$2" -v ticks="$ticks" -v seconds="$3" '{
			printf "%-7s %8.0f %8.2f %8.2f %8.2f %8.2f %8.2f %7.0f %% %6.0f %%", head, reached, 1e3 * p50, 1e3 * p95, 1e3 * p99, 1e3 * max, 1e3 * late,
				100 * server / ticks / seconds, 100 * ($1 + $2) / seconds
		}' "$scratch/time"
}
head=$(printf '%8s %8s %8s %8s %8s %8s %9s %8s' reached p50 p95 p99 max "late p99" server load)

if ((minutes == 0)); then
	load "${rates%%,*}" 3 # the first seconds are those of caches and heaps
	lines=()
	for rate in ${rates//,/ }; do
		before=$(cpu)
		load "$rate" "$seconds"
		lines+=("$(row "$rate" "$(($(cpu) - before))" "$((seconds + 1))")") # a second to warm up
	done
	echo "load     $(cut -d' ' -f1-3 /proc/loadavg) when it ended"
	echo "Latencies in ms from when a request was due; shares are of one core."
	printf 'rate    %s\n' "$head"
	printf '%s\n' "${lines[@]}"
	exit
fi

# sample notes what the server holds, sixty times a minute, until it is killed.
sample() {
	while sleep "$(awk -v s="$minute" 'BEGIN {print s / 60}')"; do
		get /metrics >"$scratch/metrics" || return
		echo "$(figure process_resident_memory_bytes) $(figure go_heap_objects_bytes) $(figure go_goroutines) $(figure process_open_fds)"
	done
}

# middle prints the median of a column of numbers.
middle() { awk -v c="$1" '{print $c}' | sort -g | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'; }

rate=${rates%%,*}
printf 'minute  %s %9s %9s %6s %5s\n' "$head" resident heap gor. fds
declare -a second=()
for ((m = 1; m <= minutes; m++)); do
	sample >"$scratch/samples" &
	sampler=$!
	before=$(cpu)
	load "$rate" "$((minute - 1))"
	used=$(($(cpu) - before))
	kill "$sampler" 2>/dev/null || true
	wait "$sampler" 2>/dev/null || true
	now=("$(middle 1 <"$scratch/samples")" "$(awk '{print $2}' "$scratch/samples" | sort -g | head -n 1)" "$(middle 3 <"$scratch/samples")" "$(middle 4 <"$scratch/samples")")
	if ((m == 2)); then second=("${now[@]}"); fi
	echo "$(row "$m" "$used" "$minute") $(awk -v r="${now[0]}" -v h="${now[1]}" -v g="${now[2]}" -v f="${now[3]}" 'BEGIN {printf "%6.1f MB %6.1f MB %6d %5d", r / 1e6, h / 1e6, g, f}')"
done
echo "load     $(cut -d' ' -f1-3 /proc/loadavg) when it ended"
((minutes > 2)) || exit 0
names=(resident heap goroutines descriptors)
bad=0
for i in 0 1 2 3; do
	awk -v name="${names[i]}" -v a="${second[i]}" -v b="${now[i]}" 'BEGIN {
		off = a ? 100 * (b - a) / a : 0
		ok = off <= 5 && off >= -5
		printf "%-11s %+.1f %% from minute 2 to the last: %s\n", name, off, ok ? "within 5 %" : "NOT within 5 %"
		exit !ok
	}' || bad=1
done
exit $bad
