package msm_test

import (
	"fmt"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/zk/msm"
)

// A device that is lost in the middle of a sum, when it computes or when data is copied to it,
// changes no bit of it; resident points are sent again.
func TestLost(t *testing.T) {
	points, _ := msm.Draw[bn254.G1Affine](4, 2000)
	scalars := msm.DrawScalars(4, 2000)
	want := msm.Reference(points, scalars)
	for _, deed := range []string{"lose kernel msm.g1 times 1", "lose op 1", "lose op 2", "lose op 3", "lose op 4", "fail launches times 1"} {
		o, err := fake.Parse(fmt.Sprintf("devices 3; on 1 %s", deed))
		if err != nil {
			t.Fatal(err)
		}
		o.Funcs = msm.Funcs()
		drv, err := fake.New(o)
		if err != nil {
			t.Fatal(err)
		}
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Partitioner: "equal", Policy: "roundrobin",
			Drivers: []driver.Driver{drv}, Funcs: msm.Funcs(),
		})
		if err != nil {
			t.Fatal(err)
		}
		key, err := msm.Put(rt, points)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			j := workloadtest.New[*msm.Job[bn254.G1Affine]](t)(key.Job(scalars))
			workloadtest.Run(t, rt, j)
			if got := j.Result(); got != want {
				t.Errorf("%s: %v, want %v", deed, got, want)
			}
		}
		if m := rt.Metrics(); m.Losses+m.Retries == 0 {
			t.Errorf("%s: nothing happened", deed)
		}
		key.Release()
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}
