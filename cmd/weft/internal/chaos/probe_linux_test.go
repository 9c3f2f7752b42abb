package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
)

// A worker that stops while it has nothing to do is found by its probe, and brought back and
// verified before it gets work: nothing else would find it for a minute.
func TestProbeFindsIdleHang(t *testing.T) {
	rig, err := Open(t.Context(), weft.Options{Devices: "cpu/2", ProbeInterval: 20 * time.Millisecond, HangTimeout: time.Minute}, Workers{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := rig.Events(ctx, weft.EventDevice)
	// Probes that are not the first are judged.
	poll.True(t, "it runs for half a second", func() bool { return rig.Metrics().Uptime >= 500*time.Millisecond })
	if _, err := Any(rand.New(rand.NewPCG(1, 1)), Stop); err != nil {
		t.Fatal(err)
	}
	name, lost, verified := "", false, false
	for e := range events {
		if e.To == "lost" {
			name, lost = e.Device, true
		}
		if e.Device != name {
			continue
		}
		verified = verified || lost && e.From == "lost" && e.To == "suspect"
		if lost && e.To == "healthy" {
			if !verified || e.From != "suspect" {
				t.Errorf("it got work without having been verified: %v", e)
			}
			return
		}
	}
	t.Errorf("lost %v, verified %v, and never healthy: %+v", lost, verified, rig.Devices())
}
