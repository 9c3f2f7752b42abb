package serve

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
)

// A server that is ended before it serves ends without an error.
func TestDrainBeforeServe(t *testing.T) {
	o := parts{Config: DefaultConfig(), Service: newFake()}
	o.Config.Listen = "127.0.0.1:0"
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	if err := s.drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.accept(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// A server whose address is taken leaves nothing behind: neither what follows the runtime nor the
// state folder.
func TestListenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rt := devices(t, "cpu")
	for _, taken := range []string{"address", "folder"} {
		o := parts{Config: DefaultConfig(), Service: newFake(), Runtime: rt}
		o.Config.Listen, o.Config.State = l.Addr().String(), filepath.Join(t.TempDir(), "state")
		if taken == "folder" {
			st, err := openState(o.Config.State)
			if err != nil {
				t.Fatal(err)
			}
			defer st.close()
		}
		s, err := newServer(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.take(); err == nil || strings.Contains(err.Error(), "another server") != (taken == "folder") {
			t.Errorf("the %s is taken: %v", taken, err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.relaying.Wait()
		}()
		poll.True(t, "nothing follows the runtime", func() bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
	}
}

// What is asked of a model that failed is answered by why it did, and a model that cannot be loaded
// is a line of the log.
func TestFailedModel(t *testing.T) {
	var log lines
	h, f, _ := handlerOf(t, func(o *parts) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f.models["bad"] = infer.Failed
	f.reason = "model.yaml: line 1: no kind"
	for _, path := range []string{"/v2/models/bad", "/v2/models/bad/versions/1", "/v2/models/bad/ready"} {
		if w := ask(h, "GET", path, ""); w.Code != 503 || !strings.Contains(saidError(t, w), f.reason) {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	for _, name := range []string{"broken", "absent"} {
		if w := ask(h, "POST", "/v2/repository/models/"+name+"/load", ""); w.Code < 400 {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	said := log.buf.String()
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "model=broken") || !strings.Contains(said, "no kind") {
		t.Errorf("the log has %q", said)
	}
}
