package weft_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/merkle"
)

// saidBy calls a function and returns the error among its results, or what it panicked with.
// A panic of Go's own, as for a nil pointer, is a mistake.
func saidBy(t *testing.T, name string, fn reflect.Value, args []reflect.Value) (err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(error)
			if _, raw := p.(runtime.Error); raw || !ok {
				t.Errorf("%s: panics with %v", name, p)
				e = fmt.Errorf("%v", p)
			}
			err = e
		}
	}()
	for _, v := range fn.Call(args) {
		if e, ok := v.Interface().(error); ok {
			err = e
		}
		if h, ok := v.Interface().(*weft.Handle); ok && h != nil {
			_, err = h.Wait()
		}
	}
	return err
}

// arguments returns some for a method: a context, or nil for one, and zero values.
func arguments(m reflect.Type, ctx context.Context) (args []reflect.Value, takes bool) {
	for i := range m.NumIn() {
		in := m.In(i)
		switch {
		case m.IsVariadic() && i == m.NumIn()-1:
		case in == reflect.TypeFor[context.Context]():
			takes = true
			v := reflect.New(in).Elem()
			if ctx != nil {
				v.Set(reflect.ValueOf(ctx))
			}
			args = append(args, v)
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	return args, takes
}

// What is nil is told by a line that says so, as an error where one is returned, by every
// method there is.
func TestNil(t *testing.T) {
	silent := map[string]bool{ // there is nothing to give up, and nothing in it
		"*weft.Data[int].Release": true, "*weft.Buffer[int].Release": true, "*weft.Buffer[int].Slice": true,
		"*weft.Handle.Cancel": true, "*weft.Handle.Progress": true,
		// The error comes where they are used.
		"*weft.Data[int].As": true, "*weft.Data[int].In": true, "*weft.Data[int].Out": true, "*weft.Data[int].InOut": true, "*weft.Data[int].Whole": true,
	}
	for _, nothing := range []any{(*weft.Runtime)(nil), (*weft.Prepared)(nil), (*weft.Data[int])(nil), (*weft.Buffer[int])(nil), (*weft.Handle)(nil)} {
		v := reflect.ValueOf(nothing)
		for i := range v.NumMethod() {
			name := v.Type().String() + "." + v.Type().Method(i).Name
			args, _ := arguments(v.Method(i).Type(), t.Context())
			err := saidBy(t, name, v.Method(i), args)
			if silent[name] != (err == nil) || err != nil && !strings.Contains(err.Error(), "is nil; ") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	rt := open(t, weft.Options{Devices: "cpu", Funcs: gemm.Funcs()})
	var none *weft.Data[float64]
	twice := &weft.Kernel[struct{}]{Name: "twice", Go: func(*weft.Call, struct{}, int, int) {}}
	for name, call := range map[string]func() error{
		"Put":       func() error { _, err := weft.Put(nil, "x", []int{1}); return err },
		"Alloc":     func() error { _, err := weft.Alloc[int](nil, "x", 1); return err },
		"NewBuffer": func() error { _, err := weft.NewBuffer[int](nil, 1); return err },
		"Apply":     func() error { _, err := weft.Apply(t.Context(), rt, twice, struct{}{}, none.InOut()); return err },
		"Bind": func() error {
			_, err := rt.Run(t.Context(), of(t, graph.GoKernel("gemm.rows")), none.As("x"))
			return err
		},
		"gemm.Mul":       func() error { _, err := gemm.Mul(t.Context(), nil, one, one); return err },
		"collective.New": func() error { _, err := collective.New(nil, collective.Options{}); return err },
		"replica.New":    func() error { _, err := replica.New(nil, []float32{1}, replica.Options[float32]{}); return err },
		"OnDevices":      func() error { _, err := pipeline.OnDevices(nil, pipeline.Program[int]{}); return err },
		"merkle":         func() error { _, err := merkle.RootOf(t.Context(), nil, make([][]byte, 1000)); return err },
		"then, no run": func() error {
			done := make(chan error)
			(*weft.Runtime)(nil).Submit(nil, func(_ *weft.Report, err error) { done <- err })
			return <-done
		},
	} {
		if err := saidBy(t, name, reflect.ValueOf(call), nil); err == nil || !strings.Contains(err.Error(), "is nil; ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// one is a matrix of one element.
var one = workload.Matrix{Rows: 1, Cols: 1, Data: []float32{1}}

// A nil context is told as well, by every method that takes one.
func TestNilContext(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu", Funcs: incFuncs})
	data, err := weft.Put(rt, "x", []int{1})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := rt.Prepare(of(t, graph.GoKernel("inc")))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []any{rt, data, prepared} {
		v := reflect.ValueOf(x)
		for i := range v.NumMethod() {
			name := v.Type().String() + "." + v.Type().Method(i).Name
			args, takes := arguments(v.Method(i).Type(), nil)
			if !takes || strings.HasSuffix(name, "Runtime.Run") { // which looks at the graph first
				continue
			}
			if err := saidBy(t, name, v.Method(i), args); err == nil || !strings.Contains(err.Error(), "the context is nil") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What is nil is named when it is given, on the goroutine that gave it.
func TestNilArguments(t *testing.T) {
	var none context.Context
	rt, g := open(t, weft.Options{Devices: "cpu/1", Funcs: incFuncs}), small(t, 1)
	for want, call := range map[string]func(){
		"weft: Open: the context is nil; use context.Background()": func() { weft.Open(none, weft.Options{}) },
		"weft: Run: the context is nil; use context.Background()":  func() { rt.Run(none, g, weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16))) },
		"weft: WithProgress: the function is nil":                  func() { weft.WithProgress(t.Context(), nil) },
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || fmt.Sprint(p) != want {
					t.Errorf("%v, want %s", p, want)
				}
			}()
			call()
		}()
	}
}
