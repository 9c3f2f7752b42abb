package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/test/poll"
)

// secretBytes is the size of the secrets in tests: copies of it are staged in three parts.
const secretBytes = 2*partBytes + 70_001

// secretive is a device, and what was given to it.
type secretive struct {
	t   *testing.T
	d   *device
	seq map[driver.Lane]uint32
	// mark repeats in secrets: memory is searched for it.
	mark []byte
}

func secrets(t *testing.T) *secretive {
	s := &secretive{t: t, d: attached(t, true), seq: make(map[driver.Lane]uint32), mark: make([]byte, 16)}
	_, _ = rand.Read(s.mark)
	return s
}

// do submits operations and returns when they are complete.
func (s *secretive) do(ops ...driver.Op) {
	s.t.Helper()
	want := 0
	for i := range ops {
		if o := &ops[i]; o.Kind == driver.Copy {
			s.seq[o.Lane]++
			o.Seq = s.seq[o.Lane]
			want++
		}
	}
	if err := s.d.Submit(ops); err != nil {
		s.t.Fatal(err)
	}
	got := make([]driver.Completion, 8)
	poll.True(s.t, "all operations end", func() bool {
		for _, c := range got[:s.d.Completions(got)] {
			if c.Err != nil {
				s.t.Fatal(c.Err)
			}
			want--
		}
		return want <= 0
	})
}

func (s *secretive) in(b driver.Buffer, host []byte, secret bool) driver.Op {
	return driver.Op{Kind: driver.Copy, Lane: s.d.lanes[1].id, Bytes: int64(len(host)), Src: driver.NoBuffer, HostSrc: host, Dst: b, Secret: secret}
}

func (s *secretive) out(b driver.Buffer, host []byte, secret bool) driver.Op {
	return driver.Op{Kind: driver.Copy, Lane: s.d.lanes[2].id, Bytes: int64(len(host)), Src: b, Dst: driver.NoBuffer, HostDst: host, Secret: secret}
}

// found counts the places with a secret in memory that the device's processes share: the arena, and the
// slabs of its memory.
func (s *secretive) found() (arena, slabs int) {
	s.t.Helper()
	count := func(fd int, off, size int64) int {
		mem := make([]byte, size)
		if _, err := unix.Pread(fd, mem, off); err != nil {
			s.t.Fatal(err)
		}
		return bytes.Count(mem, s.mark)
	}
	for _, seg := range s.d.drv.o.Memory.Segments() {
		arena += count(s.d.drv.o.Memory.FD(), seg.Off, seg.Len)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, slab := range s.d.heap.slabs {
		slabs += count(slab.fd, 0, slab.size)
	}
	return arena, slabs
}

// none fails if a secret is still in the arena, or in device memory where that is freed.
func (s *secretive) none(when string, freed bool) {
	s.t.Helper()
	var arena, slabs int
	if !poll.Within(time.Minute, func() bool { // staging is overwritten once the copy is complete
		arena, slabs = s.found()
		return arena == 0 && (slabs == 0 || !freed)
	}) {
		s.t.Errorf("%s: the secret is at %d places of the arena and %d of device memory", when, arena, slabs)
	}
}

// Nothing is left of a secret that was copied to a device and back: neither in the memory that large and
// small copies are staged in, nor in the device's. Without the marks all of that has it.
func TestSecretsLeaveNothing(t *testing.T) {
	for _, size := range []int{secretBytes, 4099} {
		for _, secret := range []bool{false, true} {
			s := secrets(t)
			host, back := bytes.Repeat(s.mark, size/16+1)[:size], make([]byte, size)
			s.do(driver.Op{Kind: driver.Alloc, Buf: 1, Bytes: int64(size)}, s.in(1, host, secret))
			if secret {
				s.none("after the copy in", false)
			} else if arena, _ := s.found(); arena == 0 {
				t.Errorf("%d bytes that are no secret are not in the arena: the test does not look there", size)
			}
			s.do(s.out(1, back, secret))
			if !bytes.Equal(back, host) {
				t.Fatalf("%d bytes come back as others", size)
			}
			s.do(driver.Op{Kind: driver.Free, Buf: 1, Secret: secret})
			s.do(driver.Op{Kind: driver.Alloc, Buf: 2, Bytes: 1}, s.in(2, []byte{1}, false))
			if secret {
				s.none("after the last copy", true)
			} else if _, slabs := s.found(); slabs == 0 {
				t.Errorf("%d bytes that are no secret are not in device memory: the test does not look there", size)
			}
		}
	}
}

// stop stops a process and returns when no thread of it runs any more, which is some time after the signal.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	running := func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d has no threads, %v", pid, err)
		}
		return slices.ContainsFunc(threads, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && !isStoppedIn(text)
		})
	}
	poll.True(t, "a process that was sent SIGSTOP stops", func() bool { return !running() })
}

// What was freed is overwritten for certain once an operation is complete that was given later.
func TestUnwiped(t *testing.T) {
	h := newHeap(true, 0)
	for next := range uint64(4) {
		h.unwiped = append(h.unwiped, unwiped{next: 2 + next/2})
	}
	for n, left := range []int{4, 4, 2, 0} {
		if h.wiped(uint64(n)); len(h.unwiped) != left {
			t.Errorf("%d are left after operation %d, want %d", len(h.unwiped), n, left)
		}
	}
}

// A worker that dies before it has overwritten a secret leaves that to the next one, and so does one that is
// lost already when the buffer is freed. A buffer that has the place since then keeps what is written to it.
func TestSecretsOfALostWorker(t *testing.T) {
	for _, when := range []string{"stopped", "lost"} {
		s := secrets(t)
		host := bytes.Repeat(s.mark, secretBytes/16)
		s.do(driver.Op{Kind: driver.Alloc, Buf: 1, Bytes: int64(len(host))}, s.in(1, host, true))
		pid := s.d.serving.Load().pid()
		stop(t, pid)
		free := func() { s.do(driver.Op{Kind: driver.Free, Buf: 1, Secret: true}) }
		if when == "stopped" {
			free()
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = loss(t, s.d)
		if when == "lost" {
			free()
		}
		if _, slabs := s.found(); slabs == 0 {
			t.Errorf("%s: the secret is gone before the next worker, which the test is about", when)
		}
		if kept, err := s.d.Revive(context.Background(), driver.Restart); err != nil || !kept {
			t.Fatalf("kept %v, %v", kept, err)
		}
		next := bytes.Repeat([]byte{7}, len(host)/2)
		back := make([]byte, len(next))
		s.do(driver.Op{Kind: driver.Alloc, Buf: 2, Bytes: int64(len(next))}, s.in(2, next, false))
		s.none(when, true)
		for range 2 { // and again by another worker, which has nothing to overwrite
			s.do(s.out(2, back, false))
			if !bytes.Equal(back, next) {
				t.Fatalf("%s: the next buffer has lost what was written to it", when)
			}
			if err := syscall.Kill(s.d.serving.Load().pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = loss(t, s.d)
			if kept, err := s.d.Revive(context.Background(), driver.Restart); err != nil || !kept {
				t.Fatalf("kept %v, %v", kept, err)
			}
		}
	}
}

// An operation without work does not say that what was freed before it is overwritten: a GPU is not asked
// for it, and so it waits for no wipe.
func TestUnwipedBesideNothing(t *testing.T) {
	s := secrets(t)
	s.do(driver.Op{Kind: driver.Alloc, Buf: 1, Bytes: 16}, s.in(1, s.mark, true))
	s.do(driver.Op{Kind: driver.Free, Buf: 1, Secret: true})
	left := func() int {
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		return len(s.d.heap.unwiped)
	}
	lane := s.d.lanes[0].id
	s.seq[lane]++
	if err := s.d.Submit([]driver.Op{{Kind: driver.Launch, Lane: lane, Seq: s.seq[lane], Task: nothing}}); err != nil {
		t.Fatal(err)
	}
	got := make([]driver.Completion, 1)
	poll.True(t, "an operation without work ends", func() bool { return s.d.Completions(got) > 0 })
	if n := left(); n != 1 {
		t.Errorf("after an operation without work %d buffers are to be overwritten, want 1", n)
	}
	s.do(driver.Op{Kind: driver.Alloc, Buf: 2, Bytes: 1}, s.in(2, []byte{1}, false))
	if n := left(); n != 0 {
		t.Errorf("after a copy %d buffers are to be overwritten, want none", n)
	}
}
