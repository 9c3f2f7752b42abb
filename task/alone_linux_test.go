package task_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A program that uses every call of package task needs no library and no loader, has 3 MB at most, and
// runs where there is no other file.
func TestAlone(t *testing.T) {
	const most = 3_000_000
	root := t.TempDir()
	program := filepath.Join(root, "alone")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./testdata/alone")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Error("the program is to be loaded by another")
	}
	if libs, err := f.DynString(elf.DT_NEEDED); err != nil || len(libs) > 0 {
		t.Errorf("the program needs %v, %v", libs, err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > most {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), most)
	}

	run := exec.CommandContext(t.Context(), "/alone")
	run.Dir, run.Env = "/", []string{}
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Geteuid() != 0 { // who is root in a user namespace of its own may do it there
		run.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		run.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	const want = "36 true true\n"
	if out, err := run.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("in an empty folder as root: %v\n%s, want %s", err, out, want)
	}
}
