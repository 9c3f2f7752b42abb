package chaos

import "testing"

func TestSpread(t *testing.T) {
	var xs []float64
	for i := range 200 {
		xs = append(xs, float64(200-i))
	}
	if got, want := SpreadOf(xs), (Spread{200, 100, 198, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := SpreadOf([]float64{7}), (Spread{1, 7, 7, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SpreadOf(nil); got != (Spread{}) {
		t.Errorf("%+v of nothing", got)
	}
}
