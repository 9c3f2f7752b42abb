//go:build clang

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The headers as C++ for the host compute what gnark-crypto does.
func TestHost(t *testing.T) {
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-19"
	}
	program := filepath.Join(t.TempDir(), "host")
	if out, err := exec.Command(clang, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/host.cc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range fields {
		var in bytes.Buffer
		all := f.samples(30)
		for _, a := range all {
			for _, b := range all {
				_ = binary.Write(&in, binary.LittleEndian, [2]element{a, b}) // to memory
			}
		}
		cmd := exec.Command(program, f.Name)
		cmd.Stdin = &in
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]element, len(all)*len(all)*len(ops))
		if err := binary.Read(bytes.NewReader(out), binary.LittleEndian, got); err != nil {
			t.Fatal(err)
		}
		for i, a := range all {
			for j, b := range all {
				for k, op := range ops {
					if got, want := got[(i*len(all)+j)*len(ops)+k], f.expected(op, a, b); got != want {
						t.Fatalf("%s: %s of %x and %x is %x, want %x", f.Name, op, a, b, got, want)
					}
				}
			}
		}
	}
}
