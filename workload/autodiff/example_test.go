package autodiff_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/autodiff"
)

func open(ctx context.Context) *weft.Runtime {
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: autodiff.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	return rt
}

// The gradient of an expression at two points.
func ExampleGradient() {
	ctx := context.Background()
	rt := open(ctx)
	defer rt.Close()
	f, err := autodiff.Parse("sin(x*y) + exp(z)")
	if err != nil {
		log.Fatal(err)
	}
	values, gradients, err := autodiff.Gradient(ctx, rt, f, []float64{
		0, 2, 0,
		1, 0, 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Variables())
	for i, v := range values {
		fmt.Printf("%.3f %.3f\n", v, gradients[3*i:3*i+3])
	}
	// Output:
	// [x y z]
	// 1.000 [2.000 0.000 1.000]
	// 2.718 [0.000 1.000 2.718]
}

// The Jacobian of polar coordinates, from expressions built in Go.
func ExampleJacobian() {
	ctx := context.Background()
	rt := open(ctx)
	defer rt.Close()
	r, phi := autodiff.Variable("r"), autodiff.Variable("phi")
	f, err := autodiff.Compile([]string{"r", "phi"}, r.Mul(autodiff.Cos(phi)), r.Mul(autodiff.Sin(phi)))
	if err != nil {
		log.Fatal(err)
	}
	_, d, err := autodiff.Jacobian(ctx, rt, f, []float64{2, 0})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f)
	fmt.Printf("dx/dr %.0f, dx/dphi %.0f, dy/dr %.0f, dy/dphi %.0f\n", d[0], d[1], d[2], d[3])
	// Output:
	// r*cos(phi); r*sin(phi)
	// dx/dr 1, dx/dphi -0, dy/dr 0, dy/dphi 2
}

// A mistake is named by its column.
func ExampleParse() {
	_, err := autodiff.Parse("sin(x*y + exp(z)")
	fmt.Println(err)
	// Output: autodiff: column 4: this bracket is not closed: bad expression
}
