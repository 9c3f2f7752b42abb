package conv_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/conv"
)

// Layers that make no sense, and slices that do not fit them, are refused in one line.
func TestOfRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, conv.Funcs())
	good := conv.Layer{Shape: conv.Shape{N: 1, C: 4, H: 5, W: 6, K: 2, R: 2, S: 3, Stride: 1}, Groups: 2}
	x, w := make([]float32, 4*5*6), make([]float32, 2*2*2*3)
	for what, spoil := range map[string]func(l *conv.Layer, x, w *[]float32){
		"no images":            func(l *conv.Layer, x, _ *[]float32) { l.N, *x = 0, nil },
		"no columns":           func(l *conv.Layer, x, _ *[]float32) { l.W, *x = 0, nil },
		"no stride":            func(l *conv.Layer, _, _ *[]float32) { l.Stride = 0 },
		"dilation below zero":  func(l *conv.Layer, _, _ *[]float32) { l.Dilation = -1 },
		"far dilation":         func(l *conv.Layer, _, _ *[]float32) { l.Dilation = 5 },
		"huge dilation":        func(l *conv.Layer, _, _ *[]float32) { l.Dilation = math.MaxInt },
		"groups below zero":    func(l *conv.Layer, _, _ *[]float32) { l.Groups = -2 },
		"groups of no channel": func(l *conv.Layer, _, _ *[]float32) { l.Groups = 3 },
		"groups of no filter":  func(l *conv.Layer, _, _ *[]float32) { l.Groups = 4 },
		"padding below zero":   func(l *conv.Layer, _, _ *[]float32) { l.Left = -1 },
		"huge padding":         func(l *conv.Layer, _, _ *[]float32) { l.Bottom = math.MaxInt },
		"a large padded image": func(l *conv.Layer, _, _ *[]float32) { l.Bottom, l.Right = 1<<20, 1<<20 },
		"an overflow":          func(l *conv.Layer, _, _ *[]float32) { l.N, l.C, l.H = 1<<31-1, 1<<30, 1 },
		"many results":         func(l *conv.Layer, _, _ *[]float32) { l.N, l.K, l.Pad = 1<<20, 1<<20, 100 },
		"a large filter":       func(l *conv.Layer, _, _ *[]float32) { l.R = 6 },
		"nil images":           func(_ *conv.Layer, x, _ *[]float32) { *x = nil },
		"images too long":      func(_ *conv.Layer, x, _ *[]float32) { *x = append(*x, 0) },
		"filters too short":    func(_ *conv.Layer, _, w *[]float32) { *w = (*w)[1:] },
	} {
		l, images, filters := good, x, w
		spoil(&l, &images, &filters)
		if _, err := conv.Of(t.Context(), rt, images, filters, l); !errors.Is(err, conv.ErrShape) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := conv.Of(t.Context(), rt, x, w, good); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conv.Of(ctx, rt, x, w, good); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}
