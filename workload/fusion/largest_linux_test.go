package fusion

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	small := workloadtest.New[*job](t)(New(Config{Records: 64}))
	for _, bind := range []bool{false, true} {
		j := *small
		j.c = Config{Records: maxRecords, Bind: bind}
		if err := j.c.Validate(); err != nil {
			t.Fatal(err)
		}
		j.c = j.c.withDefaults()
		j.in, j.out = workloadtest.Hollow[float32](t, Floats*maxRecords), workloadtest.Hollow[float32](t, Floats*maxRecords)
		workloadtest.Largest(t, &j)
	}
}
