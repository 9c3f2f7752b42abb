# shellcheck shell=bash
# Tables of figures, for the other scripts of this folder, which read this one by "source". Scripts
# that are carried to another machine need it there as well.

# begin makes the folders of a table: $OUT (./out unless it is set) for what is kept, and $scratch,
# which is removed at the end and has the cache of weft, so that devices are measured anew.
begin() {
	OUT=${OUT:-out}
	mkdir -p "$OUT"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	export XDG_CACHE_HOME=$scratch/cache
	rows=$scratch/rows
	: >"$rows"
}

# versions prints the GPU and its driver, the version of $weft and the number of cores.
versions() {
	nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader 2>/dev/null
	echo "$("$weft" --version), $(nproc) cores"
}

# get prints the value of a Python expression of d, the JSON in a file, or nothing if it fails. The
# expression may use median and the functions that the variable "definitions" defines.
get() {
	python3 -c 'import json, sys
from statistics import median
d = json.load(open(sys.argv[1]))
exec(sys.argv[3])
x = eval(sys.argv[2])
print(f"{x:.4g}" if isinstance(x, float) else x)' "$1" "$2" "${definitions:-}" 2>/dev/null
}

# of prints a formula's value, nothing if one of its numbers is missing: of 'a / b' a=1 b=2.
of() {
	local formula=$1 given=()
	shift
	for number; do
		[[ -n ${number#*=} ]] || return 0
		given+=(-v "$number")
	done
	awk "${given[@]}" "BEGIN { printf \"%.4g\", $formula }" 2>/dev/null
}

# ratio prints the first number divided by the second, nothing if one of them is missing.
ratio() { of 'a / b' "a=$1" "b=$2"; }

# percent prints the first number in percent of the second, nothing if one of them is missing.
percent() { of '100 * a / b' "a=$1" "b=$2"; }

# median prints the median of its arguments, nothing if there are none.
median() {
	printf '%s\n' "$@" | sort -g | awk 'NF { x[++n] = $1 } END { if (n) printf "%.6g", (x[int((n + 1) / 2)] + x[int(n / 2) + 1]) / 2 }'
}

# row adds a figure beside its bar to the table: name, bar, figure, a test of the figure, and its peer
# where there is one.
row() {
	local verdict=short
	if [[ -z $3 ]]; then
		verdict=none
	elif awk -v x="$3" "BEGIN { exit !(x + 0 $4) }"; then
		verdict=pass
	fi
	printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "${3:--}" "$verdict" "${5:-}" >>"$rows"
}

# note adds a figure without a bar to the table.
note() { printf '%s\t\t%s\t\t\n' "$1" "${2:--}" >>"$rows"; }

# table prints all rows and the time since the script began, and writes both to a file of $OUT, too.
# A column that is empty in every row is left out.
table() {
	{
		echo
		printf 'what\tbar\tfigure\tverdict\tpeer\n' | cat - "$rows" | python3 -c '
import sys
rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
columns = [i for i in range(5) if any(r[i] for r in rows[1:])]
wide = {i: max(len(r[i]) for r in rows) for i in columns}
for r in rows:
    print("  ".join(r[i].ljust(wide[i]) for i in columns).rstrip())'
		echo "$SECONDS s in all"
	} | tee "$OUT/$1"
}

# provenance prints the four lines that a figure is written down with: command, commit, Go and
# machine, and the load of the machine as it begins.
provenance() {
	echo "command: $1"
	echo "commit: $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ', with changes')"
	echo "go: $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"
	machine
}

# machine prints the cores of the machine and its load.
machine() {
	echo "machine: $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
	echo
}

# benchmarks prints best and median of the runs of each of Go's benchmarks in a file, by the time for
# a task where a benchmark reports that, else by its time for an operation.
benchmarks() {
	echo
	awk '
	function figure(x) { return sprintf(x < 100 ? "%.3f" : "%.0f", x) }
	/^Benchmark/ {
		name = $1
		sub(/-[0-9]+$/, "", name)
		sub(/^Benchmark/, "", name)
		value = ""
		for (i = 3; i < NF; i += 2) {
			if ($(i + 1) ~ /^n?s\/op$/ && value == "" || $(i + 1) == "ns/task") {
				value = $i
				unit[name] = $(i + 1)
			}
			if ($(i + 1) == "allocs/op") allocs[name] = $i
		}
		if (!(name in n)) order[++names] = name
		v[name, ++n[name]] = value + 0
	}
	END {
		if (names == 0) {
			print "no benchmark ran" > "/dev/stderr"
			exit 1
		}
		printf "%-28s %14s %14s  %-8s %10s %5s\n", "benchmark", "best", "median", "unit", "allocs/op", "runs"
		for (k = 1; k <= names; k++) {
			name = order[k]
			m = n[name]
			for (i = 2; i <= m; i++)
				for (j = i; j > 1 && v[name, j] < v[name, j-1]; j--) {
					t = v[name, j]; v[name, j] = v[name, j-1]; v[name, j-1] = t
				}
			median = m % 2 ? v[name, (m+1)/2] : (v[name, m/2] + v[name, m/2+1]) / 2
			printf "%-28s %14s %14s  %-8s %10s %5d\n", name, figure(v[name, 1]), figure(median), unit[name], allocs[name], m
		}
	}' "$1"
}
