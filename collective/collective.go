package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// ErrSpec is wrapped by every error about a specification.
var ErrSpec = errors.New("bad collective")

// Op is a collective operation.
type Op uint8

const (
	OpAllReduce     Op     = iota // every rank gets the combination of all vectors
	OpReduce                      // the root gets it
	OpReduceScatter               // every rank gets its part of it
	OpBroadcast                   // every rank gets the root's vector
	OpAllGather                   // every rank gets the parts of all, joined
	OpAllToAll                    // rank i gets part i of every rank's vector
	OpSend                        // one rank gets another's vector
	OpBarrier                     // no rank goes on before all have come
	NumOps          = iota        // how many operations there are
)

var opNames = [...]string{"allreduce", "reduce", "reducescatter", "broadcast", "allgather", "alltoall", "send", "barrier"}

// String returns the name ParseOp accepts.
func (o Op) String() string { return nameOf(opNames[:], int(o)) }

// ParseOp returns the operation with a name.
func ParseOp(s string) (Op, error) {
	for i, n := range opNames {
		if n == s {
			return Op(i), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown operation %q; use one of %s", ErrSpec, s, strings.Join(opNames[:], ", "))
}

// Folds reports whether an operation combines what ranks have.
func (o Op) Folds() bool { return o == OpAllReduce || o == OpReduce || o == OpReduceScatter }

// Spec says what to do and who takes part.
type Spec struct {
	Op Op
	// Ranks are the devices that take part: rank r is on device Ranks[r]. A
	// device may stand for several ranks, as a survivor does for one that was
	// lost.
	Ranks []machine.DeviceID
	Count int64 // elements of the whole vector
	Type  Type  // of an element
	Fold  Fold  // where the operation folds
	Root  int   // of reduce, broadcast and send
	Peer  int   // of send: the rank that gets it
	// Ends holds the end of each rank's block, for operations that divide the vector
	// among ranks. If nil, Cut divides it.
	Ends []int64
	// Algorithm is one of Algorithms, Native, or empty: then Native where that is
	// possible, and else the one that is predicted to be done first.
	Algorithm string
	// Communicator is the number of one that the devices of Ranks have joined in
	// their order, by weft.Runtime.Join; 0 for none.
	Communicator uint64
	// Exact allows only algorithms that fold in the order of ranks, where the
	// order matters.
	Exact bool
	// Pieces is the number of pieces that follow one another along a route; 0 means the
	// number that is predicted to be best.
	Pieces int
}

// Limits on a specification: element counts that fit a launch, and graphs that
// fit in memory.
const (
	maxRanks  = 1024
	maxPieces = 256
	maxCount  = 1 << 40
)

func (s *Spec) check(m *machine.Machine) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%v: %w: %s", s.Op, ErrSpec, fmt.Sprintf(format, args...))
	}
	n := len(s.Ranks)
	switch {
	case int(s.Op) >= NumOps:
		return fail("there is no such operation; use one of %s", strings.Join(opNames[:], ", "))
	case n < 1 || n > maxRanks:
		return fail("%d ranks; there must be 1 to %d", n, maxRanks)
	case s.Count < 0 || s.Count > maxCount:
		return fail("%d elements; there must be 0 to %d", s.Count, int64(maxCount))
	case int(s.Type) >= numTypes:
		return fail("there is no element type %v", s.Type)
	case s.Op.Folds() && int(s.Fold) >= numFolds:
		return fail("there is no reduction %v", s.Fold)
	case s.Root < 0 || s.Root >= n:
		return fail("root %d of %s; number ranks from 0", s.Root, text.Count(n, "rank"))
	case s.Op == OpSend && (s.Peer < 0 || s.Peer >= n || s.Peer == s.Root):
		return fail("from rank %d to rank %d of %d; name two different ranks", s.Root, s.Peer, n)
	case s.Pieces < 0 || s.Pieces > maxPieces:
		return fail("%d pieces; there must be 1 to %d, or 0 for a good number", s.Pieces, maxPieces)
	}
	if s.Ends != nil {
		if s.Op != OpAllGather && s.Op != OpReduceScatter && s.Op != OpAllToAll {
			return fail("blocks of ranks; only allgather, reducescatter and alltoall have any")
		}
		if len(s.Ends) != n || !slices.IsSorted(s.Ends) || s.Ends[0] < 0 || s.Ends[n-1] != s.Count {
			return fail("blocks that end at %d; there must be an end for each of %d ranks, in order, the last at %d", s.Ends, n, s.Count)
		}
	}
	for r, d := range s.Ranks {
		if d < 0 || int(d) >= len(m.Devices) {
			return fail("rank %d is on device %d of %d", r, d, len(m.Devices))
		}
	}
	return nil
}

// Cut returns the elements of block r when count elements are cut into n
// consecutive blocks as equal as possible, the larger ones first.
func Cut(count int64, n, r int) (lo, hi int64) {
	each, more := count/int64(n), count%int64(n)
	at := func(r int64) int64 { return r*each + min(r, more) }
	return at(int64(r)), at(int64(r) + 1)
}

// block is the elements of rank r's block, where the vector is cut among ranks.
func (s *Spec) block(r int) (lo, hi int64) {
	switch {
	case s.Ends == nil:
		return Cut(s.Count, len(s.Ranks), r)
	case r == 0:
		return 0, s.Ends[0]
	}
	return s.Ends[r-1], s.Ends[r]
}

// InCount and OutCount are the elements a rank brings and gets.
func (s *Spec) InCount(r int) int64 {
	switch {
	case s.Op == OpBarrier, (s.Op == OpBroadcast || s.Op == OpSend) && r != s.Root:
		return 0
	case s.Op == OpAllGather:
		lo, hi := s.block(r)
		return hi - lo
	}
	return s.Count
}

// OutCount is the elements a rank gets; see InCount.
func (s *Spec) OutCount(r int) int64 {
	lo, hi := s.block(r)
	switch {
	case s.Op == OpBarrier, s.Op == OpReduce && r != s.Root, s.Op == OpBroadcast && r == s.Root, s.Op == OpSend && r != s.Peer:
		return 0
	case s.Op == OpReduceScatter:
		return hi - lo
	case s.Op == OpAllToAll:
		return (hi - lo) * int64(len(s.Ranks))
	}
	return s.Count
}
