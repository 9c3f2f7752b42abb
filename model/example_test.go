package model_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/model"
	"github.com/weft-run/weft/workload/conv"
)

//go:generate go run github.com/weft-run/weft/internal/tools/weftparams ../examples/blur
//go:generate ../workload/spirv.sh ../examples/blur/blur.comp

// A model is loaded from a folder, its weights are put on the devices once, and it is run
// with slices or with arrays of NumPy's format. Here it uses a Go function of a workload.
func Example() {
	ctx := context.Background()
	m, err := model.Load(model.Dir("../examples/blur"), "blur.json", model.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Ports())

	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, Funcs: conv.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	p, err := m.Prepare(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()

	src, err := os.ReadFile("../examples/blur/image.npy")
	if err != nil {
		log.Fatal(err)
	}
	image, err := model.ParseNPY(src)
	if err != nil {
		log.Fatal(err)
	}
	smooth := make([]float32, 2*24*32)
	report, err := p.Run(ctx, image.As("image"), model.Bind("smooth", smooth))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Executed, "tasks;", "the edge of the square is", smooth[8*32+12], "and its corner", smooth[8*32+8])
	// Output:
	// [image float32 [2 24 32] smooth float32 [2 24 32]]
	// 2 tasks; the edge of the square is 0.75 and its corner 0.5625
}

// A model that runs beside others can be given a smaller part of the devices, and be started
// without waiting for it.
func ExamplePrepared_With() {
	ctx := context.Background()
	m, err := model.Load(model.Dir("../examples/blur"), "blur.json", model.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, Funcs: conv.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	p, err := m.Prepare(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()
	behind, err := p.With(weft.RunOptions{Weight: 0.1, Concurrent: 1})
	if err != nil {
		log.Fatal(err)
	}
	image, smooth := make([]float32, 2*24*32), make([]float32, 2*24*32)
	image[5*32+5] = 1
	run, err := behind.Submit(nil, model.Bind("image", image), model.Bind("smooth", smooth))
	if err != nil {
		log.Fatal(err)
	}
	report, err := run.Wait()
	fmt.Println(report.Executed, "tasks,", smooth[5*32+5], err)
	_, err = behind.Submit(nil, model.Bind("image", image[1:]))
	fmt.Println(err)
	// Output:
	// 2 tasks, 0.25 <nil>
	// bad binding: binding of data "image": it has 6140 bytes, and data "image" takes 6144
}

// A model is tied to each device in turn, with weights that all of them have in common.
func ExamplePrepared_On() {
	ctx := context.Background()
	m, err := model.Load(model.Dir("../examples/blur"), "blur.json", model.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, Funcs: conv.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	p, err := m.Prepare(rt)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()
	image, smooth := make([]float32, 2*24*32), make([]float32, 2*24*32)
	for i, d := range rt.Devices() {
		on, err := p.On(d.Name)
		if err != nil {
			log.Fatal(err)
		}
		report, err := on.Run(ctx, model.Bind("image", image), model.Bind("smooth", smooth))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Devices[i].Tasks, "of", report.Executed, "tasks on", d.Name)
	}
	// Output:
	// 2 of 2 tasks on cpu:0
	// 2 of 2 tasks on cpu:1
}

// The elements of an array are read as numbers of its type.
func ExampleValues() {
	src, err := os.ReadFile("../examples/blur/gauss.npy")
	if err != nil {
		log.Fatal(err)
	}
	a, err := model.ParseNPY(src)
	if err != nil {
		log.Fatal(err)
	}
	xs, err := model.Values[float32](a)
	fmt.Println(a.Elem, a.Shape, xs[4], err)
	_, err = model.Values[int32](a)
	fmt.Println(err)
	// Output:
	// float32 [3 3] 0.25 <nil>
	// bad array: it holds float32, not int32
}
