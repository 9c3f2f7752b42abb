package api

import "testing"

// BenchmarkEncodeInfer makes the request of a prediction with an input of 1 MiB.
func BenchmarkEncodeInfer(b *testing.B) {
	b.ReportAllocs()
	r := &InferRequest{Model: "m", Inputs: []Tensor{NewTensor("x", make([]float32, 1<<18))}}
	for b.Loop() {
		if _, err := encodeInfer(r); err != nil {
			b.Fatal(err)
		}
	}
}
