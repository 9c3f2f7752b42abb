package product_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/product"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// Packing once for all and packing in every call give the same bits, over
// several items of the kernels and ranges that are no multiples of them.
func TestFormsAgree(t *testing.T) {
	kind := product.New(product.Kind{Name: "test", Unit: "op"}, panel.SumProduct()[0])
	j, err := kind.New(product.Config{M: 1000, K: 70, N: 300, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(context.Background(), weft.Options{NoCalibrate: true, CacheDir: "off", Devices: "cpu", Funcs: kind.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	ranges := []sched.Range{{Lo: 0, Hi: 1}, {Lo: 1, Hi: 490}, {Lo: 490, Hi: 1000}}
	var got [2][]float32
	for i, form := range []workload.Job{j, j.Hosted()} {
		clear(j.Result())
		g, err := form.Graph(ranges)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Run(context.Background(), g, form.Bind()...); err != nil {
			t.Fatal(err)
		}
		got[i] = slices.Clone(j.Result())
	}
	a, b := j.Operands()
	want := make([]float32, len(j.Result()))
	panel.SumProduct()[0].Rows(want, a, b, 70, 300, 0, 1000, make([]float32, panel.Scratch))
	if !slices.Equal(got[0], want) || !slices.Equal(got[1], want) {
		t.Error("the forms of the job do not agree with one call for all rows")
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []product.Config{{}, {M: 1, K: -1, N: 1}, {M: 1 << 20, K: 1, N: 1}, {M: 1, K: 1}} {
		if err := c.Validate(); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
