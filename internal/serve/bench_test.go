package serve

import (
	"strconv"
	"testing"

	"github.com/weft-run/weft/api"
)

// BenchmarkInference reads a request with the input of a reservoir, 1280 numbers, as JSON and as
// binary data.
func BenchmarkInference(b *testing.B) {
	x := make([]float32, 20*64)
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	t := api.NewTensor("input", x, 1, 20, 64)
	list, err := t.AppendJSON(nil)
	if err != nil {
		b.Fatal(err)
	}
	head := `{"inputs":[{"name":"input","shape":[1,20,64],"datatype":"FP32",`
	text := head + `"data":` + string(list) + `}]}`
	head += `"parameters":{"binary_data_size":` + strconv.Itoa(len(t.Data)) + `}}]}`
	for name, body := range map[string]string{"json": text, "binary": head + string(t.Data)} {
		header := -1
		if name == "binary" {
			header = len(head)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(t.Data)))
			for b.Loop() {
				if _, err := parseInference([]byte(body), header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
