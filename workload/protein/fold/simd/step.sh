#!/bin/sh
# Compiles step.c to Go assembly, for processors with AVX-512 and with AVX2:
#
#   workload/protein/fold/simd/step.sh [FOLDER]
#
# The committed files are made by Debian 12's clang-19, 1:19.1.7-3~deb12u1; CI makes them
# again and compares. Code and constants are one piece that runs wherever it is; it uses the
# stack that enterAVX512 and enterAVX2 provide, and calls nothing.
set -eu
cd "$(dirname "$0")"
out=${1:-..}
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
echo 'SECTIONS { . = 0; .all : { *(.text.first) *(.text*) . = ALIGN(64); *(.rodata*) } /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) *(.llvm*) } }' >"$tmp/one.ld"
make() {
	name=$1
	shift
	"${CLANG:-clang-19}" -O2 "$@" -ffp-contract=off -fno-math-errno -fno-jump-tables -fno-unroll-loops -fno-asynchronous-unwind-tables \
		-fomit-frame-pointer -mno-red-zone -mstackrealign -fPIC -ffreestanding -Wall -Wextra -Werror -Wno-psabi -c step.c -o "$tmp/step.o"
	"${LD:-ld}" -T "$tmp/one.ld" --oformat binary -o "$tmp/step.bin" "$tmp/step.o"
	{
		echo "// Made by simd/step.sh from simd/step.c. DO NOT EDIT."
		echo
		echo '#include "textflag.h"'
		echo
		echo "TEXT ·code$name(SB), NOSPLIT|NOFRAME, \$0-0"
		echo "	PCALIGN \$64"
		od -An -v -t x8 -w32 "$tmp/step.bin" | sed 's/ *\([0-9a-f]\{16\}\)/; QUAD $0x\1/g; s/^; /	/'
	} >"$out/step_$(echo "$name" | tr A-Z a-z)_amd64.s"
}
make AVX512 -mavx512f -mavx512dq -mavx512vl -mprefer-vector-width=512
make AVX2 -mavx2
