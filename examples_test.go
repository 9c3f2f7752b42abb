package weft_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// bump adds one to every number it is given.
func bump(c *weft.Call, lo, hi int) {
	for i := range weft.View[int32](c.Args[0])[lo:hi] {
		weft.View[int32](c.Args[0])[lo+i]++
	}
}

// start opens a runtime without measuring devices, which examples can do without.
func start(o weft.Options) *weft.Runtime {
	o.NoCalibrate, o.CacheDir = true, "off"
	rt, err := weft.Open(context.Background(), o)
	if err != nil {
		log.Fatal(err)
	}
	return rt
}

// counter is a runtime and a graph that adds one to three numbers named x.
func counter(o weft.Options) (*weft.Runtime, *graph.Graph) {
	o.Funcs = map[string]weft.Func{"bump": bump}
	rt := start(o)
	kernel := graph.GoKernel("bump")
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 12, Input: true, Output: true})
	b.Add(graph.Task{
		Name:  "bump x",
		Steps: []graph.Step{{Kernel: kernel, Launch: graph.Grid(3)}},
		Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
	})
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return rt, g
}

// Parameters of a kernel are a structure: the step packs it, and the kernel gets it.
func ExampleWithParams() {
	type scale struct {
		N  int // elements
		By float32
	}
	rt := start(weft.Options{Funcs: map[string]weft.Func{
		"scale": weft.WithParams(func(c *weft.Call, p scale, lo, hi int) {
			for i, x := range weft.View[float32](c.Args[0])[lo:hi] {
				weft.View[float32](c.Args[0])[lo+i] = p.By * x
			}
		}),
	}})
	defer rt.Close()
	kernel := graph.GoKernel("scale")
	step := graph.Step{Kernel: kernel, Launch: graph.Grid(3)}
	run := func(n int) {
		var b graph.Builder
		data := b.Data(graph.Data{Name: "x", Bytes: 12, Input: true, Output: true})
		b.Add(graph.Task{
			Name:  "scale x",
			Steps: []graph.Step{step.With(scale{N: n, By: 0.5})},
			Uses:  []graph.Use{{Data: data, Access: graph.ReadWrite}},
		})
		g, err := b.Build()
		if err != nil {
			fmt.Println(err)
			return
		}
		x := []float32{1, 2, 3}
		_, err = rt.Run(context.Background(), g, weft.Bind("x", x))
		fmt.Println(x, err)
	}
	run(3)
	run(5_000_000_000) // more than 32 bits
	// Output:
	// [0.5 1 1.5] <nil>
	// task "scale x": step 0: bad value: weft_test.scale.N is 5000000000: an int among parameters is from 0 to 4294967295
}

// A graph that is run often is prepared once.
func ExampleRuntime_Prepare() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	p, err := rt.Prepare(g)
	if err != nil {
		log.Fatal(err)
	}
	a, b := []int32{1, 2, 3}, []int32{10, 20, 30}
	for _, xs := range [][]int32{a, b, a} {
		if _, err := p.Run(context.Background(), weft.Bind("x", xs)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(a, b)
	// Output: [3 4 5] [11 21 31]
}

// A buffer is bound like any slice; GPUs copy from it at the speed of their link.
func ExampleNewBuffer() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	buf, err := weft.NewBuffer[int32](rt, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Release()
	copy(buf.Slice(), []int32{1, 2, 3})
	if _, err := rt.Run(context.Background(), g, weft.Bind("x", buf.Slice())); err != nil {
		log.Fatal(err)
	}
	fmt.Println(buf.Slice())
	// Output: [2 3 4]
}

// Predict says what a run would take and where it would go, without running it.
// Before a kernel has run, its time follows from what the devices were measured at.
func ExampleRuntime_Predict() {
	rt, g := counter(weft.Options{Devices: "cpu"})
	defer rt.Close()
	p, err := rt.Predict(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Samples, "measurements; share of", p.Devices[0].Name, "in tasks:", p.Devices[0].Tasks)
	// Output: 0 measurements; share of cpu:0 in tasks: 1
}

// Compare tells which of several graphs would be done first, by the rates of devices
// and links alone.
func ExampleRuntime_Compare() {
	rt, g := counter(weft.Options{Devices: "cpu"})
	defer rt.Close()
	takes, err := rt.Compare(context.Background(), g, g)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(takes), takes[0] > 0, takes[0] == takes[1])
	// Output: 2 true true
}

// Many runs at once: Submit returns at once, and Wait when the run has ended.
func ExampleRuntime_Submit() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	told := make(chan string)
	xs := []int32{1, 2, 3}
	h := rt.Submit(g, func(_ *weft.Report, err error) { told <- fmt.Sprint("ended: ", err) }, weft.Bind("x", xs))
	fmt.Println(<-told)
	report, err := h.Wait()
	fmt.Println(report.Executed, report.Elapsed() > 0, err, xs)
	// Output:
	// ended: <nil>
	// 1 true <nil> [2 3 4]
}

// Cancel ends a run early. What is in flight is waited for, so the memory bound
// to the run is the caller's again when Wait returns.
func ExampleHandle_Cancel() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	h := rt.Submit(g, nil, weft.Bind("x", []int32{1, 2, 3}))
	h.Cancel()
	<-h.Done()
	_, err := h.Wait() // it may have been quicker
	fmt.Println(err == nil || errors.Is(err, weft.ErrCancelled))
	// Output: true
}

// Resident data stays on its device between runs: here it is updated in place
// of being sent and fetched every time.
func ExamplePut() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	data, err := weft.Put(rt, "counter", []int32{10, 20, 30})
	if err != nil {
		log.Fatal(err)
	}
	defer data.Release()
	for range 3 {
		if _, err := rt.Run(context.Background(), g, data.As("x")); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(data.Get(context.Background()))
	// Output: [13 23 33] <nil>
}

func ExampleAlloc() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	data, err := weft.Alloc[int32](rt, "counter", 3)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := rt.Run(context.Background(), g, data.As("x")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(data.Get(context.Background()))
	// Output: [1 1 1] <nil>
}

// What is wrong with a run is told before anything starts.
func ExampleBind() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	_, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2}))
	fmt.Println(err)
	fmt.Println(errors.Is(err, weft.ErrBinding))
	// Output:
	// bad binding: data "x" has 12 bytes and is bound to 8
	// true
}

// A run whose result is to be checked should find nothing where it writes that an
// earlier run has left.
func ExampleSpoil() {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 4, Output: true})
	square := graph.GoKernel("square")
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: square}},
		Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	in, out := []uint32{7}, []uint32{49}
	weft.Spoil(g, weft.Bind("x", in), weft.Bind("y", out))
	fmt.Println(in, out)
	// Output: [7] [4294967295]
}

// Metrics are plain numbers, for whoever collects them.
func ExampleRuntime_Metrics() {
	rt, g := counter(weft.Options{Devices: "cpu/1"})
	if _, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2, 3})); err != nil {
		log.Fatal(err)
	}
	rt.Close()
	m := rt.Metrics() // also after Close
	fmt.Println(m.Runs.Submitted, m.Runs.Completed, m.Runs.Failed, m.Devices[0].Name, m.Devices[0].Tasks, m.Losses)
	_, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2, 3}))
	fmt.Println(errors.Is(err, weft.ErrClosed))
	// Output:
	// 1 1 0 cpu:0 1 0
	// true
}

// What the devices are, and which of them are best.
func ExampleRuntime_Devices() {
	rt, _ := counter(weft.Options{Devices: "cpu/2"})
	defer rt.Close()
	for _, d := range rt.Devices() {
		fmt.Println(d.Name, d.State, d.Tasks)
	}
	for _, id := range rt.Best(9) { // of equals, the one that has less to do
		fmt.Println(rt.Machine().DeviceName(id))
	}
	// Unordered output:
	// cpu:0 healthy 0
	// cpu:1 healthy 0
	// cpu:0
	// cpu:1
}

// A report says how busy devices were and what kept the run from being faster.
func ExampleReport_Bottleneck() {
	rt, g := counter(weft.Options{Devices: "cpu/1"})
	defer rt.Close()
	report, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2, 3}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Imbalance(), report.Utilisation(0) > 0, report.Bottleneck() != "")
	// Output: 0 true true
}

// Split cuts work by what each device can do; devices that are alike get about
// the same.
func ExampleRuntime_Split() {
	rt, g := counter(weft.Options{Devices: "cpu/2", Partitioner: "equal"})
	defer rt.Close()
	cut, err := rt.Split(sched.Items{Extent: 1001}, *g.Task(0))
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range cut.Ranges {
		fmt.Println(r.Lo, r.Hi)
	}
	// Output:
	// 0 501
	// 501 1001
}

// Plan cuts work into tasks, builds the graph by the caller's function and predicts it.
func ExampleRuntime_Plan() {
	rt, g := counter(weft.Options{Devices: "cpu"})
	defer rt.Close()
	p, err := rt.Plan(context.Background(), weft.Divisible{
		Items: sched.Items{Extent: 3}, Whole: *g.Task(0),
		Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			fmt.Println("tasks:", ranges)
			return g, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Partition.Ranges, p.Partition.Completion == p.Prediction.Median)
	// Output:
	// tasks: [{0 3}]
	// [{0 3}] true
}

// A trace holds what ran where; package trace shows and exports it.
func ExampleRuntime_Trace() {
	rt, g := counter(weft.Options{Trace: 1000})
	if _, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2, 3})); err != nil {
		log.Fatal(err)
	}
	rt.Close()
	for _, e := range rt.Trace() {
		if e.Task >= 0 {
			fmt.Println(g.TaskName(graph.TaskID(e.Task)))
			break
		}
	}
	// Output: bump x
}

// A configuration file has the same keys as flags and as Options.
func ExampleLoadOptions() {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("weft-example-%d.conf", os.Getpid()))
	defer os.Remove(path)
	text := "devices = cpu/2   # the cores as two devices\nhost_bytes = 512MiB\ntask_timeout = 2s\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	o, err := weft.LoadOptions(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.HostBytes, o.TaskTimeout)
	text2, err := json.Marshal(o)
	fmt.Println(string(text2), err)
	// Output:
	// 536870912 2s
	// {"devices":"cpu/2","task_timeout":"2s","host_bytes":"512MiB"} <nil>
}

// Keys names every setting there is.
func ExampleKeys() {
	for _, k := range weft.Keys()[:3] {
		fmt.Printf("%-12s %q\n", k.Name, k.Default)
	}
	// Output:
	// devices      ""
	// max_devices  "none"
	// policy       "finish"
}

func ExampleOptions_Set() {
	var o weft.Options
	fmt.Println(o.Set("fault_tolerance", "off"), o.Get("fault_tolerance"), o.NoFaultTolerance)
	err := o.Set("polcy", "steal")
	fmt.Println(err)
	fmt.Println(errors.Is(err, weft.ErrOptions))
	// Output:
	// <nil> off true
	// bad option: unknown key "polcy"; did you mean policy?
	// true
}

// Validate reports all mistakes at once; Open does the same.
func ExampleOptions_Validate() {
	o := weft.Options{Devices: "cpu/0", Retries: -7}
	fmt.Println(o.Validate())
	// Output:
	// bad option: devices: bad device list: device "cpu/0": divide it into 1 to 64 parts, as in cpu/4
	// bad option: retries: "-7" is not a count; write a whole number from 0 on
}

// A program that uses GPUs is its own worker: in such a process Worker does not
// return.
func ExampleWorker() {
	weft.Worker() // first in main
	rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(rt.Devices()), "device")
	fmt.Println(rt.Close())
	// Output:
	// 1 device
	// <nil>
}

// GPUs that have a library for it are made ranks of a communicator; cores have
// none. Package collective does so where it pays.
func ExampleRuntime_Join() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	number, err := rt.Join(ctx, rt.Best(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Leave(number)
	// Output:
	// join: cpu:0: not available: it has no native collectives
}

// GPUs find out by measurement how a kernel runs fastest; cores do so without.
func ExampleRuntime_Tuning() {
	rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for _, t := range rt.Tuning() {
		fmt.Printf("%s: kernel %s by %s in blocks of %d threads\n", t.Device, t.Kernel, t.Entry, t.Block)
	}
	// Output:
}
