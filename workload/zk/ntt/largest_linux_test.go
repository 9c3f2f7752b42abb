package ntt

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		c := Config{Log: MaxLog}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		h := func() []fr.Element { return workloadtest.Hollow[fr.Element](t, 1<<MaxLog) }
		workloadtest.Largest(t, &job{c: c, log: MaxLog, most: logLocal, x: h(), out: h(), tables: tables(MaxLog, c.Transform), hosted: hosted})
	}
}
