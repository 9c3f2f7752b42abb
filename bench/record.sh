#!/usr/bin/env bash
# Runs of every workload at many sizes, from which weft predicts others. It needs neither Go
# nor a network, only a binary:
#
#   CGO_ENABLED=0 go build -ldflags "-s -w -X github.com/weft-run/weft/cmd/weft/internal/bench.built=$(git rev-parse HEAD)" \
#     -o bin/weft ./cmd/weft
#   bench/record.sh [-n NAME] [-o FOLDER] [-t SECONDS] [-s SIZES] [DEVICES...]
#
#   -n NAME     name of the machine in the recordings ("16 cores")
#   -o FOLDER   where recordings and logs go, one for each selection of devices ($OUT or bench/predict)
#   -t SECONDS  the time for each selection (280)
#   -s SIZES    sizes of each workload (13)
#
# DEVICES are selections as --devices takes them (cpu). A recording is written as points come,
# and one that is there already is gone on with. taskset before it makes a machine of fewer
# cores. The table of all recordings is printed by
#
#   bin/weft bench predict bench/predict/*.json
set -uo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/bin/weft}
name= out=${OUT:-bench/predict} limit=280 sizes=13
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts n:o:t:s:h option; do
	case $option in
	n) name=$OPTARG ;;
	o) out=$OPTARG ;;
	t) limit=$OPTARG ;;
	s) sizes=$OPTARG ;;
	h) usage && exit ;;
	*) usage >&2 && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
(($#)) || set -- cpu
if [[ ! -x $weft ]]; then
	echo "record.sh: there is no $weft: build it as the first lines of this script say, or set WEFT" >&2
	exit 2
fi
mkdir -p "$out"
failed=0
for devices; do
	file=$out/$(tr -c 'a-z0-9\n' - <<<"${name,,}${name:+-}$devices").json
	label=()
	[[ -n $name ]] && label=(--label "$name, $devices")
	echo "# $devices, ${limit} s, to $file; load $(cut -d' ' -f1-3 /proc/loadavg)"
	log=${file%.json}.log
	timeout -k 5 $((limit + 10)) "$weft" bench predict --record "$file" --devices "$devices" "${label[@]}" --sizes "$sizes" \
		--passes 1000 --shortest 3ms --longest 16ms --timeout "${limit}s" --cache-dir off >"$log" 2>&1 || failed=$?
	grep -E '^pass|in 10 %|stable points|^one size|^weft:' "$log"
done
exit $failed
