package msm_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/msm"
)

// result are the bytes of a job's sum.
func result(j workload.Job) []byte {
	switch j := j.(type) {
	case *msm.Job[bn254.G1Affine]:
		return workloadtest.Bytes([]bn254.G1Affine{j.Result()})
	case *msm.Job[bn254.G2Affine]:
		return workloadtest.Bytes([]bn254.G2Affine{j.Result()})
	}
	panic("no such job")
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range []msm.Config{{Group: "g1", Size: 3001, Seed: 1}, {Group: "g2", Size: 2100, Seed: 2}} {
		workloadtest.Invariant(t, msm.Funcs(), func() (workload.Job, error) { return msm.New(c) }, result)
	}
}

// sizes are the smallest, and those around powers of two.
func sizes(most int) []int {
	out := []int{1, 2, 3, 5, 7, 8, 9}
	for n := 64; n <= most; n *= 8 {
		out = append(out, n-1, n, n+1)
	}
	return out
}

// Sums are those of gnark-crypto, and of few points those of the formulas of school.
func TestSizes(t *testing.T) {
	most := 1 << 12
	if testing.Short() {
		most = 1 << 9
	}
	for parts := 1; parts <= 3; parts++ {
		rt := workloadtest.Open(t, parts, msm.Funcs())
		testSizes(t, rt, msm.G1, sizes(most))
		testSizes(t, rt, msm.G2, sizes(1<<9))
	}
	if !testing.Short() {
		rt := workloadtest.Open(t, 2, msm.Funcs())
		testSizes(t, rt, msm.G1, []int{1<<16 + 1})
	}
}

type call[P msm.Point] func(ctx context.Context, rt *weft.Runtime, points []P, scalars []fr.Element) (P, error)

func testSizes[P msm.Point](t *testing.T, rt *weft.Runtime, of call[P], sizes []int) {
	t.Helper()
	for _, n := range sizes {
		points, _ := msm.Draw[P](uint64(n), n)
		same(t, rt, of, fmt.Sprintf("%d points", n), points, msm.DrawScalars(uint64(n), n))
	}
}

// same compares a call with the reference, and for few points with the naive one.
func same[P msm.Point](t *testing.T, rt *weft.Runtime, of call[P], what string, points []P, scalars []fr.Element) {
	t.Helper()
	got, err := of(t.Context(), rt, points, scalars)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if want := msm.Reference(points, scalars); got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	if len(points) <= 5 {
		if want := msm.Naive(points, scalars); got != want {
			t.Errorf("%s: %v, want %v by the formulas of school", what, got, want)
		}
	}
}

// Scalars 0, 1 and r−1, equal points, points at infinity, and a point with its opposite.
func TestSpecial(t *testing.T) {
	for parts := 1; parts <= 3; parts++ {
		rt := workloadtest.Open(t, parts, msm.Funcs())
		special(t, rt, msm.G1, func(p bn254.G1Affine) bn254.G1Affine { return *p.Neg(&p) })
		special(t, rt, msm.G2, func(p bn254.G2Affine) bn254.G2Affine { return *p.Neg(&p) })
	}
}

// Of all sizes around powers of two, sums with scalars 0, 1 and r−1, equal points, points at infinity and points with
// their opposites among them are those of gnark-crypto, on two devices and on three.
func TestEdges(t *testing.T) {
	most := 10
	if testing.Short() {
		most = 8
	}
	var one, minus fr.Element
	one.SetOne()
	minus.Neg(&one)
	points, _ := msm.Draw[bn254.G1Affine](9, 1<<most+1)
	scalars := msm.DrawScalars(9, len(points))
	for i := range points {
		switch i % 11 {
		case 1:
			points[i].Neg(&points[i-1])
		case 2:
			points[i] = points[i-1]
		case 3:
			points[i] = bn254.G1Affine{}
		case 4:
			scalars[i] = fr.Element{}
		case 5:
			scalars[i] = one
		case 6:
			scalars[i] = minus
		case 7:
			points[i], scalars[i] = points[i-1], minus
		case 8:
			points[i].Neg(&points[i-1])
			scalars[i] = scalars[i-1]
		}
	}
	var all []int
	for k := 1; k <= most; k++ {
		all = append(all, 1<<k-1, 1<<k, 1<<k+1)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for devices := 2; devices <= 3; devices++ {
		rt := workloadtest.Open(t, devices, msm.Funcs())
		for _, n := range all {
			for _, from := range []int{0, 1, 2, 3, 4, 5} { // few points are of each kind once
				if from > 0 && n > 9 {
					break
				}
				same(t, rt, msm.G1, fmt.Sprintf("%d points from %d on, on %d devices", n, from, devices), points[from:][:min(n, len(points)-from)], scalars[from:][:min(n, len(points)-from)])
			}
		}
	}
}

func special[P msm.Point](t *testing.T, rt *weft.Runtime, of call[P], negative func(P) P) {
	t.Helper()
	const n = 600
	var zero, one, minus fr.Element
	var infinity P
	one.SetOne()
	minus.Neg(&one)
	points, _ := msm.Draw[P](3, n)
	scalars := msm.DrawScalars(3, n)
	all := func(s fr.Element) []fr.Element { return slices.Repeat([]fr.Element{s}, n) }
	same(t, rt, of, "scalars 0", points, all(zero))
	same(t, rt, of, "scalars 1", points, all(one))
	same(t, rt, of, "scalars r-1", points, all(minus))
	same(t, rt, of, "equal points", slices.Repeat(points[:1], n), scalars)
	same(t, rt, of, "equal points and scalars", slices.Repeat(points[:1], n), slices.Repeat(scalars[:1], n))
	same(t, rt, of, "points at infinity", make([]P, n), scalars)
	mixed, some, signed := slices.Clone(points), slices.Clone(scalars), slices.Clone(points)
	for i := range n {
		switch i % 5 {
		case 0:
			mixed[i] = infinity
		case 1:
			some[i] = zero
		case 2:
			some[i] = one
		case 3:
			some[i] = minus
		}
		if i%2 == 1 {
			signed[i] = negative(signed[i-1])
		}
	}
	same(t, rt, of, "some points at infinity", mixed, some)
	same(t, rt, of, "points and their opposites", signed, some)
	same(t, rt, of, "points and their opposites by one scalar", signed, all(scalars[0]))
	if got, err := of(t.Context(), rt, signed, all(scalars[0])); err != nil || got != infinity {
		t.Errorf("points and their opposites are %v, %v", got, err)
	}
	if got, err := of(t.Context(), rt, nil, nil); err != nil || got != infinity {
		t.Errorf("no points are %v, %v", got, err)
	}
}

// The generator's multiples are known: 2P by the library's own vectors, and r P = 0.
func TestKnown(t *testing.T) {
	rt := workloadtest.Open(t, 2, msm.Funcs())
	_, _, g, _ := bn254.Generators()
	two := fr.NewElement(2)
	got, err := msm.G1(t.Context(), rt, []bn254.G1Affine{g}, []fr.Element{two})
	// By hand: the tangent at (1, 2) has slope 3/4.
	x, _ := new(big.Int).SetString("1368015179489954701390400359078579693043519447331113978918064868415326638035", 10)
	y, _ := new(big.Int).SetString("9918110051302171585080402603319702774565515993150576347155970296011118125764", 10)
	if err != nil || got.X.BigInt(new(big.Int)).Cmp(x) != 0 || got.Y.BigInt(new(big.Int)).Cmp(y) != 0 {
		t.Errorf("2 (1, 2) is %v, %v", got, err)
	}
	points, logs := msm.Draw[bn254.G1Affine](7, 300)
	for i := range points {
		var want bn254.G1Affine
		if want.ScalarMultiplicationBase(logs[i].BigInt(new(big.Int))); points[i] != want {
			t.Fatalf("drawn point %d is not the multiple it should be", i)
		}
	}
	if err := msm.Check(points); err != nil {
		t.Error(err)
	}
}

// Bases serve sums of any length up to theirs, again and again, and at the same time.
func TestBases(t *testing.T) {
	testBases[bn254.G1Affine](t, workloadtest.Open(t, 2, msm.Funcs()))
	testBases[bn254.G2Affine](t, workloadtest.Open(t, 3, msm.Funcs()))
}

func testBases[P msm.Point](t *testing.T, rt *weft.Runtime) {
	t.Helper()
	points, _ := msm.Draw[P](5, 1500)
	bases, err := msm.Put(rt, points)
	if err != nil {
		t.Fatal(err)
	}
	defer bases.Release()
	if bases.Len() != len(points) {
		t.Errorf("%d bases", bases.Len())
	}
	sums := make(chan error)
	for i := range 3 {
		go func() {
			for _, n := range []int{1500, 1, 700 + i} {
				scalars := msm.DrawScalars(uint64(n+i), n)
				if got, err := bases.Sum(t.Context(), scalars); err != nil || got != msm.Reference(points[:n], scalars) {
					sums <- fmt.Errorf("the sum of %d bases is %v, %w", n, got, err)
					return
				}
			}
			sums <- nil
		}()
	}
	for range 3 {
		if err := <-sums; err != nil {
			t.Error(err)
		}
	}
	j := workloadtest.New[*msm.Job[P]](t)(bases.Job(msm.DrawScalars(9, 1000)))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	if _, err := bases.Sum(t.Context(), make([]fr.Element, 1501)); !errors.Is(err, msm.ErrInput) || !strings.Contains(err.Error(), "1501 scalars for 1500 points") {
		t.Errorf("too few bases: %v", err)
	}
	if got, err := bases.Sum(t.Context(), nil); err != nil || got != *new(P) {
		t.Errorf("the sum of none is %v, %v", got, err)
	}
}

// A job with resident points runs more than once.
func TestResidentJob(t *testing.T) {
	rt := workloadtest.Open(t, 2, msm.Funcs())
	for _, g := range []string{"g1", "g2"} {
		j := workloadtest.New[workload.Job](t)(msm.New(msm.Config{Group: g, Size: 1000, Resident: true}))
		for range 2 {
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Error(err)
			}
		}
		j.(workload.Stateful).Release()
	}
}

// A sum within a larger graph, of points in its middle.
func TestSumInGraph(t *testing.T) {
	rt := workloadtest.Open(t, 2, msm.Funcs())
	points, _ := msm.Draw[bn254.G1Affine](1, 3000)
	scalars := msm.DrawScalars(2, 3000)
	var b graph.Builder
	s := msm.Sum[bn254.G1Affine]{
		N:      2500,
		Points: b.Data(graph.Data{Name: "key", Bytes: 64 * 3000, Input: true}), PointsFrom: 64 * 100,
		Scalars: b.Data(graph.Data{Name: "witness", Bytes: 32 * 3000, Input: true}), ScalarsFrom: 32 * 200,
		Sums: b.Data(graph.Data{Name: "sums", Bytes: msm.SumsBytes[bn254.G1Affine](2500), Output: true}),
		Most: 700, Cores: msm.Cores(rt.Machine()),
	}
	align := msm.Align(2500)
	if err := s.Add(&b, []sched.Range{{Lo: 0, Hi: 300 * align}, {Lo: 300 * align, Hi: 2500}}); err != nil {
		t.Fatal(err)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]bn254.G1Affine, msm.SumsBytes[bn254.G1Affine](2500)/64)
	if _, err := rt.Run(t.Context(), g, weft.Bind("key", points), weft.Bind("witness", scalars), weft.Bind("sums", sums)); err != nil {
		t.Fatal(err)
	}
	if got, want := msm.Total(sums), msm.Reference(points[100:2600], scalars[200:2700]); got != want || g.NumTasks() != 4 {
		t.Errorf("%d tasks make %v, want %v", g.NumTasks(), got, want)
	}
	for _, bad := range []sched.Range{{Lo: 1, Hi: 2500}, {Lo: 0, Hi: 2501}, {Lo: 0, Hi: align + 1}} {
		if align > 1 {
			if err := s.Add(new(graph.Builder), []sched.Range{bad}); err == nil {
				t.Errorf("range %v was taken", bad)
			}
		}
	}
}

// The check finds a sum with one bit that is wrong, and one of other points.
func TestCheckFinds(t *testing.T) {
	g1 := workloadtest.New[workload.Job](t)(msm.New(msm.Config{Group: "g1", Size: 500})).(*msm.Job[bn254.G1Affine])
	workloadtest.Finds(t, msm.Funcs(), g1, "coordinate", func() { g1.Sums()[0].X[0] ^= 1 }, msm.ErrWrong)
	g2 := workloadtest.New[workload.Job](t)(msm.New(msm.Config{Group: "g2", Size: 500})).(*msm.Job[bn254.G2Affine])
	workloadtest.Finds(t, msm.Funcs(), g2, "scalar", func() { g2.Scalars()[77].SetOne() }, msm.ErrWrong)
	points, _ := msm.Draw[bn254.G1Affine](1, 100)
	for _, n := range []int{7, 100} { // the naive reference, and gnark's
		j := workloadtest.New[*msm.Job[bn254.G1Affine]](t)(msm.NewJob(points[:n], msm.DrawScalars(1, n)))
		workloadtest.Finds(t, msm.Funcs(), j, "sum", func() { j.Sums()[0] = points[0] }, msm.ErrWrong)
	}
}

func TestRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, msm.Funcs())
	points, _ := msm.Draw[bn254.G1Affine](1, 100)
	others, _ := msm.Draw[bn254.G2Affine](1, 100)
	scalars := msm.DrawScalars(1, 100)
	refused := func(what string, err error, want string) {
		t.Helper()
		if !errors.Is(err, msm.ErrInput) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	_, err := msm.G1(t.Context(), rt, points[:99], scalars)
	refused("too few points", err, "99 points and 100 scalars")
	_, err = msm.G2(t.Context(), rt, others, scalars[:99])
	refused("too many points", err, "100 points and 99 scalars")
	_, err = msm.NewJob(points[:5], scalars)
	refused("a job of too few points", err, "100 scalars for 5 points")
	_, err = msm.Put[bn254.G1Affine](rt, nil)
	refused("no bases", err, "0 points")
	_, err = msm.Put(nil, points)
	refused("no runtime", err, "no runtime")

	r := fr.Modulus()
	for name, add := range map[string]int64{"r": 0, "r+5": 5} {
		var words fr.Element
		for i, w := range new(big.Int).Add(r, big.NewInt(add)).Bits() {
			words[i] = uint64(w)
		}
		bad := slices.Clone(scalars)
		bad[71] = words
		_, err = msm.G1(t.Context(), rt, points, bad)
		refused("scalar "+name, err, "scalar 71 ")
	}
	largest := slices.Clone(scalars)
	largest[71] = fr.Element{0x43e1f593f0000000, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029} // r−1 as words
	if _, err := msm.G1(t.Context(), rt, points, largest); err != nil {
		t.Error(err)
	}

	if err := errors.Join(msm.Check(points), msm.Check(others), msm.Check(make([]bn254.G1Affine, 3)), msm.Check([]bn254.G2Affine{})); err != nil {
		t.Error(err)
	}
	points[33].Y.SetOne()
	refused("a point that is not on the curve", msm.Check(points), "point 33 ")
	others[44].X.A1.SetOne()
	refused("a point that is not on the twist", msm.Check(others), "point 44 ")
	copy(others[44:], others[:1])
	others[45] = outside(t)
	refused("a point outside of G2", msm.Check(others), "point 45 ")
	points[33] = points[32]
	points[34].X = [4]uint64{1, 2, 3, 1 << 63}
	refused("coordinates that are not reduced", msm.Check(points), "point 34 ")

	for want, c := range map[string]msm.Config{
		"no group": {Group: "g3", Size: 5}, "0 points": {Group: "g1"}, "-1 points": {Group: "g2", Size: -1}, "268435457 points": {Group: "g1", Size: 1<<28 + 1},
	} {
		_, err := msm.New(c)
		refused(fmt.Sprintf("%+v", c), err, want)
	}
}

// outside is a point of the twist that is not in G2.
func outside(t *testing.T) (p bn254.G2Affine) {
	_, _, _, g := bn254.Generators()
	var b, y2 bn254.E2
	y2.Square(&g.X).Mul(&y2, &g.X)
	b.Square(&g.Y).Sub(&b, &y2)
	for p.X.SetOne(); ; p.X.A0.Double(&p.X.A0) {
		y2.Square(&p.X).Mul(&y2, &p.X).Add(&y2, &b)
		if y2.Legendre() == 1 {
			p.Y.Sqrt(&y2)
			if !p.IsOnCurve() || p.IsInSubGroup() {
				t.Fatal("it should be on the twist and not in G2")
			}
			return p
		}
	}
}

// An outline is as the sum, of which no points were drawn.
func TestOutline(t *testing.T) {
	for _, c := range []msm.Config{{Group: "g1", Size: 3001, Seed: 1}, {Group: "g2", Size: 2100, Seed: 2}, {Group: "g1", Size: 1, Seed: 1, Resident: true}} {
		o, err := msm.Outline(c)
		if err != nil {
			t.Fatal(err)
		}
		j, err := msm.New(c)
		if err != nil {
			t.Fatal(err)
		}
		_, keeps := j.(workload.Stateful)
		if _, kept := o.(workload.Stateful); kept != keeps {
			t.Errorf("%+v: the outline keeps state: %v", c, kept)
		}
		got, want := o.Whole(), j.Whole()
		if o.Name() != j.Name() || o.Items().Extent != j.Items().Extent || o.Items().Align != j.Items().Align || got.Work != want.Work || len(got.Steps) != len(want.Steps) {
			t.Errorf("%+v: the outline is %s with %+v, want %s with %+v", c, o.Name(), got.Work, j.Name(), want.Work)
		}
	}
	if _, err := msm.Outline(msm.Config{Group: "g3", Size: 1}); !errors.Is(err, msm.ErrInput) {
		t.Error(err)
	}
}
