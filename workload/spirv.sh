#!/bin/sh
# Compiles the GLSL files named to SPIR-V beside them: one for each line
#
#	//: name options
#
# in a file. Anybody's glslc will do, but files differ between versions: those
# committed are made by Debian 12's (shaderc 2023.2).
set -eu
for source; do
	dir=$(dirname "$source")
	sed -n 's|^//: *||p' "$source" | while read -r name options; do
		# shellcheck disable=SC2086 # options are several words
		glslc -O --target-env=vulkan1.1 $options "$source" -o "$dir/$name.spv"
	done
done
