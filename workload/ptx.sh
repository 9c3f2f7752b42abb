#!/bin/sh
# Compiles the kernels of a workload to PTX, beside their source, and compresses it:
#
#   workload/ptx.sh gemm/gemm.cu ...
#
# The committed files are made by Debian 12's clang-19, 1:19.1.7-3~deb12u1; CI
# makes them again and compares what is in them (zcat shows it). The oldest architecture is Turing (sm_75) with PTX 6.3,
# or what a source says in a line as "//target: sm_90 ptx80": the driver compiles PTX for
# the device it meets.
set -eu
cd "$(dirname "$0")"
for source; do
	target=$(sed -n 's,^//target: *,,p' "$source")
	target=${target:-sm_75 ptx63}
	"${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch="${target% *}" \
		-Xclang -target-feature -Xclang +"${target#* }" -mllvm -nvptx-short-ptr -fcuda-short-ptr -ffp-contract=off \
		-Wall -Wextra -Werror -O3 -S "$source" -o "${source%.cu}.ptx"
	gzip -9nf "${source%.cu}.ptx"
done
