package bench

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/workload/reservoir"
)

// replicaRow is the cost of a strategy, in bytes sent, and its error.
type replicaRow struct {
	Strategy string  `json:"strategy"`
	Replicas int     `json:"replicas"`
	Batches  int     `json:"batches"`
	Merges   int     `json:"merges"`
	Bytes    int64   `json:"bytes"`    // sent for merges and for measuring divergence
	OfEager  float64 `json:"of_eager"` // bytes, relative to merging after every batch
	// Off is the distance of a replica from the one that is merged after every batch,
	// ‖x − x_eager‖ ÷ ‖x_eager‖, in the mean over replicas and batches; MostOff is the
	// largest.
	Off     float64 `json:"off"`
	MostOff float64 `json:"most_off"`
	Seconds float64 `json:"seconds"`
}

// Sizes of the benchmark's stream. With few steps and a small leak most of the state
// comes from earlier batches, so that it matters whether replicas are merged.
const (
	replicaCount    = 4
	replicaPatterns = 16
	replicaSteps    = 3
	replicaLeak     = 0.05
)

// replicaBatches is the number of batches of the stream. Tests take fewer.
var replicaBatches = 100

func newReplicaBench(s Setup) *cobra.Command {
	return benchmark[replicaRow]{
		use:   "replica",
		short: "What keeping replicas together costs, and what not doing so loses",
		long: fmt.Sprintf(`Carry the state of a reservoir through %d batches in %d replicas, dealt out to
the devices, with every strategy of merging them; report the bytes sent and the
distance from replicas that are merged after every batch.`, replicaBatches, replicaCount),
		repeat: 1, measure: measureReplicas, text: writeReplicas,
	}.command(s)
}

func measureReplicas(m *meter) (rows []replicaRow, err error) {
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	strategies := []string{"eager", "adaptive 0.03", "adaptive 0.05", "adaptive 0.1", "periodic 20ms", "none"}
	p := m.progress("strategy", len(strategies)*m.repeat)
	defer p.Finish()
	var eager [][][]float32
	for _, text := range strategies {
		p.At("%s", text)
		k, err := replica.ParseStrategy(text)
		if err != nil {
			return rows, err
		}
		var row replicaRow
		var seconds []float64
		for range m.repeat {
			var states [][][]float32
			if row, states, err = m.replicas(rt, k); err != nil {
				return rows, err
			}
			if eager == nil {
				eager = states
			}
			row.Off, row.MostOff = apart(states, eager)
			seconds = append(seconds, row.Seconds)
			p.Add()
		}
		row.Seconds = median(seconds)
		row.OfEager = 1
		if len(rows) > 0 {
			row.OfEager = float64(row.Bytes) / float64(rows[0].Bytes)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// replicas runs the stream with a strategy, checks it and returns the replicas
// after each batch.
func (m *meter) replicas(rt *weft.Runtime, k replica.Strategy) (row replicaRow, states [][][]float32, err error) {
	params := reservoir.Defaults()
	params.Size, params.Inputs, params.Leak, params.Seed = 500, 50, replicaLeak, 1
	s, err := reservoir.NewStream(rt, reservoir.StreamConfig{
		Params: params, Replicas: replicaCount, Patterns: replicaPatterns, Steps: replicaSteps, Strategy: k, Sample: 64,
	})
	if err != nil {
		return row, nil, err
	}
	defer s.Release()
	row = replicaRow{Strategy: k.String(), Replicas: replicaCount, Batches: replicaBatches}
	var took time.Duration
	for batch := range replicaBatches {
		began := time.Now()
		if _, err := s.Next(m.ctx); err != nil {
			return row, nil, err
		}
		took += time.Since(began)
		snap, err := s.State().Snapshot(m.ctx)
		if err != nil {
			return row, nil, err
		}
		states = append(states, snap.Replicas)
		if batch == 2 { // the reference computes all batches so far
			if err := checkStream(m, s); err != nil {
				return row, nil, err
			}
		}
	}
	st := s.State().Stats()
	row.Merges, row.Bytes, row.Seconds = int(st.Epoch), st.Bytes, took.Seconds()
	return row, states, nil
}

// checkStream compares a stream with its reference.
func checkStream(m *meter, s *reservoir.Stream) error {
	want, err := s.Reference()
	if err != nil {
		return err
	}
	got, err := s.State().Snapshot(m.ctx)
	if err != nil {
		return err
	}
	for r, x := range want {
		for i, v := range x {
			if !(math.Abs(v-float64(got.Replicas[r][i])) <= 1e-5) {
				return fmt.Errorf("the result is wrong: neuron %d of replica %d is %v, want %v", i, r, got.Replicas[r][i], v)
			}
		}
	}
	return nil
}

// apart is the distance of replicas from others, in the mean and at most.
func apart(states, from [][][]float32) (mean, most float64) {
	n := 0
	for b := range states {
		for r := range states[b] {
			var d2, n2 float64
			for i, v := range from[b][r] {
				d := float64(states[b][r][i]) - float64(v)
				d2, n2 = d2+d*d, n2+float64(v)*float64(v)
			}
			off := math.Sqrt(d2 / n2)
			mean, most, n = mean+off, max(most, off), n+1
		}
	}
	return mean / float64(n), most
}

func writeReplicas(w io.Writer, rows []replicaRow) {
	table := [][]any{{"strategy", "merges", "bytes", "of eager", "off on average", "at most", "took"}}
	for _, r := range rows {
		table = append(table, []any{r.Strategy, r.Merges, r.Bytes, terminal.Percent(r.OfEager), terminal.Percent(r.Off), terminal.Percent(r.MostOff), terminal.Seconds(r.Seconds)})
	}
	terminal.Table(w, table)
}
