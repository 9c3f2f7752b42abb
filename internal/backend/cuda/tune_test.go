//go:build gpu || stub || cgo

package cuda

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// threadsPTX notes how many threads a block has, and how many blocks there are.
const threadsPTX = `.version 6.3
.target sm_75
.address_size 64
.visible .entry threads(.param .u64 x)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd1, [x];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %ntid.x;
	st.global.u32 [%rd2], %r1;
	mov.u32 %r2, %nctaid.x;
	st.global.u32 [%rd2+4], %r2;
	ret;
}
`

func threadsKernel(source string) *graph.Kernel {
	return &graph.Kernel{Name: "threads", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "threads", Source: []byte(source)}}}
}

// shape runs a kernel that leaves its block open over n items and returns the
// threads of a block and the blocks it was given.
func shape(r *rig, k *graph.Kernel, n int, block uint32) (threads, blocks uint32) {
	r.Helper()
	b := r.alloc(8)
	out := make([]uint32, 2)
	task := &graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(n)}, Block: [3]uint32{block}}}}}
	r.must(r.copyOut(bytesOf(out), b, r.launch(0, task, args(8, b))))
	r.submit(driver.Op{Kind: driver.Free, Buf: b})
	return out[0], out[1]
}

// A kernel that leaves its block to the device is launched in shapes that fill it,
// and in the fastest once that is known; what was found can be kept, and holds for
// that kernel and size only.
func TestShapes(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	const n = 100_000
	k := threadsKernel(threadsPTX)
	var seen []uint32
	for range maxShapes*trials + 3 {
		threads, blocks := shape(r, k, n, 0)
		if threads < 32 || threads > 1024 || blocks != (n-1)/threads+1 {
			t.Fatalf("%d items in %d blocks of %d threads", n, blocks, threads)
		}
		seen = append(seen, threads)
	}
	different := slices.Clone(seen)
	slices.Sort(different)
	if different = slices.Compact(different); len(different) < 2 || len(different) > maxShapes {
		t.Errorf("blocks of %v threads were tried", different)
	}
	got := r.dev.(driver.Tuner).Tuning()
	if len(got) != 1 || got[0].Kernel != "threads" || got[0].Class != 17 || !slices.Contains(different, uint32(got[0].Block)) || got[0].NS <= 0 {
		t.Fatalf("tuning is %+v", got)
	}
	for range 3 {
		if threads, _ := shape(r, k, n, 0); int(threads) != got[0].Block {
			t.Errorf("a block has %d threads, %d were found best", threads, got[0].Block)
		}
	}
	if threads, blocks := shape(r, k, 7, 96); threads != 96 || blocks != 7 {
		t.Errorf("a step that says its block is given %d blocks of %d threads", blocks, threads)
	}
	kept := got[0]
	kept.Block = int(different[len(different)-1])
	next := openRig(t, Options{Devices: []int{0}})
	next.dev.(driver.Tuner).Tune([]driver.Tuned{kept})
	for range 2 {
		if threads, _ := shape(next, k, n, 0); int(threads) != kept.Block {
			t.Errorf("with %+v a block has %d threads", kept, threads)
		}
	}
	// Of another source nothing is known: shapes are tried from the first on.
	other := openRig(t, Options{Devices: []int{0}})
	other.dev.(driver.Tuner).Tune([]driver.Tuned{kept})
	var tried []uint32
	k = threadsKernel(threadsPTX + "\n")
	for range maxShapes {
		threads, _ := shape(other, k, n, 0)
		tried = append(tried, threads)
	}
	if !slices.Equal(tried, seen[:maxShapes]) {
		t.Errorf("another kernel of the same name is launched in blocks of %v threads, want %v", tried, seen[:maxShapes])
	}
}

// What occupancy says reaches the error of a cooperative launch that is too large.
func TestCooperativeTooLarge(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	const blocks = 1 << 20
	b := r.alloc(4 * (blocks + 1))
	task := &graph.Task{Steps: []graph.Step{{Kernel: testKernel("meet"), Launch: graph.Launch{
		Grid: [3]uint32{blocks}, Block: [3]uint32{1}, Cooperative: true}}}}
	c := r.wait(r.launch(0, task, args(4*(blocks+1), b)))
	if c.Err == nil || !strings.Contains(c.Err.Error(), "fit at once") {
		t.Errorf("%d blocks that must run at once: %v", blocks, c.Err)
	}
}
