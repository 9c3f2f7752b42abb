#!/bin/sh
# Compiles the kernels of a workload to PTX, beside their source:
#
#   workload/ptx.sh gemm/gemm.cu ...
#
# The committed files are made by Debian 12's clang-19, 1:19.1.7-3~deb12u1; CI
# makes them again and compares. The oldest architecture is Turing (sm_75): the
# driver compiles PTX for the device it meets.
set -eu
cd "$(dirname "$0")"
for source; do
	"${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_75 \
		-Xclang -target-feature -Xclang +ptx63 -mllvm -nvptx-short-ptr -fcuda-short-ptr -ffp-contract=off \
		-Wall -Wextra -Werror -O3 -S "$source" -o "${source%.cu}.ptx"
done
