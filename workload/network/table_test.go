package network_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// A table has a line for each node with the numbers that the job has, to the last bit.
func TestTable(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: network.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	file := filepath.Join(t.TempDir(), "edges.txt") // in two parts: distances between them are infinite
	if err := os.WriteFile(file, []byte("0 1\n1 0\n2 3\n3 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c      network.Config
		header string
		cells  func(j workload.Job, node int) []float64
	}{
		{network.Config{Problem: network.PageRank, Graph: "karate"}, "node,rank",
			func(j workload.Job, i int) []float64 { return []float64{j.(*network.RankJob).Ranks()[i]} }},
		{network.Config{Problem: network.Layers, Graph: "karate", Features: 3, Layers: 2}, "node,feature 0,feature 1,feature 2",
			func(j workload.Job, i int) (out []float64) {
				for k := range 3 {
					out = append(out, float64(j.(*network.LayersJob).Result(1).Data[3*i+k]))
				}
				return out
			}},
		{network.Config{Problem: network.Closeness, Graph: "karate"}, "node,closeness",
			func(j workload.Job, i int) []float64 {
				return []float64{float64(j.(*network.DistanceJob).Closeness()[i])}
			}},
		{network.Config{Problem: network.Medoids, Graph: file, K: 1}, "node,medoid,distance",
			func(j workload.Job, i int) []float64 {
				d := j.(*network.DistanceJob)
				medoids, labels := d.Medoids()
				m := medoids[labels[i]]
				return []float64{float64(m), float64(d.Distances().Data[i*d.Distances().Cols+int(m)])}
			}},
	} {
		j, err := network.New(c.c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workload.Run(t.Context(), rt, j); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := j.(workload.Tabular).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(rows[0], ","); got != c.header {
			t.Errorf("%s: columns %s, want %s", c.c.Problem, got, c.header)
		}
		if n := map[string]int{"karate": 34, file: 4}[c.c.Graph]; len(rows) != n+1 {
			t.Fatalf("%s: %d rows, want %d", c.c.Problem, len(rows)-1, n)
		}
		for i, row := range rows[1:] {
			want := c.cells(j, i)
			if row[0] != fmt.Sprint(i) || len(row) != len(want)+1 {
				t.Fatalf("%s: row %d is %v", c.c.Problem, i, row)
			}
			for k, x := range want {
				bits := 32
				if c.c.Problem == network.PageRank {
					bits = 64
				}
				if got, err := strconv.ParseFloat(row[k+1], bits); err != nil || got != x {
					t.Errorf("%s: row %d is %v, want %v", c.c.Problem, i, row, want)
				}
			}
		}
		if err := j.(workload.Tabular).WriteTable(broken{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: an output that fails: %v", c.c.Problem, err)
		}
	}
}

var errBroken = errors.New("broken")

// broken is an output that takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
