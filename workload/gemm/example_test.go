package gemm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/gemm"
)

func ExampleMul() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: gemm.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a := workload.Matrix{Rows: 2, Cols: 3, Data: []float32{1, 2, 3, 4, 5, 6}}
	b := workload.Matrix{Rows: 3, Cols: 2, Data: []float32{1, 0, 0, 1, 1, 1}}
	c, err := gemm.Mul(ctx, rt, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Rows, c.Cols, c.Data)
	// Output: 2 2 [4 5 10 11]
}
