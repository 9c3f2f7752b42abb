//go:build browser

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"

	"github.com/weft-run/weft/internal/test/poll"
)

// odd changes every number of a state to one of another magnitude, but those that are names.
func odd(s *pageState, seed uint64) *pageState {
	r := rand.New(rand.NewPCG(seed, 11))
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && r.IntN(8) == 0 && v.Elem().Kind() == reflect.Float64 {
				v.SetZero()
			} else if !v.IsNil() {
				walk(v.Elem(), name)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), v.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), name)
			}
		case reflect.Float64:
			switch {
			case r.IntN(10) == 0:
				v.SetFloat(0)
			case slices.Contains([]string{"Util", "Part", "Gain", "Imbalance", "AllUtil"}, name):
				v.SetFloat(r.Float64())
			case name == "Temp":
				v.SetFloat(150 * r.Float64())
			default:
				v.SetFloat(r.Float64() * math.Pow(10, float64(r.IntN(18)-9)))
			}
		case reflect.Int, reflect.Int64, reflect.Uint64:
			if x := int64(r.Float64() * math.Pow(10, float64(r.IntN(15)))); name != "Run" && name != "N" && name != "Started" && name != "Submitted" {
				v.Set(reflect.ValueOf(x).Convert(v.Type()))
			}
		}
	}
	past := s.History
	s.History = nil
	walk(reflect.ValueOf(s).Elem(), "")
	s.History = past
	return s
}

// hostile is a state with names that would be code, were they taken for HTML.
func hostile() *pageState {
	s := scene(4, 3, 3)
	const bad = `<img src=x onerror="document.title='owned'">`
	s.Name, s.Devices[1].Model, s.Devices[1].LastError, s.Jobs[0].Name, s.Events[0].Text, s.Models[0].Name = bad, bad, bad, bad, bad, bad
	s.Jobs[1].ID, s.Now.Words, s.Verdicts[0].Sentence = `"><script>alert`, bad, bad
	return s
}

// wantsKey refuses to tell anything but the page itself without a key.
func wantsKey(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/dashboard/static/") && r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, "a key is needed", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// restartable is a live server at one address that can be stopped and started again.
type restartable struct {
	t      *testing.T
	addr   string
	cancel context.CancelFunc
	server *http.Server
	ended  chan struct{}
	rt     *weft.Runtime
}

func (s *restartable) start() {
	s.t.Helper()
	var l net.Listener
	poll.True(s.t, "the address", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", s.addr)
		return err == nil
	})
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	s.rt = openFake(s.t, "devices 3; set temp 54; set power 180", weft.Options{})
	jobs := &fakeJobs{}
	for i := range 3 {
		jobs.add(JobState{ID: fmt.Sprintf("live-%d", i), Name: "spin", State: "running", Part: 0.3, Left: time.Minute})
	}
	s.cancel, s.ended = cancel, make(chan struct{})
	s.server = &http.Server{Handler: New(s.rt, Options{Name: "live", Jobs: jobs}), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(l)
	}()
}

func (s *restartable) stop() {
	s.cancel()
	_ = s.server.Close()
	<-s.ended
	_ = s.rt.Close()
}

// TestBrowser goes through the page in a real browser: it compares every number with the
// state, and tries views, keys, themes, actions and a server that goes and comes back.
// It needs chromium, node, and npm ci in e2e, where page.mjs is the script:
//
//	go test -tags browser ./serve/dashboard -run TestBrowser -v
//
// With WEFT_SHOTS=FOLDER it leaves the pictures of docs/img in a folder.
func TestBrowser(t *testing.T) {
	if _, err := os.Stat("e2e/node_modules/playwright-core"); err != nil {
		t.Fatal("run npm ci in serve/dashboard/e2e first")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: install Debian's package of that name")
	}
	stills := []string{serving(t, still(scene(1, 16, 1000))).URL, serving(t, still(odd(scene(2, 5, 40), 1))).URL, serving(t, still(odd(scene(3, 2, 12), 2))).URL,
		serving(t, still(hostile())).URL, serving(t, still(&pageState{Started: 1, Now: pageNow{Words: "The devices have nothing to do."}})).URL}
	keyed := serving(t, wantsKey(still(scene(1, 2, 2))))
	live := &restartable{t: t, addr: "127.0.0.1:0"}
	live.start()
	defer func() { live.stop() }()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "e2e/page.mjs")
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium, "STILLS="+strings.Join(stills, " "), "LIVE=http://"+live.addr, "KEYED="+keyed.URL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); line {
		case "stop":
			live.stop()
		case "start":
			live.start()
		default:
			t.Log(line)
			continue
		}
		if _, err := io.WriteString(in, "ok\n"); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("page.mjs: %v", err)
	}
}
