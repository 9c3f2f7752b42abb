package exec_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// sumBytes is a native routine: every member gets the sum of what all bring.
func sumBytes(args [][][]byte, _ []byte) error {
	n := len(args[0][0])
	for i := range n {
		sum := byte(0)
		for _, a := range args {
			sum += a[0][i]
		}
		for _, a := range args {
			a[1][i] = sum
		}
	}
	return nil
}

// native is a gang of three that sums bytes.
func native(t *testing.T, number uint64) *graph.Graph {
	t.Helper()
	var b graph.Builder
	task := graph.Task{
		Name: "sum", Gang: 3, Retries: -1,
		Steps: []graph.Step{{
			Kernel: &graph.Kernel{Name: "native", Impls: []graph.Impl{{Dialect: graph.Library, Entry: "nccl.sum"}}},
			Params: binary.LittleEndian.AppendUint64(nil, number),
		}},
	}
	for r := range 3 {
		in := b.Data(graph.Data{Name: fmt.Sprintf("in %d", r), Bytes: 1000, Input: true})
		out := b.Data(graph.Data{Name: fmt.Sprintf("out %d", r), Bytes: 1000, Output: true})
		task.Uses = append(task.Uses,
			graph.Use{Data: in, Rank: int16(r)}, graph.Use{Data: out, Access: graph.Write, Rank: int16(r)})
	}
	b.Add(task)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sayings is a log that is read while it is written.
type sayings struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *sayings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sayings) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}

func TestNativeGang(t *testing.T) {
	for _, c := range []struct {
		name, script string
		deadline     bool
		want         string // of the error of the first run, or another after a bar; empty for none
		after        bool   // devices are there to join again
	}{
		{name: "well", after: true},
		{name: "a member fails", script: "on 1 fail kernel native times 1", want: "failed by the script", after: true},
		{name: "what a member reads fails", script: "on 1 fail copies times 1", want: "no rank of communicator", after: true},
		{name: "a member is lost", script: "on 1 lose kernel native; on 1 revive standby fails; on 1 revive restart fails; on 1 revive reopen fails", want: "no device|no rank of communicator"},
		{name: "a member is lost and back", script: "on 1 lose kernel native times 1", want: "no rank of communicator", after: true},
		{name: "the deadline passes", script: "on 1 hang kernel native times 1", deadline: true, want: "deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := fake.Parse("devices 3; memory 1048576; joins nccl; " + c.script)
			if err != nil {
				t.Fatal(err)
			}
			o.Natives = map[string]func([][][]byte, []byte) error{"nccl.sum": sumBytes}
			drv, err := fake.New(o)
			if err != nil {
				t.Fatal(err)
			}
			copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			var log sayings
			x, err := exec.Open(ctx, exec.Config{Drivers: []driver.Driver{drv}, Copier: copier[0], Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close(ctx)
			devs := []machine.DeviceID{0, 1, 2}
			number, err := x.Join(ctx, devs)
			if err != nil {
				t.Fatal(err)
			}
			run := func(ctx context.Context, number uint64) error {
				var mem [6][]byte
				for i := range mem {
					mem[i] = make([]byte, 1000)
					mem[i][7] = byte(10 * i)
				}
				_, err := x.Run(ctx, native(t, number), engine.RunOptions{}, func(d graph.DataID) []byte { return mem[d] })
				for r := 0; r < 3 && err == nil; r++ {
					if got := mem[2*r+1][7]; got != 0+20+40 {
						t.Errorf("rank %d has %d, want 60", r, got)
					}
				}
				return err
			}
			ended := make(chan error, 1)
			short, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			go func() { ended <- run(short, number) }()
			var tick <-chan time.Time
			if c.deadline {
				stop(errors.New("a deadline"))
				tick = time.Tick(time.Second) // by then the loop has heard of it
			}
			for over := false; !over; {
				select {
				case err = <-ended:
					over = true
				case <-tick: // the hung member ends once it hangs; the others must not wait for it
					if err := drv.Play("on 1 release"); err != nil {
						t.Fatal(err)
					}
				case <-ctx.Done():
					t.Fatal("a gang does not end")
				}
			}
			said := func(want string) bool { return strings.Contains(err.Error(), want) }
			if c.want == "" != (err == nil) || err != nil && !slices.ContainsFunc(strings.Split(c.want, "|"), said) {
				t.Errorf("the run ends with %v, want %q", err, c.want)
			}
			if !c.after {
				return
			}
			if c.want == "" {
				if err := run(ctx, number); err != nil {
					t.Errorf("once more: %v", err)
				}
			}
			if number, err = x.Join(ctx, devs); err != nil {
				t.Fatal(err)
			}
			if err := run(ctx, number); err != nil {
				t.Errorf("after that: %v", err)
			}
			// A device that is lost ends no collective that had ended.
			const given = "native collective given up"
			before := log.count(given)
			was, _ := x.Status()
			if err := drv.Play("on 1 lose"); err != nil {
				t.Fatal(err)
			}
			poll.True(t, "the loss is heard of", func() bool {
				now, _ := x.Status()
				return now[1].Losses != was[1].Losses
			})
			if got := log.count(given); got != before {
				t.Errorf("%d collectives were given up that had ended", got-before)
			}
		})
	}
}

func TestJoinMistakes(t *testing.T) {
	o, err := fake.Parse("devices 2; joins nccl; on 1 lose")
	if err != nil {
		t.Fatal(err)
	}
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	x, err := exec.Open(ctx, exec.Config{Drivers: []driver.Driver{drv, cpu.New(cpu.Options{})}, Copier: copier[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(ctx)
	for want, devs := range map[string][]machine.DeviceID{
		"there is no device 9":  {0, 9},
		"there is no device -1": {machine.Host},
		"no devices":            nil,
		"cannot be two ranks":   {0, 0},
		"no native collectives": {0, 2},
		"not available":         {0, 1}, // and the first does not wait for it
	} {
		if number, err := x.Join(ctx, devs); number != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("join of %v: %d, %v, want %q", devs, number, err, want)
		}
	}
}
