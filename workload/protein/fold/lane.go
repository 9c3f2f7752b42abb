package fold

import (
	"math"
	"math/bits"

	"github.com/weft-run/weft/internal/simd"
)

// lanes is the number of replicas that are computed at once.
const lanes = 8

// use is the set of kernels in use, which all agree to the last bit. Tests set it to run the others.
var use = simd.Best

// What args.do does, as bits.
const (
	doDrift = 1 << iota
	doForce
	doKick
)

// args is structure args of simd/step.c, which reads the fields in this order.
type args struct {
	x, v, f, listed    *[lanes]float64 // bead by bead x, y and z
	first              *int32          // of bonds, then angles, then dihedrals
	native             *float64        // of bonds, angles, cosines and sines of dihedrals
	rows, with         *int32          // contacts: bead i has those from rows[i] to rows[i+1]
	size2              *float64        // squares of their native distances
	listRows, listWith *int32          // pairs that may repel each other, likewise
	beads, bonds       int
	angles, dihedrals  int
	half, c1           float64 // half the time step, and what is left of a velocity after one
	reach2             float64 // square of the way a bead may go before the list is made anew
	key, step          uint64
	energy             [lanes]float64
	far                [lanes]int64 // not zero where a bead went farther, or is nowhere
	noise              [lanes]float64
	replica            [lanes]uint64
	group              *group // has what the pointers point to
}

// lanes does what simd/step.c does, one replica after the other. The conversions keep the compiler
// from fusing a product with a sum, which it does on arm64 also from one statement to another.
func (a *args) lanes(what int) {
	for l := range lanes {
		if what&doDrift != 0 {
			a.drift(l)
		}
		if what&doForce != 0 {
			a.force(l)
		}
		if what&doKick != 0 {
			for i, f := range a.group.f {
				a.group.v[i][l] += float64(a.half * f[l])
			}
		}
	}
}

// real52 is 2^52, to which the bits of a smaller integer can be added.
const real52 = 1 << 52

// angleOf is the angle of a vector with y not below zero.
func angleOf(y, x float64) float64 {
	ax := math.Abs(x)
	num, den := y, ax
	steep := y > ax
	if steep {
		num, den = ax, y
	}
	upper := num > 0.41421356237309503*den
	z := num / den
	if upper {
		z = (num - den) / (num + den)
	}
	zz := float64(z * z)
	p := float64(-8.750608600031904122785e-1*zz) + -1.615753718733365076637e1
	p = float64(p*zz) + -7.500855792314704667340e1
	p = float64(p*zz) + -1.228866684490136173410e2
	p = float64(p*zz) + -6.485021904942025371773e1
	p = p * zz
	q := zz + 2.485846490142306297962e1
	q = float64(q*zz) + 1.650270098316988542046e2
	q = float64(q*zz) + 4.328810604912902668951e2
	q = float64(q*zz) + 4.853903996359136964868e2
	q = float64(q*zz) + 1.945506571482613964425e2
	a := float64(z*(p/q)) + z
	if upper {
		a += 0.78539816339744830962
	}
	if steep {
		a = 1.57079632679489661923 - a
	}
	if x < 0 {
		a = 3.14159265358979323846 - a
	}
	return a
}

// logarithm returns the natural logarithm of a number in (0, 1).
func logarithm(u float64) float64 {
	const least = 0x3fe6a09e667f3bcd // the square root of one half
	moved := math.Float64bits(u) + (0x3ff0000000000000 - least)
	e := math.Float64frombits(moved>>52|0x4330000000000000) - real52 - 1023
	m := math.Float64frombits(moved&0x000fffffffffffff + least)
	f := m - 1
	s := f / (f + 2)
	z := s * s
	w := z * z
	even := 2.222219843214978396e-01 + float64(w*1.531383769920937332e-01)
	even = w * (3.999999999940941908e-01 + float64(w*even))
	odd := 1.818357216161805012e-01 + float64(w*1.479819860511658591e-01)
	odd = 2.857142874366239149e-01 + float64(w*odd)
	odd = z * (6.666666666666735130e-01 + float64(w*odd))
	h := float64(0.5 * f * f)
	return float64(e*6.93147180369123816490e-01) - ((h - (float64(s*(h+(float64(even)+float64(odd)))) + float64(e*1.90821492927058770002e-10))) - f)
}

// turnOf is the cosine and the sine of a number of turns in (0, 1).
func turnOf(u float64) (cos, sin float64) {
	t := u * 4
	n := float64(t) + real52
	quarter := math.Float64bits(n)
	r := float64((float64(t) - (n - real52)) * 1.57079632679489661923)
	z := r * r
	s := -2.50507602534068634195e-08 + float64(z*1.58969099521155010221e-10)
	s = 2.75573137070700676789e-06 + float64(z*s)
	s = -1.98412698298579493134e-04 + float64(z*s)
	s = 8.33333333332248946124e-03 + float64(z*s)
	s = -1.66666666666666324348e-01 + float64(z*s)
	s = r + float64(r*z*s)
	c := 2.08757232129817482790e-09 + float64(z*-1.13596475577881948265e-11)
	c = -2.75573143513906633035e-07 + float64(z*c)
	c = 2.48015872894767294178e-05 + float64(z*c)
	c = -1.38888888888741095749e-03 + float64(z*c)
	c = 4.16666666666666019037e-02 + float64(z*c)
	c = 1 - (float64(0.5*z) - float64(z*z*c))
	if quarter&1 != 0 {
		c, s = s, c
	}
	if (quarter+1)&2 != 0 {
		c = -c
	}
	if quarter&2 != 0 {
		s = -s
	}
	return c, s
}

// unit maps a word to (0, 1).
func unit(w uint32) float64 { return (float64(w) + 0.5) * 0x1p-32 }

// normal are three numbers of the normal distribution by bead, replica and step: two pairs by
// Box and Muller, less one, from a block of Philox4x32-10.
func normal(key uint64, bead int, replica, step uint64) (g [3]float64) {
	w0, w1, w2, w3 := uint32(bead), uint32(replica), uint32(step), uint32(step>>32)
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, w0)
		hi1, lo1 := bits.Mul32(0xCD9E8D57, w2)
		w0, w1, w2, w3 = hi1^w1^k0, lo1, hi0^w3^k1, lo0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	r1, r2 := math.Sqrt(-2*logarithm(unit(w0))), math.Sqrt(-2*logarithm(unit(w2)))
	c1, s1 := turnOf(unit(w1))
	c2, _ := turnOf(unit(w3))
	return [3]float64{r1 * c1, r1 * s1, r2 * c2}
}

// drift is drift of simd/step.c for one replica.
func (a *args) drift(l int) {
	g := a.group
	a.far[l] = 0
	for i := range a.beads {
		rnd := normal(a.key, i, a.replica[l], a.step)
		moved2 := 0.0
		for c := range 3 {
			k := 3*i + c
			x, v := drifted(g.x[k][l], g.v[k][l], g.f[k][l], a.half, a.c1, a.noise[l], rnd[c])
			g.v[k][l], g.x[k][l] = v, x
			d := x - g.listed[k][l]
			moved2 += float64(d * d)
		}
		if !(moved2 <= a.reach2) {
			a.far[l] = -1
		}
	}
}

// drifted returns a coordinate and its velocity after drift.
func drifted(x, v, f, half, c1, noise, rnd float64) (float64, float64) {
	v += float64(half * f)
	x += float64(half * v)
	v = float64(c1*v) + float64(noise*rnd)
	x += float64(half * v)
	return x, v
}

// force is force of simd/step.c for one replica.
func (a *args) force(l int) {
	g := a.group
	for i := range g.f {
		g.f[i][l] = 0
	}
	e := a.bend(l)
	e += a.twist(l)
	for i := range a.beads {
		xi := at(g.x, i, l)
		fi := at(g.f, i, l)
		for k := g.s.rows[i]; k < g.s.rows[i+1]; k++ {
			j := int(g.s.with[k])
			of, p := contact(sub(xi, at(g.x, j, l)), g.s.size2[k])
			e += of
			fi = plus(fi, p)
			put(g.f, j, l, sub(at(g.f, j, l), p))
		}
		for k := g.listRows[i]; k < g.listRows[i+1]; k++ {
			j := int(g.listWith[k])
			of, p, near := repulsion(sub(xi, at(g.x, j, l)))
			if !near {
				continue
			}
			e += of
			fi = plus(fi, p)
			put(g.f, j, l, sub(at(g.f, j, l), p))
		}
		put(g.f, i, l, fi)
	}
	a.energy[l] = e
}

// contact is the energy of a contact between two beads and the force on the first, by the vector from
// the second to it and the square of their native distance.
func contact(d vector, size2 float64) (e float64, p vector) {
	over := 1 / dot(d, d)
	q := float64(size2 * over)
	q2 := q * q
	q5 := q2 * q2 * q
	return float64(q5 * (float64(5*q) - 6)), scaled(d, 60*q5*(q-1)*over)
}

// repulsion is contact for beads that repel each other, unless they are too far apart.
func repulsion(d vector) (e float64, p vector, near bool) {
	r2 := dot(d, d)
	if !(r2 < 144) {
		return 0, vector{}, false
	}
	over := 1 / r2
	q := 16 * over
	q3 := q * q * q
	q6 := float64(q3 * q3)
	return q6, scaled(d, 12*q6*over), true
}

// bend is bend of simd/step.c for one replica.
func (a *args) bend(l int) (e float64) {
	g := a.group
	for t := range a.bonds {
		i := int(g.s.first[t])
		of, p := bond(at(g.x, i, l), at(g.x, i+1, l), g.s.native[t])
		e += of
		for k, f := range p {
			put(g.f, i+k, l, plus(at(g.f, i+k, l), f))
		}
	}
	for t := a.bonds; t < a.bonds+a.angles; t++ {
		i := int(g.s.first[t])
		of, p := angle(at(g.x, i, l), at(g.x, i+1, l), at(g.x, i+2, l), g.s.native[t])
		e += of
		for k, f := range p {
			put(g.f, i+k, l, plus(at(g.f, i+k, l), f))
		}
	}
	return e
}

// bond is the energy of a bond and the forces on its beads.
func bond(x0, x1 vector, native float64) (e float64, p [2]vector) {
	d := sub(x0, x1)
	r := math.Sqrt(dot(d, d))
	off := r - native
	s := -200 * off / r
	return float64(100 * off * off), [2]vector{scaled(d, s), scaled(d, 0-s)}
}

// angle is the energy of an angle and the forces on its beads.
func angle(x0, x1, x2 vector, native float64) (e float64, f [3]vector) {
	u, w := sub(x0, x1), sub(x2, x1)
	c := cross(u, w)
	sin := math.Sqrt(dot(c, c) + 1e-12)
	off := angleOf(sin, dot(u, w)) - native
	slope := 40 * off / sin
	p, q := scaled(cross(u, c), slope/dot(u, u)), scaled(cross(c, w), slope/dot(w, w))
	return float64(20 * off * off), [3]vector{{0 - p.x, 0 - p.y, 0 - p.z}, plus(p, q), {0 - q.x, 0 - q.y, 0 - q.z}}
}

// twist is twist of simd/step.c for one replica.
func (a *args) twist(l int) (e float64) {
	g := a.group
	from := a.bonds + a.angles
	for t := range a.dihedrals {
		i := int(g.s.first[from+t])
		of, p := dihedral(at(g.x, i, l), at(g.x, i+1, l), at(g.x, i+2, l), at(g.x, i+3, l), g.s.native[from+t], g.s.native[from+a.dihedrals+t])
		e += of
		for k, f := range p {
			put(g.f, i+k, l, plus(at(g.f, i+k, l), f))
		}
	}
	return e
}

// dihedral is the energy of a dihedral and the forces on its beads, by the cosine and the sine of its
// native value.
func dihedral(x0, x1, x2, x3 vector, cos0, sin0 float64) (e float64, f [4]vector) {
	u, v, w := sub(x1, x0), sub(x2, x1), sub(x3, x2)
	m, n := cross(u, v), cross(v, w)
	mm, nn := dot(m, m)+1e-12, dot(n, n)+1e-12
	vv := dot(v, v)
	b := math.Sqrt(vv)
	over := 1 / math.Sqrt(mm*nn)
	cos, sin := dot(m, n)*over, b*dot(u, n)*over
	c, s := float64(cos*cos0)+float64(sin*sin0), float64(sin*cos0)-float64(cos*sin0)
	c3, s3 := c*(float64(4*c*c)-3), s*(3-float64(4*s*s))
	slope := s + float64(1.5*s3)
	p, q := scaled(m, slope*b/mm), scaled(n, 0-float64(slope*b)/nn)
	y, z := dot(u, v)/vv, dot(w, v)/vv
	yp, zq := scaled(p, y), scaled(q, z)
	return (1 - c) + float64(0.5*(1-float64(c3))), [4]vector{p, sub(sub(zq, yp), p), sub(sub(yp, zq), q), q}
}

type vector struct{ x, y, z float64 }

func at(x [][lanes]float64, i, l int) vector { return vector{x[3*i][l], x[3*i+1][l], x[3*i+2][l]} }

func put(x [][lanes]float64, i, l int, v vector) {
	x[3*i][l], x[3*i+1][l], x[3*i+2][l] = v.x, v.y, v.z
}

func sub(a, b vector) vector { return vector{a.x - b.x, a.y - b.y, a.z - b.z} }

func plus(a, b vector) vector { return vector{a.x + b.x, a.y + b.y, a.z + b.z} }

func scaled(a vector, by float64) vector {
	return vector{float64(by * a.x), float64(by * a.y), float64(by * a.z)}
}

func dot(a, b vector) float64 {
	return float64(a.x*b.x) + float64(a.y*b.y) + float64(a.z*b.z)
}

func cross(a, b vector) vector {
	return vector{
		float64(a.y*b.z) - float64(a.z*b.y), float64(a.z*b.x) - float64(a.x*b.z), float64(a.x*b.y) - float64(a.y*b.x),
	}
}
