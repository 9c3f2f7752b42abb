package merkle

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// modeNames are the names of the modes, in their order.
var modeNames = [...]string{RFC6962: "rfc6962", Dup: "dup"}

// String returns the name of a mode, as ParseMode takes it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("unknown(%d)", uint8(m))
}

// ParseMode returns the mode with a name.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("merkle: mode %q: %w: use rfc6962 or dup", name, workload.ErrConfig)
}

// maxLeaves bounds the memory of a tree: 2 GiB of leaves.
const maxLeaves = 1 << 26

// Config says which tree to compute.
type Config struct {
	// N is the number of leaves; leaf i is i as a big-endian 32-bit word and 28
	// zero bytes.
	N int
	// Leaves, when not nil, are used instead, Size bytes each, and N is zero.
	// They must not change while the job is in use.
	Leaves []byte
	// Hashed says that Leaves are the hashes of leaves, in mode RFC6962.
	Hashed bool
	Mode   Mode
}

// Validate reports a configuration that names no tree.
func (c Config) Validate() error {
	n := c.N
	if c.Leaves != nil {
		if c.N != 0 || len(c.Leaves)%Size != 0 {
			return fmt.Errorf("merkle: %d bytes of leaves and a count of %d: %w: leaves are %d bytes each and count themselves", len(c.Leaves), c.N, workload.ErrConfig, Size)
		}
		n = len(c.Leaves) / Size
	}
	if n < 1 || n > maxLeaves {
		return fmt.Errorf("merkle: %d leaves: %w: there must be 1 to %d", n, workload.ErrConfig, maxLeaves)
	}
	if int(c.Mode) >= len(modeNames) {
		return fmt.Errorf("merkle: mode %v: %w: use rfc6962 or dup", c.Mode, workload.ErrConfig)
	}
	if c.Hashed && (c.Mode != RFC6962 || c.Leaves == nil) {
		return fmt.Errorf("merkle: hashed leaves: %w: they are given, in mode rfc6962", workload.ErrConfig)
	}
	return nil
}

// Bytes is the host memory that the job takes at most: the leaves, and the nodes above
// them, which are as many.
func (c Config) Bytes() float64 {
	return 2 * (Size*float64(c.N) + float64(len(c.Leaves)))
}

// job is one tree. Chunks of 2^h leaves are dealt out, each is reduced to one
// node, and last tasks reduce the nodes to the root.
type job struct {
	workload.Declared
	mode      Mode
	digests   int // 1 where the leaves are hashed already
	n         int
	h, chunks int
	leaves    []byte
	nodes     []byte // of the chunks, after a run; nil where they are not asked for
	root      [Size]byte
}

// The bounds of a chunk's height. A lower one would leave vectors empty; a higher
// one would not stay in a core's cache, nor in the memory that a block of a GPU
// shares.
const (
	minHeight = 6
	maxHeight = 11
)

// manyChunks is the number of chunks unless that makes them too small: enough for even shares
// on any number of devices.
const manyChunks = 256

// New makes the leaves.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &job{mode: c.Mode, leaves: c.Leaves}
	if c.Hashed {
		j.digests = 1
	}
	if j.leaves == nil {
		j.leaves = make([]byte, c.N*Size)
		for i := range c.N {
			binary.BigEndian.PutUint32(j.leaves[i*Size:], uint32(i))
		}
	}
	j.n = len(j.leaves) / Size
	h, _ := chunksOf(j.n, manyChunks)
	// A chunk taller than the tree would hash the root of Dup with itself.
	j.h = min(max(h, minHeight), maxHeight, heightOf(j.n))
	j.chunks = (j.n + 1<<j.h - 1) >> j.h
	return j.declare(), nil
}

var (
	// chunkKernel reduces chunks of leaves; its arguments are leaves and nodes,
	// its grid the chunks.
	chunkKernel = workload.With(graph.GoKernel("merkle.chunks"), workload.PTX(ptx, "merkle_chunks", 256), workload.SPIRV(spirv, "merkle_chunks", 128))
	// rootKernel reduces nodes; its arguments are nodes, the root and a workspace
	// for half of the nodes.
	rootKernel = workload.With(graph.GoKernel("merkle.root"), workload.PTX(ptx, "merkle_root", 256), workload.SPIRV(spirv, "merkle_root", 128))
)

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "merkle.chunks", Does: fmt.Sprintf("the node above each chunk of 2^height leaves of %d bytes", Size), Grid: "chunks",
		Args: []signature.Arg{signature.In("leaves", graph.U1), signature.Out("nodes", graph.U1)},
	}, func(_ *weft.Call, p chunkParams) (n signature.Need, err error) {
		if p.height > maxHeight {
			return n, fmt.Errorf("height %d: %d is the most", p.height, maxHeight)
		}
		n.Items = signature.Parts(p.n, 1<<p.height)
		n.Elements[0], n.Elements[1] = signature.Product(p.n, Size), signature.Product(int(n.Items), Size)
		return n, treeNeed(p.mode, p.n)
	}, chunks),
	signature.Of(signature.Kernel{
		Name: "merkle.root", Does: "the root above n nodes", Grid: "1",
		Args: []signature.Arg{signature.In("nodes", graph.U1), signature.Out("root", graph.U1), signature.Work("half of the nodes", graph.U1)},
	}, func(_ *weft.Call, p rootParams) (n signature.Need, err error) {
		n.Items = 1
		n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.n, Size), Size, signature.Product((p.n+1)/2, Size)
		return n, treeNeed(p.mode, p.n)
	}, root),
}

// treeNeed errs for a tree that there is none of.
func treeNeed(mode, n int) error {
	if Mode(mode) != Dup && Mode(mode) != RFC6962 {
		return fmt.Errorf("mode %d: it must be %d, %s, or %d, %s", mode, int(Dup), Dup, int(RFC6962), RFC6962)
	}
	return signature.Positive([]string{"n"}, n)
}

// chunkParams are the parameters of chunkKernel.
type chunkParams struct {
	mode, height int // of the tree, and of a chunk up to 11
	n            int // leaves
	digests      int // 1 where they are nodes already, which are not hashed by themselves
}

// rootParams are the parameters of rootKernel.
type rootParams struct {
	mode, n int // of the tree, and nodes
}

// scratches is memory for nodes.
var scratches workload.Scratch[byte]

// chunks reduces the chunks lo to hi-1, an item each.
func chunks(c *weft.Call, p chunkParams, lo, hi int) {
	mode, h := Mode(p.mode), p.height
	leaves, nodes := c.Args[0][:p.n*Size], c.Args[1]
	s := scratches.Get(Size << h)
	defer scratches.Put(s)
	for i := lo; i < hi && !c.Stopped(); i++ {
		chunk := leaves[i<<h*Size : min((i+1)<<h*Size, len(leaves))]
		n := len(chunk) / Size
		if mode == RFC6962 && p.digests == 0 {
			hashLeaves(*s, chunk, 0, n)
			reduceNodes(mode, *s, n, h)
		} else {
			reduceInto(mode, *s, chunk, n, h)
		}
		copy(nodes[i*Size:(i+1)*Size], *s)
	}
}

// root reduces all nodes, which is one item.
func root(c *weft.Call, p rootParams, _, _ int) {
	nodes, work := c.Args[0], c.Args[2]
	reduceInto(Mode(p.mode), work, nodes, p.n, heightOf(p.n))
	copy(c.Args[1], work[:Size])
}

// reduceInto is Reduce that leaves src as it is and works in dst.
func reduceInto(mode Mode, dst, src []byte, n, h int) {
	if h == 0 {
		copy(dst, src[:Size])
		return
	}
	above := (n + 1) / 2
	hashLevel(mode, dst, src, n, 0, above)
	reduceNodes(mode, dst, above, h-1)
}

// reduced returns how many nodes a range of leaves is reduced to.
func (j *job) reduced(lo, hi int64) int64 { return (hi - lo + 1<<j.h - 1) >> j.h }

// Feed moves the leaves: copying them to a GPU takes twice as long as hashing them there.
func (j *job) Feed(get func(bytes int) ([]byte, error)) (restore func(), err error) {
	mem, err := get(len(j.leaves))
	if err != nil {
		return nil, err
	}
	copy(mem, j.leaves)
	old := j.leaves
	j.leaves = mem
	j.declare()
	return func() {
		j.leaves = old
		j.declare()
	}, nil
}

// declare says what the job is: leaves, cut between chunks. Hashes do not depend on how they are dealt out. All as one
// task leave out the few hashes above the chunks.
func (j *job) declare() *job {
	nodes := workload.Between("nodes", int64(j.chunks)*Size, Size)
	if j.nodes != nil {
		nodes = workload.Out("nodes", j.nodes, Size)
	}
	mode := j.mode
	if j.digests == 1 {
		mode = Dup // which counts no hashes of leaves
	}
	j.Declared = workload.Declare(workload.Declaration{
		Name: fmt.Sprintf("merkle %s, %d leaves", j.mode, j.n), Class: workload.Exact, Of: "leaves", Extent: int64(j.n), Align: 1 << j.h,
		Ports: []workload.Port{workload.In("leaves", j.leaves, Size), nodes.Per(1 << j.h), workload.Out("root", j.root[:], 0).NoRange()},
		Task: func(t *graph.Task, lo, hi int64) {
			n := int(hi - lo)
			t.Steps = []graph.Step{
				graph.Step{Kernel: chunkKernel, Launch: graph.Grid(j.reduced(lo, hi))}.With(chunkParams{int(j.mode), j.h, n, j.digests}),
			}
			t.Work = work(mode, n)
		},
		Then: j.join,
	})
	return j
}

// work is that of hashing a tree of nodes.
func work(mode Mode, n int) graph.Work {
	return graph.Work{Ops: integerOps * ops(mode, n), Bytes: traffic(mode, n), Unit: graph.Int32}
}

// join adds a task for the root, and others before it if there are many chunks. The nodes are hashed in pairs already,
// as Dup counts.
func (j *job) join(b *graph.Builder) {
	nodes, top, count := graph.DataID(1), graph.DataID(2), j.chunks
	// One block of a GPU would take long over many nodes, and so would one core.
	for level := 1; count > manyChunks; level++ {
		high := (count + 1<<minHeight - 1) >> minHeight
		name := fmt.Sprint("nodes above ", level)
		above := b.Data(graph.Data{Name: name, Bytes: int64(high) * Size, Tolerance: graph.SameBytes})
		b.Add(graph.Task{
			Name: name,
			Steps: []graph.Step{
				graph.Step{Kernel: chunkKernel, Launch: graph.Grid(int64(high))}.With(chunkParams{int(j.mode), minHeight, count, 1}),
			},
			Uses: []graph.Use{{Data: nodes, Access: graph.Read}, {Data: above, Access: graph.Write}},
			Work: work(Dup, count),
		})
		nodes, count = above, high
	}
	b.Add(graph.Task{
		Name:      "root",
		Steps:     []graph.Step{graph.Step{Kernel: rootKernel, Launch: graph.Grid(1)}.With(rootParams{int(j.mode), count})},
		Uses:      []graph.Use{{Data: nodes, Access: graph.Read}, {Data: top, Access: graph.Write}},
		Work:      work(Dup, count),
		Workspace: int64((count+1)/2) * Size,
	})
}

// Root is the root after a run.
func (j *job) Root() [Size]byte { return j.root }

// Summary is the root in hexadecimal.
func (j *job) Summary() string { return "root " + hex.EncodeToString(j.root[:]) }

// Check computes the root by the definition, one hash after the other.
func (j *job) Check() error {
	want := referenceRoot(j.mode, j.leaves)
	if j.digests == 1 {
		want = rootRFC6962(j.leaves, true)
	}
	if j.root != want {
		return fmt.Errorf("merkle: the root is %x, by the definition %x", j.root, want)
	}
	return nil
}

// Misses is nothing: every hash goes into the root, which is compared whole.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{{What: "one wrong hash", Chance: 0}}
}

// Rate is leaves a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f Mleaf/s", float64(j.n)/d.Seconds()/1e6)
}
