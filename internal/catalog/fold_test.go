package catalog

import (
	"bytes"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/protein/fold"
)

// A trajectory has no more bytes than are predicted of it.
func TestTrajectoryBytes(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", NoCalibrate: true, CacheDir: "off", Funcs: fold.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, frames := range []int{1, 7} {
		r, err := fold.New(fold.Config{Structure: "BPTI", Steps: 3*frames - 1, Every: 3 - 1/frames, Replicas: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Do(t.Context(), rt, nil); err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"dcd", "pdb", "xtc"} {
			var b bytes.Buffer
			if err := r.Write(&b, format); err != nil {
				t.Fatal(err)
			}
			most, err := trajectoryBytes(format, r.Structure().Len(), r.Rounds())
			if err != nil || int64(b.Len()) > most || format != "xtc" && int64(b.Len()) != most {
				t.Errorf("%s: %d frames have %d bytes, predicted were %d: %v", format, r.Rounds(), b.Len(), most, err)
			}
		}
	}
	if n, err := trajectoryBytes("", 46, 100); n != 0 || err != nil {
		t.Errorf("none has %d bytes: %v", n, err)
	}
}
