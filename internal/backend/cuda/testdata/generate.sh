#!/bin/sh
# Compiles the kernels of the cuda backend, of its tests and of internal/probe to
# PTX, with Debian 12's clang-19 (1:19.1.7-3~deb12u1).
set -eu
cd "$(dirname "$0")"
for source in ../copy.cu ../../../probe/probe.cu kernels.cu; do
	"${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_75 \
		-Xclang -target-feature -Xclang +ptx63 -ffp-contract=off -Wall -Wextra -Werror -O3 -S "$source" -o "${source%.cu}.ptx"
done
