//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

func init() {
	funcs["flood"], funcs["descriptors"] = flood, descriptors
	makers["learned"] = func(config []byte, device int) (driver.Driver, error) {
		d, err := makeFake(nil, device)
		return learned{d}, err
	}
}

// flooded is how much flood prints.
const flooded = 64 << 20

// flood prints more than anybody wants to read.
func flood(*driver.Call, int, int) {
	line := []byte(strings.Repeat("much ", 200) + "\n")
	for range flooded / len(line) {
		_, _ = os.Stderr.Write(line)
	}
}

// descriptors sends the parent descriptors it did not ask for, as part of all kinds
// of message.
func descriptors(*driver.Call, int, int) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || !strings.HasPrefix(to, "socket:") {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			panic(err)
		}
		for i := range strays {
			text := []string{`{"k":"log","text":"look"}`, `{"k":"answer","id":1000000}`}[i%2]
			for {
				if err := unix.Sendmsg(fd, []byte(text), unix.UnixRights(0, 1, 2), nil, 0); err == nil {
					break
				} else if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ETOOMANYREFS) {
					panic(err)
				}
				time.Sleep(time.Millisecond) // the parent has not read what is there
			}
		}
		return // a second descriptor would be of the same socket
	}
}

// strays is how many messages with descriptors are sent.
const strays = 200

// learned is a driver whose devices know more about kernels than fits into a message.
type learned struct{ driver.Driver }

func (l learned) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := l.Driver.Open(ctx, log)
	for i := range devs {
		devs[i] = &scholar{Device: devs[i], knows: lessons()}
	}
	return devs, err
}

type scholar struct {
	driver.Device
	knows []driver.Tuned
}

func (s *scholar) Tuning() []driver.Tuned { return s.knows }
func (s *scholar) Tune(ts []driver.Tuned) { s.knows = append(s.knows, ts...) }

func lessons() []driver.Tuned {
	out := make([]driver.Tuned, 500)
	for i := range out {
		out[i] = driver.Tuned{Kernel: strings.Repeat("name", 1000), Class: i}
	}
	return out
}

// What a worker prints without end is read, and logged up to a limit.
func TestFlood(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	out, _, err := r.run(t, one(t, "flood", 100, 0), make([]byte, 100))
	if err != nil || len(out) == 0 {
		t.Fatal(err)
	}
	log := r.log.String()
	if n := len(log); n > flooded/4 {
		t.Errorf("%d bytes were logged of %d", n, flooded)
	}
	if n := strings.Count(log, "prints more than is logged"); n != 1 {
		t.Errorf("it was said %d times that there is too much", n)
	}
}

// Descriptors that a worker sends without a request are closed.
func TestStrayDescriptors(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	before, _ := usage(t)
	if _, _, err := r.run(t, one(t, "descriptors", 100, 0), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the last message", func() bool { return strings.Count(r.log.String(), "msg=look") == strays/2 })
	poll.True(t, "no more descriptors than before", func() bool { n, _ := usage(t); return n <= before+5 })
}

// Decisions about kernels that take more than a message are told and asked for.
func TestTuneMuch(t *testing.T) {
	mem, err := arena.Open(1 << 28)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var book logBook
	devs, err := proc.New(proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "learned", Answer: 5 * time.Minute}).Open(t.Context(), slog.New(slog.NewTextHandler(&book, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := devs[0]
	b, err := mem.Board(7)
	if err != nil {
		t.Fatal(err)
	}
	d.Attach(b, []driver.Lane{1, 2, 3, 4, 5, 6}, func() {})
	all := lessons()
	more := bytes.Repeat([]byte("other"), 1000)
	for i := range 100 {
		all = append(all, driver.Tuned{Kernel: string(more), Class: i})
	}
	d.(driver.Tuner).Tune(all[len(all)-100:])
	if got := d.(driver.Tuner).Tuning(); !slices.Equal(got, all) {
		t.Errorf("%d decisions are known, want %d; logged:\n%s", len(got), len(all), book.String())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A worker cannot take memory away that the program has mapped: touching what is
// beyond the end of a file would end the program.
func TestTruncate(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	for path, what := range map[string]string{
		fmt.Sprintf("/proc/%d/fd/4", proc.Pids("worker")[0]): "the rings",
		fmt.Sprintf("/proc/self/fd/%d", r.mem.FD()):          "the arena", // as workers are given it
	} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{0, st.Size() + 4096} {
			if err := f.Truncate(size); !errors.Is(err, syscall.EPERM) {
				t.Errorf("%s can be given a size of %d: %v", what, size, err)
			}
		}
		f.Close()
	}
	g, in, want := chain(t, 10_000, 4, 3)
	r.mustRun(t, g, in, want)
}

// A standby that is killed is replaced, which is logged once each time.
func TestStandbyReplaced(t *testing.T) {
	r := start(t, proc.Options{Workers: proc.Workers{Standby: true}}, engine.Options{})
	for n := range 3 {
		var pid int
		poll.True(t, "a standby", func() bool {
			said := strings.Split(r.log.String(), `msg="a worker stands by" device=fake:0 pid=`)
			if len(said) != n+2 {
				return false
			}
			_, err := fmt.Sscan(said[n+1], &pid)
			return err == nil
		})
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		poll.True(t, "word of its end", func() bool { return strings.Count(r.log.String(), "no standby; another is started") > n })
	}
	poll.True(t, "the last standby", func() bool { return strings.Count(r.log.String(), "a worker stands by") > 3 })
	if n := strings.Count(r.log.String(), "no standby; another is started"); n != 3 {
		t.Errorf("%d losses were logged, want 3", n)
	}
	if s := r.state(0); s != engine.Healthy {
		t.Errorf("the device is %v", s)
	}
}
