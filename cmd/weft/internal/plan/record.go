package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/graph"
)

// Record is a decision that is kept, and what really happened.
type Record struct {
	Decision Decision `json:"decision"`
	Took     float64  `json:"took_s,omitempty"` // until the result was here; 0 as long as it is not known
	Spent    float64  `json:"spent,omitempty"`  // US dollars; 0 if it is not known
	// Corrected is by how much predictions had been corrected ([Refined.Factor]); 0 for not.
	Corrected float64 `json:"corrected,omitempty"`
}

// DecodeRecords reads records, one in each line. Every error is a *graph.SyntaxError.
func DecodeRecords(src []byte) (records []Record, err error) {
	line := 0
	for text := range bytes.Lines(src) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, &graph.SyntaxError{Line: line, Reason: "not a record of a plan: " + err.Error()}
		}
		if r.Decision.Best.Name == "" || !(r.Took >= 0) || !(r.Spent >= 0) || !(r.Corrected >= 0) {
			return nil, &graph.SyntaxError{Line: line, Reason: "not a record of a plan: expected a decision, and a time and a cost that are not negative"}
		}
		records = append(records, r)
	}
	return records, nil
}

// EncodeRecords writes records as DecodeRecords reads them.
func EncodeRecords(records []Record) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i := range records {
		if err := e.Encode(&records[i]); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	return b.Bytes(), nil
}

// off is by which factor computing took longer than its median was predicted, 0 if the
// record does not tell: nothing is known yet, or two machines shared the work.
func (r *Record) off() float64 {
	o := &r.Decision.Best
	fixed := o.Start + o.Upload + o.Download
	if r.Took <= fixed || o.Kind == Hybrid || o.Seconds <= fixed {
		return 0
	}
	return (r.Took - fixed) / (o.Seconds - fixed) * cmp.Or(r.Corrected, 1)
}

// Outcome says how a record's plan did.
type Outcome struct {
	Name      string
	Predicted float64 // seconds, median
	Took      float64
	Within    bool // it took no longer than was to be kept with the asked confidence
}

// Compare returns how the plans did of which it is known.
func Compare(records []Record) (out []Outcome) {
	for i := range records {
		if r, o := &records[i], &records[i].Decision.Best; r.Took > 0 {
			out = append(out, Outcome{Name: o.Name, Predicted: o.Seconds, Took: r.Took, Within: r.Took <= o.Seconds90})
		}
	}
	return out
}

// Refine returns a predictor that corrects another by what happened: for each GPU, the
// mean of the factors by which records were off, drawn towards none as if there were one
// record more that was exact. The interval keeps its width, and is widened as far as it
// takes to hold the factors seen.
func Refine(p Predictor, records []Record) *Refined {
	r := &Refined{Predictor: p, off: make(map[string][]float64)}
	for i := range records {
		if x := records[i].off(); x > 0 {
			name := records[i].Decision.Best.GPU.Name
			r.off[name] = append(r.off[name], math.Log(x))
		}
	}
	return r
}

// Refined is a predictor that is corrected by records.
type Refined struct {
	Predictor
	off map[string][]float64 // logarithms of the factors it was off by, by GPU
}

// Predict returns the corrected answer of the predictor beneath.
func (r *Refined) Predict(need Need, g GPU, count int) Estimate {
	return r.Correct(g.Name, r.Predictor.Predict(need, g, count))
}

// Correct applies what was seen of a GPU to an estimate of it.
func (r *Refined) Correct(gpu string, e Estimate) Estimate {
	seen := r.off[gpu]
	if len(seen) == 0 || !e.Fits || !e.valid() {
		return e
	}
	mean := r.mean(gpu)
	below, above := e.Median/e.Low, e.High/e.Median
	e.Median *= math.Exp(mean)
	e.Low = e.Median / max(below, math.Exp(mean-slices.Min(seen)))
	e.High = e.Median * max(above, math.Exp(slices.Max(seen)-mean))
	e.Why += fmt.Sprintf("; corrected by %.3g after %d plans on a %s", math.Exp(mean), len(seen), gpu)
	return e
}

// Factor is by how much estimates of a GPU are corrected. A record of a plan that was made with it
// is to have it as Corrected.
func (r *Refined) Factor(gpu string) float64 { return math.Exp(r.mean(gpu)) }

// mean is the logarithm of that.
func (r *Refined) mean(gpu string) float64 {
	sum := 0.0
	for _, x := range r.off[gpu] {
		sum += x
	}
	return sum / float64(len(r.off[gpu])+1)
}
