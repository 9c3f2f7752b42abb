#!/bin/sh
# Runs the tests of CUDA kernels with each error of rows.txt, on a machine with a GPU; NNN.log
# is what came of error NNN. Errors with a log are left out, so that it can be ended and
# started again. A test takes some seconds; one that takes 120 hangs.
cd "$(dirname "$0")" || exit 1
if ! [ -e clean.log ]; then
	for tests in *.test; do
		if ! timeout 500 "./$tests" -test.run '^TestCUDAKernels$' >clean.tmp 2>&1; then
			tail -n 50 clean.tmp
			echo "$tests fails without an error planted"
			exit 1
		fi
	done
	mv clean.tmp clean.log
fi
while read -r n name tests; do
	[ -e "$n.log" ] && continue
	timeout 120 "./$tests" -test.run "^TestCUDAKernels\$/^$name(#.*)?\$" -ptx "$n.ptx" >"$n.tmp" 2>&1 </dev/null
	echo "exit $?" >>"$n.tmp"
	mv "$n.tmp" "$n.log"
done <rows.txt
grep -l '^exit 0$' [0-9]*.log | sed 's/$/: NOT FOUND/'
echo "$(cat [0-9]*.log | grep -c '^exit') of $(wc -l <rows.txt) errors were run"
