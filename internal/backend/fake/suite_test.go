package fake_test

import (
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/internal/backend/fake"
)

func config(tb testing.TB, script string) backendtest.Config {
	return backendtest.Config{Open: func() driver.Driver {
		o, err := fake.Parse(script)
		if err != nil {
			tb.Fatal(err)
		}
		o.Funcs = backendtest.Funcs()
		drv, err := fake.New(o)
		if err != nil {
			tb.Fatal(err)
		}
		return drv
	}}
}

func TestSuite(t *testing.T) {
	for _, script := range []string{
		"devices 2; memory 67108864",
		"devices 2; memory 67108864; lanes 3; peer; revive standby fails; revive restart kept",
		"devices 2; memory 67108864; take 100us launches; set temp 60; set util 0.5",
	} {
		t.Run(script, func(t *testing.T) { backendtest.Run(t, config(t, script)) })
	}
}

func Benchmark(b *testing.B) { backendtest.Bench(b, config(b, "devices 2; peer")) }
