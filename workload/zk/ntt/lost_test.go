package ntt_test

import (
	"fmt"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// A device that is lost in any stage of a transform over three devices, when it computes, when it moves
// elements or when data is copied to it, changes no bit of it.
func TestLost(t *testing.T) {
	for _, deed := range []string{"lose kernel ntt.pass times 1", "lose kernel ntt.move times 1", "lose op 1", "lose op 5", "lose op 9", "lose op 13", "fail launches times 1"} {
		o, err := fake.Parse(fmt.Sprintf("devices 3; on 1 %s", deed))
		if err != nil {
			t.Fatal(err)
		}
		o.Funcs = ntt.Funcs()
		drv, err := fake.New(o)
		if err != nil {
			t.Fatal(err)
		}
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Partitioner: "equal", Policy: "roundrobin",
			Drivers: []driver.Driver{drv}, Funcs: ntt.Funcs(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range transforms {
			j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Transform: tr, Log: 10, Seed: 4}))
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Errorf("%s: %v", deed, err)
			}
		}
		if m := rt.Metrics(); deed[0] == 'l' && m.Losses == 0 {
			t.Errorf("%s: no device was lost", deed)
		}
		rt.Close()
	}
}
