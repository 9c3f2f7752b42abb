package automata

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for cells that are not what the game makes.
var errWrong = errors.New("not the game's cells")

// pictures are the patterns with a name.
var pictures = map[string]string{
	"glider":     ".O.\n..O\nOOO",
	"rpentomino": ".OO\nOO.\n.O.",
	"acorn":      ".O.....\n...O...\nOO..OOO",
	"gosper": `........................O...........
......................O.O...........
............OO......OO............OO
...........O...O....OO............OO
OO........O.....O...OO..............
OO........O...O.OO....O.O...........
..........O.....O.......O...........
...........O...O....................
............OO......................`,
}

// Patterns returns the names of the patterns a game can start from.
func Patterns() []string { return []string{"random", "glider", "rpentomino", "acorn", "gosper"} }

// Config says which game to play.
type Config struct {
	// computeRows and Cols are the size of the torus. Kernels for Life on a multiple of 64
	// columns are faster than those for others.
	Rows, Cols int
	// Rule is read by [ParseRule]; empty means the rule of Life.
	Rule string
	// Steps is the number of generations to compute.
	Steps int
	// K is the number of generations between exchanges of K halo rows; 0 means
	// that each run chooses one for its devices, by what is predicted.
	K int
	// Pattern is one of Patterns, the empty one being random. A named pattern
	// stands in the middle of a torus that is otherwise empty; in a random one
	// each cell lives with probability one half.
	Pattern string
	// Seed chooses the random pattern.
	Seed uint32
}

// The bounds of a game.
const (
	maxSide  = 1 << 17
	maxSteps = 1_000_000
)

// Validate reports a configuration that makes no game.
func (c Config) Validate() error {
	switch {
	case c.Rows < 1 || c.Rows > maxSide:
		return fmt.Errorf("automata: %d rows: %w: there must be 1 to %d", c.Rows, workload.ErrConfig, maxSide)
	case c.Cols < 1 || c.Cols > maxSide:
		return fmt.Errorf("automata: %d columns: %w: there must be 1 to %d", c.Cols, workload.ErrConfig, maxSide)
	case c.Steps < 1 || c.Steps > maxSteps:
		return fmt.Errorf("automata: %d steps: %w: there must be 1 to %d", c.Steps, workload.ErrConfig, maxSteps)
	case c.K < 0 || c.K > min(c.Rows, deepest):
		return fmt.Errorf("automata: %d steps between exchanges: %w: there must be 1 to %d, or 0 for a good choice", c.K, workload.ErrConfig, min(c.Rows, deepest))
	}
	if c.Rule != "" {
		if _, err := ParseRule(c.Rule); err != nil {
			return err
		}
	}
	if c.Pattern == "" || c.Pattern == "random" || c.Pattern == given {
		return nil
	}
	picture, ok := pictures[c.Pattern]
	if !ok {
		return fmt.Errorf("automata: pattern %q: %w: use one of %s", c.Pattern, workload.ErrConfig, strings.Join(Patterns(), ", "))
	}
	if height, width := 1+strings.Count(picture, "\n"), strings.IndexByte(picture, '\n'); height > c.Rows || width > c.Cols {
		return fmt.Errorf("automata: pattern %s on %d × %d: %w: it needs %d × %d", c.Pattern, c.Rows, c.Cols, workload.ErrConfig, height, width)
	}
	return nil
}

// given is the pattern of a game on a caller's board.
const given = "given"

// Bytes is the host memory that the job takes, with a bit for each cell: the first
// generation, the last and one between.
func (c Config) Bytes() float64 { return 3 * 8 * float64(c.Rows) * math.Ceil(float64(c.Cols)/64) }

// job is one game. Blocks of rows are dealt out. A round steps every block k
// times from its own rows and k halo rows on either side, which the blocks
// around it computed in the round before.
type job struct {
	workload.Stop

	c          Config
	k          int // steps of a round
	words      int // of a row
	rule       Rule
	groups     []int
	start, end []uint64

	on       *machine.Machine   // where it runs
	gpus     bool               // devices other than CPUs take part
	variants []workload.Variant // k was chosen from, nil before that

	missedCell, missedRow float64 // chances that the last Check missed one
}

// cacheBytes is the part of a core's cache for a tile and its next generation.
const cacheBytes = 1 << 20

// New makes the first generation.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Pattern == "" {
		c.Pattern = "random"
	}
	if c.Pattern == given {
		return nil, fmt.Errorf("automata: pattern %q: %w: use one of %s", c.Pattern, workload.ErrConfig, strings.Join(Patterns(), ", "))
	}
	j := &job{c: c, words: (c.Cols + 63) / 64, rule: Life}
	if c.Rule != "" {
		j.rule, _ = ParseRule(c.Rule) // which Validate has read
	}
	j.every(cmp.Or(c.K, min(unknownK, c.Rows)))
	j.start, j.end = make([]uint64, j.words*c.Rows), make([]uint64, j.words*c.Rows)
	if picture, ok := pictures[c.Pattern]; ok {
		lines := strings.Split(picture, "\n")
		x, y := (c.Cols-len(lines[0]))/2, (c.Rows-len(lines))/2
		for dy, line := range lines {
			for dx, cell := range line {
				if cell == 'O' {
					j.start[(y+dy)*j.words+(x+dx)/64] |= 1 << ((x + dx) % 64)
				}
			}
		}
		return j, nil
	}
	source := philox.Source{Seed: c.Seed}
	for i := range j.start {
		w := source.Block(uint64(i), 0, 0)
		j.start[i] = uint64(w[0]) | uint64(w[1])<<32
	}
	for i := j.words - 1; i < len(j.start); i += j.words {
		j.start[i] &= j.last()
	}
	return j, nil
}

// rest returns the number of cells in the last word of a row, 0 where it is full.
func (j *job) rest() int { return j.c.Cols % 64 }

// last has the bits of the last word of a row that are cells.
func (j *job) last() uint64 {
	if j.rest() == 0 {
		return math.MaxUint64
	}
	return 1<<j.rest() - 1
}

// plain reports whether the game is Life on rows of whole words, for which there are
// kernels that do nothing else.
func (j *job) plain() bool { return j.rest() == 0 && j.rule == Life }

// wordKernel steps a block of rows; its arguments are the halo above it, its rows,
// the halo below it, and its rows in the other grid; its grid is the words
// and the rows.
var wordKernel = workload.With(graph.GoKernel("automata.block", graph.All, bandRows),
	workload.PTX(ptx, "automata_block", 64, 30, 256), workload.SPIRV(spirv, "automata_block", 64, 30, 48))

// deepKernel is Kernel for more than shallow steps, which a GPU takes in another
// way.
var deepKernel = workload.With(graph.GoKernel("automata.deep", graph.All, bandRows),
	workload.PTX(ptx, "automata_deep", 32, 30, 64), workload.SPIRV(spirv, "automata_deep", 64, 6, 128))

// anyKernel is Kernel for boards of any width and rule.
var anyKernel = workload.With(graph.GoKernel("automata.any", graph.All, bandRows),
	workload.PTX(ptx, "automata_any", 32, 30, 64), workload.SPIRV(spirv, "automata_any", 64, 6, 128))

// The most steps of a round that the kernels for GPUs take: in registers, and at
// all.
const (
	shallow = 8
	deepest = 64
)

// bandRows is the number of rows in one item of the Go kernel. Stepping them repeats
// the work of about as many neighbouring rows as there are steps.
const bandRows = 128

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{
	signature.Of(life("automata.block", "k steps of Life of a block of rows"), blockNeed, lifeBlock),
	signature.Of(life("automata.deep", "automata.block, which GPUs have for many steps"), blockNeed, lifeBlock),
	signature.Of(life("automata.any", "automata.block by any rule and of any width"), func(c *weft.Call, p anyParams) (signature.Need, error) {
		if int(signature.Parts(p.cols, 64)) != p.words {
			return signature.Need{}, fmt.Errorf("%d words of 64 cells have not %d columns", p.words, p.cols)
		}
		return blockNeed(c, p.params)
	}, anyBlock),
}

// life is the signature of all kernels, but for its parameters.
func life(name, does string) signature.Kernel {
	return signature.Kernel{
		Name: name, Does: does, Grid: "words, rows", Per: []uint32{graph.All, bandRows},
		Args: []signature.Arg{
			signature.In("k rows above", graph.U8), signature.In("the rows", graph.U8), signature.In("k rows below", graph.U8), signature.Out("the rows after", graph.U8),
		},
	}
}

func blockNeed(_ *weft.Call, p params) (n signature.Need, err error) {
	halo, block := signature.Product(p.k, p.words), signature.Product(p.rows, p.words)
	n.Items = signature.Parts(p.rows, bandRows)
	n.Elements[0], n.Elements[1], n.Elements[2], n.Elements[3] = halo, block, halo, block
	return n, signature.Positive([]string{"words", "rows", "k"}, p.words, p.rows, p.k)
}

// lifeBlock is block for Life.
func lifeBlock(c *weft.Call, p params, lo, hi int) { block(c, p, lo, hi, Advance) }

// params are the parameters of the kernels for Life.
type params struct {
	words, rows int // of a row, and of the block
	k           int // steps, which are the rows of a halo
}

// anyParams are the parameters of anyKernel.
type anyParams struct {
	params
	cols           int // of a row
	birth, survive int // bit n is for n neighbours, of dead cells and of live ones
}

// anyBlock is block for boards of any width and rule.
func anyBlock(c *weft.Call, p anyParams, lo, hi int) {
	g := game{Rule{uint16(p.birth), uint16(p.survive)}, p.cols % 64}
	block(c, p.params, lo, hi, g.advance)
}

// scratches is memory for two generations of a tile.
var scratches workload.Scratch[uint64]

// block steps the bands lo to hi-1 of a block, in tiles that stay in the cache.
func block(c *weft.Call, p params, lo, hi int, advance func(a, b []uint64, words, k int) []uint64) {
	words, rows, k := p.words, p.rows, p.k
	above, mid, below := weft.View[uint64](c.Args[0]), weft.View[uint64](c.Args[1]), weft.View[uint64](c.Args[2])
	mid = mid[:rows*words] // those below follow it
	out := weft.View[uint64](c.Args[3])
	lo, hi = lo*bandRows, min(hi*bandRows, rows)
	// Tiles of one height leave no small rest.
	most := tileRows(words, k)
	tiles := (hi - lo + most - 1) / most
	half := (min(most, hi-lo) + 2*k) * words
	s := scratches.Get(2 * half)
	defer scratches.Put(s)
	for i := 0; i < tiles && !c.Stopped(); i++ {
		from, to := (lo+i*(hi-lo)/tiles)*words, (lo+(i+1)*(hi-lo)/tiles)*words
		a, b := (*s)[:to-from+2*k*words], (*s)[half:half+to-from+2*k*words]
		gather(a, above, mid, below, from-k*words)
		copy(out[from:to], advance(a, b, words, k)[k*words:])
	}
}

// gather fills dst from three slices that follow one another, beginning at a
// place counted from the second.
func gather(dst, above, rows, below []uint64, at int) {
	at += len(above)
	for _, src := range [...][]uint64{above, rows, below} {
		if at < len(src) {
			dst = dst[copy(dst, src[at:]):]
		}
		at = max(at-len(src), 0)
	}
}

// Name says which game it is.
func (j *job) Name() string {
	name := fmt.Sprintf("automata %d × %d, %s, %d steps", j.c.Rows, j.c.Cols, j.c.Pattern, j.c.Steps)
	if j.rule != Life {
		name += fmt.Sprintf(" of %v", j.rule)
	}
	if j.c.K > 0 {
		name += fmt.Sprintf(" by %d", j.k)
	}
	return name
}

// Class is X: cells do not depend on how they are dealt out.
func (j *job) Class() workload.Class { return workload.Exact }

// Items are groups of rows.
func (j *job) Items() sched.Items {
	return sched.Items{
		Extent: int64(len(j.groups) - 1),
		Grain:  8, // a group has about as many rows as a block repeats of its neighbours
		Cost:   func(lo, hi int64) float64 { return ops(j.words, j.groups[hi]-j.groups[lo], j.c.Steps) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			rows := int64(j.groups[hi] - j.groups[lo])
			return 8 * int64(j.words) * (rows + 2*int64(j.k)), 8 * int64(j.words) * rows
		},
	}
}

// Whole is all rounds of all rows as one task.
func (j *job) Whole() graph.Task {
	t := j.task(0, j.c.Rows, j.k)
	rounds := float64(j.c.Steps) / float64(j.k)
	t.Work.Ops, t.Work.Bytes = rounds*t.Work.Ops, rounds*t.Work.Bytes
	return t
}

func (j *job) task(lo, hi, k int) graph.Task {
	rows := hi - lo
	p := params{j.words, rows, k}
	step := graph.Step{Kernel: wordKernel, Launch: graph.Grid(int64(j.words), int64(rows))}
	switch {
	case !j.plain():
		step.Kernel = anyKernel
		step = step.With(anyParams{p, j.c.Cols, int(j.rule.birth), int(j.rule.survive)})
	case k > shallow:
		step.Kernel = deepKernel
		step = step.With(p)
	default:
		step = step.With(p)
	}
	return graph.Task{Name: fmt.Sprintf("rows %d-%d", lo, hi), Steps: []graph.Step{step}, Work: j.work(rows, k)}
}

// Rounds returns the number of times that blocks exchange halos, counting the first.
func (j *job) Rounds() int { return (j.c.Steps + j.k - 1) / j.k }

// Graph has a task for each range of groups in each round, which reads the rows
// around its block where others left them.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	size := int64(8 * len(j.start))
	rounds := j.Rounds()
	b := graph.Builder{Stop: j.Stopped}
	start := b.Data(graph.Data{Name: "start", Bytes: size, Input: true})
	end := b.Data(graph.Data{Name: "end", Bytes: size, Output: true, Tolerance: graph.SameBytes})
	between := b.Data(graph.Data{Name: "between", Bytes: size, Tolerance: graph.SameBytes})
	depths := make([]int64, rounds)
	for i := range depths {
		depths[i] = int64(j.k)
	}
	depths[rounds-1] = int64(j.c.Steps - (rounds-1)*j.k)
	var blocks []collective.Block
	for _, r := range ranges {
		blocks = append(blocks, collective.Block{Lo: int64(j.groups[r.Lo]), Hi: int64(j.groups[r.Hi])})
	}
	grid := collective.Halo{Rows: int64(j.c.Rows), RowBytes: int64(8 * j.words), Torus: true}
	err := grid.Rounds(&b, start, end, between, blocks, depths, func(b collective.Block, k int64) graph.Task {
		return j.task(int(b.Lo), int(b.Hi), int(k))
	})
	if err != nil {
		return nil, fmt.Errorf("automata: %w", err)
	}
	return b.Build()
}

// Bind ties the first and the last generation to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("start", j.start), weft.Bind("end", j.end)}
}

// Result is the last generation after a run, row by row.
func (j *job) Result() []uint64 { return j.end }

// Alive reports whether the cell in a row and column lives after a run.
func (j *job) Alive(row, col int) bool { return j.end[row*j.words+col/64]>>(col%64)&1 == 1 }

// Population is the number of cells that live after a run.
func (j *job) Population() int {
	n := 0
	for _, w := range j.end {
		n += bits.OnesCount64(w)
	}
	return n
}

// Summary is the population.
func (j *job) Summary() string {
	return fmt.Sprintf("%d of %d cells alive after %d steps", j.Population(), j.c.Rows*j.c.Cols, j.c.Steps)
}

// Rate is cells a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f Gcell/s", float64(j.c.Rows)*float64(j.c.Cols)*float64(j.c.Steps)/d.Seconds()/1e9)
}
