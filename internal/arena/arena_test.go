//go:build linux

package arena_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
)

// The test binary is also the other process of TestBoardAcrossProcesses, and the one
// with limits of TestLimitsOfTheProcess.
func TestMain(m *testing.M) {
	if which := os.Getenv("WEFT_TEST_LIMIT"); which != "" {
		limited(which)
		return
	}
	if off := os.Getenv("WEFT_TEST_BOARD"); off != "" {
		answer(off)
		return
	}
	os.Exit(m.Run())
}

func open(t *testing.T, limit int64) *arena.Arena {
	t.Helper()
	a, err := arena.Open(limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func get(t *testing.T, a *arena.Arena, n int64) []byte {
	t.Helper()
	b, err := a.Get(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGetAndFind(t *testing.T) {
	a := open(t, 1<<30)
	small, large, huge := get(t, a, 100), get(t, a, 5000), get(t, a, 100<<20)
	for _, b := range [][]byte{small, large, huge} {
		off, ok := a.Find(b)
		if !ok {
			t.Fatalf("%d bytes are not found where they were taken", len(b))
		}
		segs := a.Segments()
		k := arena.SegmentOf(segs, off)
		if k < 0 || off+int64(len(b)) > segs[k].Off+segs[k].Len {
			t.Errorf("%d bytes at %d are not within one segment of %v", len(b), off, segs)
		}
		for i := range min(len(b), 5000) {
			b[i] = byte(len(b))
		}
	}
	if small[7] != 100 || large[7] != 5000%256 {
		t.Error("extents overlap")
	}
	if _, ok := a.Find(make([]byte, 10)); ok {
		t.Error("memory of the Go heap was found in the arena")
	}
	used := a.Used()
	a.Put(huge)
	if again := get(t, a, 100<<20); &again[0] != &huge[0] {
		t.Error("memory that was given back is not used again")
	}
	if a.Used() != used {
		t.Errorf("%d bytes used, want %d", a.Used(), used)
	}
}

func TestLimit(t *testing.T) {
	a := open(t, 10<<20)
	b := get(t, a, 8<<20)
	if _, err := a.Get(8 << 20); !errors.Is(err, arena.ErrFull) && err == nil {
		t.Fatal("more than the limit was given out")
	}
	a.Put(b)
	get(t, a, 8<<20)
}

func TestHold(t *testing.T) {
	a := open(t, 1<<30)
	b := get(t, a, 1<<20)
	first, second := a.Hold(b[100:200]), a.Hold(b)
	a.Put(b)
	if c := get(t, a, 1<<20); &c[0] == &b[0] {
		t.Fatal("held memory was given out")
	}
	first()
	if c := get(t, a, 1<<20); &c[0] == &b[0] {
		t.Fatal("memory still held was given out")
	}
	second()
	if c := get(t, a, 1<<20); &c[0] != &b[0] {
		t.Fatal("memory no longer held stays away")
	}
}

// Two processes wait for each other's operations on one board.
func TestBoardAcrossProcesses(t *testing.T) {
	a := open(t, 64<<20)
	b, err := a.Board(3)
	if err != nil {
		t.Fatal(err)
	}
	dup, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(a.FD()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dup.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WEFT_TEST_BOARD="+strconv.FormatInt(a.Size(), 10))
	off, fd, _ := a.BoardAt(b)
	own, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, l := range []driver.Lane{1, 2} {
		b.Away(l)
		b.Given(l, 1<<30)
	}
	cmd.Env = append(cmd.Env, "WEFT_TEST_BOARD_AT="+strconv.FormatInt(off, 10))
	cmd.ExtraFiles = []*os.File{dup, own}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const rounds = 500
	for i := uint32(1); i <= rounds; i++ {
		b.Done(0, i, i%7 == 0)
		w := driver.Wait{Lane: 1, Seq: i}
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill(); panic("the other process does not answer") })
		b.Sleep(func() bool { done, _ := b.State(w); return done })
		late.Stop()
		// It fails what ours failed.
		if _, ok := b.State(w); ok == (i%7 == 0) {
			t.Fatalf("operation %d: ok is %v in the other process", i, ok)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := b.Count(2); n < 1 || time.Duration(n)*time.Millisecond > b.Now()+time.Second {
		t.Errorf("the other process's clock showed %d ms, ours %v", n, b.Now())
	}
}

// What this process tells on a board cannot be written by those who join it.
func TestBoardIsReadOnly(t *testing.T) {
	a := open(t, 64<<20)
	b, err := a.Board(3)
	if err != nil {
		t.Fatal(err)
	}
	_, fd, _ := a.BoardAt(b)
	if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&unix.F_SEAL_FUTURE_WRITE == 0 {
		t.Skipf("the kernel has no seal against writing: seals %#x, %v", seals, err)
	}
	if mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(mem)
		t.Error("it was mapped for writing")
	}
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("it was cut off")
	}
}

// Who slept on a board leaves nothing behind that looks at its memory when the arena
// is closed: that would end the process.
func TestCloseAfterSleep(t *testing.T) {
	for range 20 {
		a := open(t, 1<<20)
		b, err := a.Board(1)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		looks := make(chan struct{}, 1000)
		wg.Go(func() {
			b.Sleep(func() bool {
				looks <- struct{}{}
				return b.Count(0) == 1
			})
		})
		<-looks // before it sleeps,
		<-looks // and when the one who listens to other processes has begun
		b.Done(0, 1, false)
		wg.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("driver.(*shared).watch(")) {
			t.Fatalf("somebody still looks at the board:\n%s", stacks)
		}
	}
}

func answer(size string) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		panic(err)
	}
	mem, err := arena.Map(3, n)
	if err != nil {
		panic(err)
	}
	off, err := strconv.ParseInt(os.Getenv("WEFT_TEST_BOARD_AT"), 10, 64)
	if err != nil {
		panic(err)
	}
	b, err := arena.JoinBoard(mem, off, 4, 1)
	if err != nil {
		panic(err)
	}
	for i := uint32(1); i <= 500; i++ {
		w := driver.Wait{Lane: 0, Seq: i}
		b.Sleep(func() bool { done, _ := b.State(w); return done })
		_, ok := b.State(w)
		b.Done(1, i, !ok)
	}
	b.Done(2, uint32(max(b.Now()/time.Millisecond, 1)), false)
}

// An arena is no larger than a file and the address space of the process may be; where
// that leaves too little, Open says so.
func TestLimitsOfTheProcess(t *testing.T) {
	for _, which := range []string{"file", "space", "none"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WEFT_TEST_LIMIT="+which)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", which, err, out)
		}
	}
}

// limited is the process that has a limit.
func limited(which string) {
	const file, room = 128 << 20, 1 << 30
	resource, limit, most := unix.RLIMIT_FSIZE, uint64(file), int64(file)
	switch which {
	case "none":
		limit, most = 1<<20, 0
	case "space":
		text, _ := os.ReadFile("/proc/self/statm")
		pages, _ := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
		// Go's heap reserves addresses 64 MiB at a time and may return as many after they
		// were counted: the process then has up to 128 MiB more than room.
		const returned = 128 << 20
		resource, limit, most = unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+room, (room+returned)/2
	}
	must := func(ok bool, what string, args ...any) {
		if !ok {
			fmt.Printf(what+"\n", args...)
			os.Exit(1)
		}
	}
	err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit})
	must(err == nil, "set the limit: %v", err)
	for _, asked := range []int64{0, 1 << 40} {
		a, err := arena.Open(asked)
		if most == 0 {
			must(errors.Is(err, arena.ErrFull), "an arena without room: %v", err)
			continue
		}
		must(err == nil, "an arena: %v", err)
		must(a.Size() > 0 && a.Size() <= most, "an arena of %d bytes, more than %d", a.Size(), most)
		b, err := a.Get(a.Size() / 2)
		must(err == nil, "half of it: %v", err)
		clear(b)
		must(a.Close() == nil, "it does not close")
	}
}
