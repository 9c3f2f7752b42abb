package prove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/workload/zk"
)

func TestMain(m *testing.M) {
	weft.Worker()
	goleak.VerifyTestMain(m)
}

// keysOf are keys of a circuit called sum, of two numbers.
var keysOf = sync.OnceValues(func() (Keys, error) {
	compiled, _, err := zk.Shipped(zk.Range, 130, 1)
	if err != nil {
		return nil, err
	}
	k, err := zk.Setup(context.Background(), compiled)
	return Keys{"sum": k}, err
})

// open returns a service on one device, whose first kernels wait for gate.
func open(t *testing.T, l serve.Proofs, gate <-chan struct{}) *Service {
	t.Helper()
	funcs := zk.Funcs()
	coset := funcs["zk.coset"]
	funcs["zk.coset"] = func(c *weft.Call, lo, hi int) {
		<-gate
		coset(c, lo, hi)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	keys, err := keysOf()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(rt, keys, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads a witness of numbers x and 1.
func read(t *testing.T, s *Service, x int) *statement {
	t.Helper()
	q, err := s.Read("sum", fmt.Appendf(nil, `{"Values":[%d,1],"Sum":%d}`, x, x+1))
	if err != nil {
		t.Fatal(err)
	}
	return q.(*statement)
}

// Of proofs that wait the one whose deadline is nearest is made first, and those without one last.
func TestTurns(t *testing.T) {
	gate := make(chan struct{})
	s := open(t, serve.Proofs{Concurrent: 1, Queue: 9, Time: serve.Duration(time.Hour)}, gate)
	var mu sync.Mutex
	var order []int
	var wait sync.WaitGroup
	for i, left := range []time.Duration{0, 0, 40 * time.Minute, 20 * time.Minute, 0, 30 * time.Minute} {
		q := read(t, s, i)
		ctx, cancel := context.WithCancel(t.Context())
		if left > 0 {
			ctx, cancel = context.WithTimeout(ctx, left)
		}
		defer cancel()
		wait.Go(func() {
			client := ""
			if left > 0 {
				client = fmt.Sprint(i)
			}
			if err := s.enter(client); err != nil {
				t.Error(err)
				return
			}
			defer s.leave(client)
			if err := s.turn(ctx, q.c); err != nil {
				t.Error(err)
				return
			}
			if i == 0 {
				<-gate
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			s.next(q.c)
		})
		poll.True(t, "its place", func() bool { v := s.Stats()[0]; return v.Running+v.Waiting == i+1 })
	}
	close(gate)
	wait.Wait()
	if want := []int{0, 3, 5, 2, 1, 4}; !slices.Equal(order, want) {
		t.Errorf("proofs were made in the order %v, want %v", order, want)
	}
	if v := s.Stats()[0]; v.Running != 0 || v.Waiting != 0 || len(s.of) != 0 || s.running != 0 {
		t.Errorf("%+v, %v", v, s.of)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A proof of a job has its turn among those of clients that keep coming with near deadlines.
func TestJobAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, near = time.Minute, 5 * time.Second
		s := &Service{limits: serve.Proofs{Concurrent: 1, Queue: 9, Time: serve.Duration(long)}, ctx: t.Context()}
		c := &circuit{}
		if err := s.turn(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		made := make(chan bool)
		begun := time.Now()
		go func() {
			if err := s.turn(t.Context(), c); err != nil {
				t.Error(err)
			}
			close(made)
		}()
		synctest.Wait()
		over := false
		for i := 0; !over; i++ { // a second for each
			if i > 100 {
				t.Fatal("the proof of a job was not begun among a hundred of clients")
			}
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), near)
				defer cancel()
				if err := s.turn(ctx, c); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			time.Sleep(time.Second) // by the clock of the bubble
			s.next(c)
			synctest.Wait()
			select {
			case <-made:
				over = true
			default:
			}
		}
		if waited := time.Since(begun); waited < long-near || waited > long {
			t.Errorf("the proof of a job waited %v, and a client may wait %v", waited, long)
		}
		s.next(c) // to the client that came last
		synctest.Wait()
		s.next(c)
		if s.running != 0 || len(s.waiting) != 0 || c.stats.Waiting != 0 || c.stats.Running != 0 {
			t.Errorf("%d run and %d wait: %+v", s.running, len(s.waiting), c.stats)
		}
	})
}

// Places are limited, of all clients and of one.
func TestPlaces(t *testing.T) {
	s := &Service{limits: serve.Proofs{Concurrent: 1, Queue: 3}, of: make(map[string]int)}
	for _, c := range []struct {
		client string
		says   string
	}{{"ann", ""}, {"ann", ""}, {"ann", "2 of them are yours"}, {"bob", ""}, {"bob", ""}, {"eve", "4 are the most"}, {"", ""}} {
		err := s.enter(c.client)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, serve.ErrBusy) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q: %v, want %q", c.client, err, c.says)
		}
	}
	s.leave("ann")
	if err := s.enter("eve"); err != nil {
		t.Error(err)
	}
	s.closed = true
	if err := s.enter(""); !errors.Is(err, serve.ErrClosed) {
		t.Error(err)
	}
}

// The end waits for proofs under way, and cuts them off when its time is over.
func TestClose(t *testing.T) {
	for _, cut := range []bool{false, true} {
		gate := make(chan struct{})
		s := open(t, serve.Proofs{Concurrent: 1, Queue: 9, Time: serve.Duration(time.Hour)}, gate)
		results := make(chan error, 2)
		for range 2 {
			q := read(t, s, 1)
			go func() {
				_, err := q.Prove(t.Context(), "ann")
				q.Forget()
				results <- err
			}()
		}
		poll.True(t, "two proofs", func() bool { v := s.Stats()[0]; return v.Running == 1 && v.Waiting == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		poll.True(t, "the end to begin", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.closed })
		q := read(t, s, 1)
		if _, err := q.Prove(t.Context(), "bob"); !errors.Is(err, serve.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if cut {
			cancel()
			poll.True(t, "those that wait to be sent away", func() bool { return s.Stats()[0].Waiting == 0 })
		}
		close(gate)
		for range 2 {
			if err := <-results; cut != errors.Is(err, serve.ErrClosed) || !cut && err != nil {
				t.Errorf("cut off %v: %v", cut, err)
			}
		}
		if err := <-closed; cut != (err != nil) {
			t.Errorf("cut off %v: %v", cut, err)
		}
		cancel()
	}
}

// Circuits are read from a folder, within limits. What is wrong is said with its place.
func TestReadKeys(t *testing.T) {
	keys, err := keysOf()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	refused := func(dir string, l serve.Proofs, says string) {
		t.Helper()
		if _, err := ReadKeys(dir, l); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, says)
		}
	}
	refused(filepath.Join(dir, "none"), serve.Proofs{}, ": weft zk setup ")
	refused(dir, serve.Proofs{}, "has no folder with keys: weft zk setup ")
	if err := keys["sum"].Write(filepath.Join(dir, "sum")); err != nil {
		t.Fatal(err)
	}
	got, err := ReadKeys(dir, serve.Proofs{Constraints: 131})
	if err != nil || len(got) != 1 || got["sum"] == nil || !got["sum"].ForTests {
		t.Errorf("%v %v", got, err)
	}
	refused(dir, serve.Proofs{Constraints: 130}, "131 constraints, and 130 are the most: raise proofs.constraints")
	if err := os.Mkdir(filepath.Join(dir, "a b"), 0o777); err != nil {
		t.Fatal(err)
	}
	refused(dir, serve.Proofs{Constraints: 131}, "name it by letters")
	if err := os.Rename(filepath.Join(dir, "a b"), filepath.Join(dir, "empty")); err != nil {
		t.Fatal(err)
	}
	refused(dir, serve.Proofs{Constraints: 131}, filepath.Join("empty", "circuit.r1cs"))
}
