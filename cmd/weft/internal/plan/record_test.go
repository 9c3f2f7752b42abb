package plan

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/weft-run/weft/graph"
)

func TestRecords(t *testing.T) {
	d := mustDecide(t, job(), Shipped())
	kept := []Record{{Decision: *d, Took: 100, Spent: 2}, {Decision: *d}}
	src, err := EncodeRecords(kept)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeRecords(src)
	if err != nil || !reflect.DeepEqual(again, kept) {
		t.Errorf("%v: not what was written", err)
	}
	for _, bad := range []string{"{", "{}\n", string(src) + "null\n", `{"decision":{"best":{"name":"x"}},"took_s":-1}`} {
		_, err := DecodeRecords([]byte(bad))
		if at := (*graph.SyntaxError)(nil); !errors.As(err, &at) {
			t.Errorf("%.30s: %v", bad, err)
		}
	}
	if _, err := DecodeRecords([]byte(string(src) + "x\n")); err.(*graph.SyntaxError).Line != 3 {
		t.Error(err)
	}
	if got := Compare(again); len(got) != 1 || !got[0].Within || got[0].Took != 100 {
		t.Errorf("%+v", got)
	}
}

// Plans that took twice as long as predicted make the next prediction nearly twice as
// long, on that GPU alone, and what happened lies in its interval.
func TestRefine(t *testing.T) {
	d := mustDecide(t, job(), Shipped())
	gpu := d.Best.GPU
	was := sheet{}.Predict(d.Need, gpu, 1)
	var records []Record
	for _, factor := range []float64{2, 2.1, 1.9, 2, 2, 2, 2, 2, 2} {
		records = append(records, Record{Decision: *d, Took: factor * d.Best.Seconds})
	}
	p := Refine(sheet{}, records)
	now := p.Predict(d.Need, gpu, 1)
	if r := now.Median / was.Median; r < 1.8 || r > 2 {
		t.Errorf("corrected by %v", r)
	}
	if !now.valid() || now.Low > 1.9*was.Median || now.High < 2.1*was.Median {
		t.Errorf("%+v", now)
	}
	other, _ := Shipped().GPU("L4")
	if p.Predict(d.Need, other, 1) != (sheet{}).Predict(d.Need, other, 1) {
		t.Error("another GPU is corrected too")
	}
	once := Refine(sheet{}, records[:1]).Predict(d.Need, gpu, 1)
	if r := once.Median / was.Median; math.Abs(r-math.Sqrt2) > 1e-9 {
		t.Errorf("one record corrects by %v", r)
	}
	hybrid := *d
	hybrid.Best.Kind = Hybrid
	if x := (&Record{Decision: hybrid, Took: 10}).off(); x != 0 {
		t.Errorf("a hybrid corrects by %v", x)
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add([]byte(`{"decision":{"best":{"name":"x","seconds":10,"gpu":{"name":"g"}}},"took_s":12}`))
	f.Add([]byte("{}\n\nnull"))
	f.Fuzz(func(t *testing.T, src []byte) {
		records, err := DecodeRecords(src)
		if err != nil {
			if at := (*graph.SyntaxError)(nil); !errors.As(err, &at) || at.Line < 1 {
				t.Fatal(err)
			}
			return
		}
		e := Refine(sheet{}, records).Predict(Need{Flops: 1e12}, GPU{Name: "g", FP32: 1e12, MemoryBPS: 1e9, MemoryBytes: 1}, 1)
		if e.Fits && !(e.Median > 0) {
			t.Fatalf("%+v", e)
		}
	})
}

// A machine that is always slower by the same factor is planned so in the end: what was corrected
// already is no reason to believe that the correction was too large.
func TestRefineConverges(t *testing.T) {
	const slower = 4
	at := func(r *Refined) float64 {
		return r.Correct("x", Estimate{Median: 100, Low: 90, High: 110, Fits: true}).Median
	}
	var records []Record
	for range 40 {
		r := Refine(nil, records)
		d := Decision{Best: Option{Kind: Cloud, Name: "x", GPU: GPU{Name: "x"}, Seconds: at(r)}}
		records = append(records, Record{Decision: d, Took: 100 * slower, Corrected: r.Factor("x")})
	}
	if got := at(Refine(nil, records)); got < 380 || got > 400 {
		t.Errorf("after 40 plans that took 400 s it is predicted as %v", got)
	}
}
