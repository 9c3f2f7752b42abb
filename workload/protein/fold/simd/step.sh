#!/bin/sh
# Compiles step.c to Go assembly, for processors with AVX-512, with AVX2 and with NEON:
#
#   workload/protein/fold/simd/step.sh [FOLDER]
#
# The committed files are made by Debian 12's clang-19, 1:19.1.7-3~deb12u1; CI makes them
# again and compares. Code and constants are one piece that runs wherever it is; it uses the
# stack that enterAVX512, enterAVX2 and enterNEON provide, and calls nothing.
set -eu
cd "$(dirname "$0")"
out=${1:-..}
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
echo 'SECTIONS { . = 0; .all : { *(.text.first) *(.text*) . = ALIGN(64); *(.rodata*) } /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) *(.llvm*) } }' >"$tmp/one.ld"
compile() {
	"${CLANG:-clang-19}" -O2 "$@" -ffp-contract=off -fno-math-errno -fno-jump-tables -fno-unroll-loops -fno-asynchronous-unwind-tables \
		-fomit-frame-pointer -fPIC -ffreestanding -Wall -Wextra -Werror -Wno-psabi -c step.c -o "$tmp/step.o"
}
top() {
	echo "// Made by simd/step.sh from simd/step.c. DO NOT EDIT."
	echo
	echo '#include "textflag.h"'
	echo
	echo "TEXT ·code$1(SB), NOSPLIT|NOFRAME, \$0-0"
	echo "	PCALIGN \$64"
}
amd64() {
	name=$1
	shift
	compile "$@" -mno-red-zone -mstackrealign
	"${LD:-ld}" -T "$tmp/one.ld" --oformat binary -o "$tmp/step.bin" "$tmp/step.o"
	{
		top "$name"
		od -An -v -t x8 -w32 "$tmp/step.bin" | sed 's/ *\([0-9a-f]\{16\}\)/; QUAD $0x\1/g; s/^; /	/'
	} >"$out/step_$(echo "$name" | tr A-Z a-z)_amd64.s"
}
# Without constants and calls from one section to another there is nothing to link. Go has a goroutine in
# R28 also while other code runs, and a system may have something in R18.
arm64() {
	compile --target=aarch64-linux-gnu -ffixed-x18 -ffixed-x28
	if [ "$("${OBJDUMP:-objdump}" -b elf64-little -h "$tmp/step.o" | grep -cE 'RELOC|rodata')" != 0 ]; then
		echo "$0: for arm64 there is something to link" >&2
		exit 1
	fi
	"${OBJCOPY:-objcopy}" -I elf64-little -O binary -j .text "$tmp/step.o" "$tmp/step.bin"
	{
		top NEON
		od -An -v -t x4 -w32 "$tmp/step.bin" | sed 's/ *\([0-9a-f]\{8\}\)/; WORD $0x\1/g; s/^; /	/'
	} >"$out/step_neon_arm64.s"
}
amd64 AVX512 -mavx512f -mavx512dq -mavx512vl -mprefer-vector-width=512
amd64 AVX2 -mavx2
arm64
