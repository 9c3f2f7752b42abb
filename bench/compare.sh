#!/usr/bin/env bash
# What a change costs: the benchmarks of another commit and of the tree as it is, in
# turns, so that whatever else the machine does disturbs both alike.
#
#   bench/compare.sh COMMIT             ten runs of each
#   RUNS=3 bench/compare.sh COMMIT      a quicker look
#   LIMIT=1.05 bench/compare.sh COMMIT  and fail where a median is larger by more
#   bench/compare.sh -build DIR COMMIT  only build the benchmarks, into DIR
#   bench/compare.sh -run DIR           run those, on a machine without Go that has bench/table.sh
#
# A machine with eight cores or more runs the four suites side by side, on two cores each.
#
# The table has the medians of both, how far the runs of each scatter (half of what
# lies between the quartiles, of the median), and the ratio: above 1 the tree is
# slower. A difference within the scatter says nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' bench/compare.sh >&2; exit 2; }
mode=both scratch=
case ${1:-} in
-build | -run) [[ $# -ge 2 ]] || usage; mode=${1#-} scratch=$2; shift 2 ;;
esac
[[ $# == $([[ $mode == run ]] && echo 0 || echo 1) ]] || usage
runs=${RUNS:-10}
limit=${LIMIT:-0}

# Name, package, benchmarks, and how long one run of each lasts.
suites=(
	"engine ./internal/engine ^Benchmark(DAG|Chain|Independent)\$ 1s"
	"live ./internal/exec ^BenchmarkLive\$ 1s"
	"place ./sched ^BenchmarkPlace\$/^finish\$ 1s"
	"million ./experimental/sim ^BenchmarkSimMillion\$ 1x"
)

# build makes the benchmarks of both, and notes what they are of.
build() {
	local commit
	commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "compare.sh: no commit $1" >&2; exit 2; }
	git worktree add --quiet --detach "$scratch/tree" "$commit"
	for suite in "${suites[@]}"; do
		read -r name package _ <<<"$suite"
		# A package may have stood elsewhere, by the same name, and the tree without a workspace.
		(cd "$scratch/tree" && { [[ -f go.work ]] || export GOWORK=off; } && CGO_ENABLED=0 go test -vet=off -ldflags="-s -w" -c -o "$scratch/$name.old" "$(go list ./... | grep "/${package##*/}\$")")
		CGO_ENABLED=0 go test -vet=off -ldflags="-s -w" -c -o "$scratch/$name.new" "$package"
	done
	git worktree remove --force "$scratch/tree"
	{
		echo "old: $commit"
		echo "new: $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ', with changes')"
		echo "go: $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"
	} >"$scratch/what"
}

if [[ $mode == both ]]; then
	scratch=$(mktemp -d)
	trap 'git worktree remove --force "$scratch/tree" 2>/dev/null || true; rm -rf "$scratch"' EXIT
fi
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
[[ $mode == run ]] || build "$1"
[[ $mode != build ]] || exit 0

echo "command: RUNS=$runs bench/compare.sh"
cat "$scratch/what"
machine

# measure SUITE WHICH appends a run's figures to the raw ones of the suite.
measure() {
	local name package pattern lasts
	read -r name package pattern lasts <<<"$1"
	(cd "$package" && ${pin:-} "$scratch/$name.$2" -test.run '^$' -test.bench "$pattern" -test.benchtime "$lasts") >"$scratch/part.$name"
	grep -q '^Benchmark' "$scratch/part.$name" || { echo "compare.sh: $package has no $pattern" >&2; exit 1; }
	sed -n "s/^Benchmark/$2 /p" "$scratch/part.$name" >>"$scratch/raw.$name"
}

# turns SUITE runs old and new in turns. Who goes first alternates: the second finds the
# machine warm.
turns() {
	for ((i = 0; i < runs; i++)); do
		if ((i % 2)); then
			measure "$1" new
			measure "$1" old
		else
			measure "$1" old
			measure "$1" new
		fi
	done
}

rm -f "$scratch"/raw.*
jobs=()
core=0
for suite in "${suites[@]}"; do
	if (($(nproc) >= 8)); then
		pin="taskset -c $core,$((core + 1))" turns "$suite" &
		jobs+=($!)
		core=$((core + 2))
	else
		turns "$suite"
	fi
done
for job in "${jobs[@]}"; do wait "$job"; done
for suite in "${suites[@]}"; do cat "$scratch/raw.${suite%% *}"; done >"$scratch/raw"

# Where a benchmark reports a time for each task that is what counts, else its time
# for each operation.
awk -v limit="$limit" '
	function figure(x) { return sprintf(x < 100 ? "%.3f" : "%.0f", x) }
	function sorted(which, name,   i, j, x) { # into s, returns how many
		for (i = 1; i <= n[which, name]; i++) {
			x = v[which, name, i]
			for (j = i - 1; j > 0 && s[j] > x; j--) s[j + 1] = s[j]
			s[j + 1] = x
		}
		return n[which, name]
	}
	function quantile(k, q,   at, lo) {
		at = 1 + (k - 1) * q
		lo = int(at)
		return lo == k ? s[k] : s[lo] + (at - lo) * (s[lo + 1] - s[lo])
	}
	{
		name = $2
		sub(/-[0-9]+$/, "", name)
		value = ""
		for (i = 4; i < NF; i += 2) {
			if ($(i + 1) ~ /^n?s\/op$/ && value == "" || $(i + 1) == "ns/task") {
				value = $i
				unit[name] = $(i + 1)
			}
		}
		if (value == "") next
		if (!(name in seen)) { seen[name] = 1; order[++names] = name }
		v[$1, name, ++n[$1, name]] = value + 0
	}
	END {
		if (names == 0) { print "no benchmark ran" > "/dev/stderr"; exit 1 }
		printf "%-34s %12s %6s %12s %6s %7s\n", "", "old", "±", "new", "±", "new/old"
		for (i = 1; i <= names; i++) {
			name = order[i]
			if (!n["old", name] || !n["new", name]) {
				printf "%-34s only in one of them\n", name
				continue
			}
			k = sorted("old", name)
			old = quantile(k, 0.5); oldOff = 50 * (quantile(k, 0.75) - quantile(k, 0.25)) / old
			k = sorted("new", name)
			new = quantile(k, 0.5); newOff = 50 * (quantile(k, 0.75) - quantile(k, 0.25)) / new
			ratio = new / old
			printf "%-34s %12s %5.0f%% %12s %5.0f%% %7.3f %s\n", name, figure(old), oldOff, figure(new), newOff, ratio, unit[name]
			if (limit > 0 && ratio > limit) worse = worse " " name
		}
		if (worse != "") { print "more than " limit " times as slow:" worse > "/dev/stderr"; exit 1 }
	}
' "$scratch/raw"
