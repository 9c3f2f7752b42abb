// Command weftparams writes the declarations of kernel parameters into sources in
// CUDA C and GLSL. Parameters are declared once, as a Go structure that graph.Pack
// takes; in a source a line names it, and what stands between the braces behind that
// line is made of its fields:
//
//	//params: saxpy
//	struct Params {
//		unsigned n;
//		float k;
//	};
//
//	//params: saxpy
//	layout(push_constant) uniform Params {
//		uint n;
//		float k;
//	};
//
// The structure is looked for in the folder of the source; one of another package is
// written with that package's folder, in the module or relative to the source, as in
// "graph.MatMul" or "../test.Count". Names of fields become lower case, FirstRow
// first_row. Structures in a structure are replaced by their fields. If a structure has
// several fields of one structure type, as in "a, b point", the names of those fields
// come first: a_x, b_x.
//
//	weftparams saxpy.cu saxpy.comp
//
// rewrites the files named, and in folders named all sources below them.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sources are the endings of files that can have declarations.
var sources = []string{".cu", ".cuh", ".comp", ".glsl"}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "weftparams: name sources or folders to write declarations into")
		os.Exit(2)
	}
	files, err := find(os.Args[1:])
	for _, file := range files {
		if err == nil {
			err = rewrite(file)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weftparams:", err)
		os.Exit(1)
	}
}

// find returns the sources among files and below folders.
func find(paths []string) (files []string, err error) {
	for _, p := range paths {
		err := filepath.WalkDir(p, func(file string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && slices.Contains(sources, filepath.Ext(file)) {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// rewrite brings the declarations of a source up to date.
func rewrite(file string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := generate(file, string(before))
	if err != nil || after == string(before) {
		return err
	}
	return os.WriteFile(file, []byte(after), 0o666)
}
