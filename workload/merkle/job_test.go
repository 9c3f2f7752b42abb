package merkle_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/merkle"
)

// onDevices calls do with a runtime of one to eight devices.
func onDevices(t *testing.T, do func(t *testing.T, rt *weft.Runtime)) {
	for parts := 1; parts <= 8; parts++ {
		t.Run(fmt.Sprintf("cpu/%d", parts), func(t *testing.T) {
			rt := workloadtest.Open(t, parts, merkle.Funcs())
			do(t, rt)
		})
	}
}

// run runs and checks a job.
func run(t *testing.T, rt *weft.Runtime, c merkle.Config) (*merkle.Job, *workload.Result) {
	t.Helper()
	j := workloadtest.New[*merkle.Job](t)(merkle.New(c))
	res := workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	return j, res
}

// The known roots, on any number of devices.
func TestJobVectors(t *testing.T) {
	var four []byte
	for i := range 4 {
		four = append(four, bytes.Repeat([]byte{byte(i + 1)}, merkle.Size)...)
	}
	onDevices(t, func(t *testing.T, rt *weft.Runtime) {
		for _, c := range []struct {
			config merkle.Config
			want   string
		}{
			{merkle.Config{N: 5, Mode: merkle.Dup}, "da6f7f6db719c1b4e2e7b6c132fe8f52f905487e5502bf568f9219edb8bf7bde"},
			{merkle.Config{N: 5, Mode: merkle.RFC6962}, "3f35561797baf07cd5bb2f67b799f12a67d641ea89c61d6aee54217690dca7af"},
			{merkle.Config{Leaves: four, Mode: merkle.Dup}, "2c0c4083be2badf7c9f9046d8730d21e034c1ce50f519c166d7605848b17b0d5"},
		} {
			j, _ := run(t, rt, c.config)
			root := j.Root()
			if got := hex.EncodeToString(root[:]); got != c.want || j.Summary() != "root "+c.want {
				t.Errorf("%s: %s (%s), want %s", j.Name(), got, j.Summary(), c.want)
			}
		}
	})
}

// Trees that are cut into many ranges have the root that the library of
// Certificate Transparency computes, or the one of the definition.
func TestJobOnDevices(t *testing.T) {
	sizes := []int{1, 2, 64, 65, 4095, 4096, 4097, 10_007}
	want := make(map[int][]byte)
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	tree := factory.NewEmptyRange(0)
	for i := range sizes[len(sizes)-1] {
		leaf := make([]byte, merkle.Size)
		leaf[2], leaf[3] = byte(i>>8), byte(i)
		if err := tree.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil); err != nil {
			t.Fatal(err)
		}
		root, err := tree.GetRootHash(nil)
		if err != nil {
			t.Fatal(err)
		}
		want[i+1] = root
	}
	onDevices(t, func(t *testing.T, rt *weft.Runtime) {
		for _, n := range sizes {
			j, res := run(t, rt, merkle.Config{N: n})
			workloadtest.Declares(t, j)
			if root := j.Root(); !bytes.Equal(root[:], want[n]) {
				t.Errorf("%s: %x, want %x", j.Name(), root, want[n])
			}
			if devices := len(res.Partition.Ranges); n > 4000 && devices > 1 && res.Tasks < 3 {
				t.Errorf("%s: %d devices and only %d tasks", j.Name(), devices, res.Tasks)
			}
			run(t, rt, merkle.Config{N: n, Mode: merkle.Dup})
		}
	})
}

// A second run of the same job gives the same root again, and Check sees a leaf
// that changed since.
func TestJobChecks(t *testing.T) {
	rt := workloadtest.Open(t, 2, merkle.Funcs())
	leaves := make([]byte, 100*merkle.Size)
	j, _ := run(t, rt, merkle.Config{Leaves: leaves})
	first := j.Root()
	if workloadtest.Run(t, rt, j); j.Root() != first {
		t.Errorf("the second run: root %x, want %x", j.Root(), first)
	}
	leaves[99*merkle.Size]++
	if j.Check() == nil {
		t.Error("a changed leaf goes unnoticed")
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []merkle.Config{
		{},
		{N: -1},
		{N: 1<<26 + 1},
		{N: 1, Mode: 2},
		{Leaves: []byte{}},
		{Leaves: make([]byte, 33)},
		{N: 1, Leaves: make([]byte, 32)},
	} {
		_, err := merkle.New(c)
		if !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []merkle.Mode{merkle.RFC6962, merkle.Dup} {
		if got, err := merkle.ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := merkle.ParseMode("sha1"); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("sha1: error %v", err)
	}
}

// A job that was fed has its leaves in the memory it was given, until they are
// back where they were.
func TestJobFed(t *testing.T) {
	rt := workloadtest.Open(t, 1, merkle.Funcs())
	j := workloadtest.New[*merkle.Job](t)(merkle.New(merkle.Config{N: 1000}))
	roots := make(map[[merkle.Size]byte]string)
	hash := func(what string) {
		t.Helper()
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		roots[j.Root()] += what
	}
	hash("before ")
	var fed []byte
	restore, err := j.Feed(func(n int) ([]byte, error) {
		fed = make([]byte, n)
		return fed, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hash("fed ")
	fed[1234]++
	hash("changed")
	restore()
	hash("after")
	if len(roots) != 2 || roots[j.Root()] != "before fed after" {
		t.Errorf("roots are %v", roots)
	}
	if _, err := j.Feed(func(int) ([]byte, error) { return nil, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("fed without memory: %v", err)
	}
	done, err := workload.Feed(rt, j) // nothing is copied to a CPU
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	hash("")
}
