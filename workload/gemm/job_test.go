package gemm_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/gemm"
)

// Rows are bitwise the same on any number of devices (class R), and right.
func TestJobOnDevices(t *testing.T) {
	var want []byte
	for parts := 1; parts <= 8; parts++ {
		rt, err := weft.Open(context.Background(), weft.Options{NoCalibrate: true, CacheDir: "off", Devices: fmt.Sprintf("cpu/%d", parts), Funcs: gemm.Funcs(), Partitioner: "equal"})
		if err != nil {
			t.Fatal(err)
		}
		j, err := gemm.New(gemm.Config{M: 301, K: 97, N: 203, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workload.Run(context.Background(), rt, j); err != nil {
			t.Fatal(err)
		}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		c := j.Result()
		got := unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), 4*len(c))
		if want == nil {
			want = bytes.Clone(got)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%d devices give other bytes than one", parts)
		}
		rt.Close()
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []gemm.Config{{}, {M: 1, K: -1, N: 1}, {M: 1 << 20, K: 1, N: 1}} {
		if _, err := gemm.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
