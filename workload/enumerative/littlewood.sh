#!/bin/sh
# Records Littlewood-Richardson coefficients by lrcalc, for the tests of this package:
#
#	workload/enumerative/littlewood.sh > workload/enumerative/testdata/littlewood.txt
#
# A line is k, n, two partitions, one in the product of both, and how often it is there. The
# file committed is made by Debian 12's lrcalc, 1.2-2+b1.
set -eu
product() { # k n first second
	# shellcheck disable=SC2086 # partitions are several words
	lrcalc mult -r "$1" $3 - $4 | sed 's/[(),]/ /g' | while read -r count parts; do
		most=${parts%% *}
		if [ "$most" -le $(($2 - $1)) ]; then
			echo "$1 $2 $(echo "$3" | tr ' ' ,) $(echo "$4" | tr ' ' ,) $(echo "$parts" | tr -s ' ' ,) $count"
		fi
	done
}
product 2 5 "2 1" "1"
product 3 6 "2 1" "2 1"
product 3 7 "3 2" "2 1 1"
product 4 8 "3 2 1" "3 2 1"
product 4 9 "4 2 1" "3 3 1"
product 5 10 "4 3 2 1" "3 2 2 1"
