package weft_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
)

// A device is replaced by a spare, serviced, and put back, while runs go on.
func ExampleRuntime_Swap() {
	ctx := context.Background()
	rt := start(weft.Options{Devices: "cpu/3", Spares: "cpu:2"})
	defer rt.Close()
	show := func() {
		d := rt.Devices()
		fmt.Println(d[0].State, d[1].State, d[2].State)
	}
	show()
	if err := rt.Swap(ctx, "cpu:0", "cpu:2"); err != nil {
		log.Fatal(err)
	}
	show()
	if err := rt.Undrain("cpu:0"); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// healthy healthy spare
	// drained healthy healthy
	// healthy healthy healthy
}

// A device is taken out of service; the last one cannot be.
func ExampleRuntime_Drain() {
	ctx := context.Background()
	rt := start(weft.Options{Devices: "cpu/2"})
	defer rt.Close()
	fmt.Println(rt.Drain(ctx, "cpu:0"))
	fmt.Println(rt.Drain(ctx, "cpu:1"))
	// Output:
	// <nil>
	// drain cpu:1: it is the last device that takes work; swap it with a spare, or undrain another first
}

// Who did not ask for a drain learns of its end by an event.
func ExampleRuntime_Drain_event() {
	ctx := context.Background()
	rt := start(weft.Options{Devices: "cpu/2"})
	defer rt.Close()
	events := rt.Events(ctx, weft.EventDevice, weft.EventDrained)
	if err := rt.Drain(ctx, "cpu:0"); err != nil {
		log.Fatal(err)
	}
	for e := range events {
		fmt.Println(e)
		if e.Kind == weft.EventDrained {
			break
		}
	}
	// Output:
	// device cpu:0 was healthy and is draining
	// device cpu:0 is drained
}

// Runs of one graph give way to those of another.
func ExamplePrepared_With() {
	rt, g := counter(weft.Options{})
	defer rt.Close()
	p, err := rt.Prepare(g)
	if err != nil {
		log.Fatal(err)
	}
	background, err := p.With(weft.RunOptions{Weight: 0.1, Concurrent: 1})
	if err != nil {
		log.Fatal(err)
	}
	x := []int32{1, 2, 3}
	if _, err := background.Run(context.Background(), weft.Bind("x", x)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x)
	_, err = p.With(weft.RunOptions{Weight: -1})
	fmt.Println(err)
	// Output:
	// [2 3 4]
	// bad option: run: weight -1; use a number from 1e-6 to 1e6, or 0 for 1
}

// The condition of a device is sampled at once, and a device that was lost is brought back.
func ExampleRuntime_Probe() {
	ctx := context.Background()
	rt := start(weft.Options{Devices: "cpu"})
	defer rt.Close()
	name := rt.Devices()[0].Name
	m, err := rt.Probe(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	if m.Health.TempC >= 0 { // CPU devices do not know theirs
		fmt.Println(m.Health.TempC, "°C")
	}
	if m.State == "broken" {
		err = rt.Recover(ctx, name)
	}
	fmt.Println(m.Name, m.State, err)
	// Output: cpu:0 healthy <nil>
}
