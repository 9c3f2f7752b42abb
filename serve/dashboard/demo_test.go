//go:build browser

package dashboard

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
)

var (
	demo     = flag.String("demo", "", "serve the dashboard of a runtime with random work at this address, as in 127.0.0.1:8090")
	demoFor  = flag.Duration("demo-for", 10*time.Minute, "for how long")
	demoWhat = flag.String("demo-what", "cpu/3", "devices of the demo, or scene for a large machine that stands still")
)

// TestDemo shows the page with something to see, when -demo gives an address:
//
//	go test -tags browser ./serve/dashboard -run TestDemo -demo 127.0.0.1:8090 -timeout 0
func TestDemo(t *testing.T) {
	if *demo == "" {
		t.Skip("needs -demo ADDRESS")
	}
	ctx, cancel := context.WithTimeout(t.Context(), *demoFor)
	defer cancel()
	var handler http.Handler
	var work sync.WaitGroup
	defer work.Wait()
	if *demoWhat == "scene" {
		handler = still(scene(1, 16, 1000))
	} else {
		handler = liveDemo(t, ctx, &work)
	}
	l, err := net.Listen("tcp", *demo)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }}
	t.Logf("http://%s", l.Addr())
	fmt.Printf("http://%s\n", l.Addr())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.Serve(l)
}

// liveDemo opens a runtime that has random graphs to run until ctx ends.
func liveDemo(t *testing.T, ctx context.Context, work *sync.WaitGroup) http.Handler {
	rt, err := weft.Open(ctx, weft.Options{Devices: *demoWhat, NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{"spin": spin}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	jobs := &fakeJobs{}
	for w := range 2 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 9))
			for n := 0; ctx.Err() == nil; n++ {
				g, x := randomGraph(t, r, 40+r.IntN(60), 60_000)
				report, err := rt.Run(ctx, g, x)
				if err == nil {
					jobs.add(JobState{ID: fmt.Sprintf("%d-%d", w, n), Name: "spin", State: "done", Part: 1, Left: -1, Elapsed: report.Elapsed()})
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(r.IntN(300)) * time.Millisecond):
				}
			}
		})
	}
	return New(rt, Options{Name: "demo", Jobs: jobs})
}
