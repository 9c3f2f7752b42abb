//go:build unix

package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// crowdEnv tells the process of TestCrowdOthers where the server is and how many connections to
// open.
const crowdEnv = "WEFT_TEST_CROWD"

// What the crowd does beside being idle: slowReaders ask for answers of largeAnswer bytes and do
// not read them, slowWriters send a byte of their bodies now and then.
const (
	slowReaders = 8
	slowWriters = 100
	largeAnswer = 8 << 20
)

// crowdSize is how many idle connections there are: 10,000 where processes may have so many, and
// fewer with the race detector, which allows 8128 goroutines.
func crowdSize(t *testing.T) int {
	n := 10_000
	if raceEnabled() {
		n = 2000
	}
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if room := most.Cur - min(most.Cur, 500); room < uint64(n) {
		n = int(room)
		t.Logf("%d connections: a process may have %d files", n, most.Cur)
	}
	return n
}

// raceEnabled reports whether the race detector watches, which takes memory of its own.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Ten thousand connections that are idle, readers that do not read and writers that hardly write,
// all of another process, leave the server to others: it answers predictions, old connections
// and new ones, and takes little memory for them. When they go it has all back.
func TestCrowd(t *testing.T) {
	idle := crowdSize(t)
	s, _, address := start(t, func(o *parts) {
		l := &o.Config.Limits
		l.ReadTime, l.WriteTime, l.IdleTime, l.Connections = Duration(10*patience), Duration(10*patience), Duration(10*patience), idle+1000
	})
	c := exec.Command(os.Args[0], "-test.run=^TestCrowdOthers$")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", crowdEnv, strings.TrimPrefix(address, "http://"), idle))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = c.Process.Kill() }).Stop()
	defer func() {
		if c.ProcessState == nil { // the test has failed before it was ended
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the others: %q, %v", line, err)
	}
	poll.True(t, "all are there", func() bool { return s.conns.count() >= idle+slowReaders+slowWriters })
	poll.True(t, "bodies are awaited and answers not taken", func() bool {
		return s.bodies.Load() >= slowReaders*largeAnswer+slowWriters*firstBytes
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { others(t, address) })
	}
	all.Wait()
	if now := s.bodies.Load(); now > 3*slowReaders*largeAnswer {
		t.Errorf("bodies take %d bytes", now)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	poll.True(t, "all have gone", func() bool { return s.conns.count() == 0 && s.bodies.Load() == 0 })
}

// others asks a server as a client does, on one connection and on new ones.
func others(t *testing.T, address string) {
	for i := range 25 {
		c, err := api.NewClient(address, api.Options{Attempts: -1})
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{float32(i)})}})
		if err == nil {
			var y []float32
			if y, err = api.Values[float32](r.Output("y")); err == nil && y[0] != float32(2*i) {
				err = fmt.Errorf("twice %d is %v", i, y)
			}
		}
		if err == nil {
			err = c.Ready(ctx)
		}
		cancel()
		if c.Close(); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestCrowdOthers is the process of the others, and passes where there is none.
func TestCrowdOthers(t *testing.T) {
	address, count, ok := strings.Cut(os.Getenv(crowdEnv), " ")
	if !ok {
		return
	}
	idle, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	crowd := &crowd{address: address}
	defer crowd.close()
	const get = "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const post = "POST /v2/models/double/infer HTTP/1.1\r\nHost: localhost\r\n"
	var dialled sync.WaitGroup
	for part := range 16 {
		dialled.Go(func() {
			for i := part; i < idle; i += 16 {
				if c := crowd.dial(t); i%4 == 0 && c != nil { // idle after an answer, and not before a request
					fmt.Fprint(c, get)
				}
			}
		})
	}
	dialled.Wait()
	head := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`, largeAnswer/4, largeAnswer)
	for range slowReaders {
		if c := crowd.dial(t); c != nil {
			_ = c.(*net.TCPConn).SetReadBuffer(4096) // so that little is taken for it
			fmt.Fprintf(c, "%s%s: %d\r\nContent-Length: %d\r\n\r\n%s", post, api.HeaderLength, len(head), len(head)+largeAnswer, head)
			if _, err := c.Write(make([]byte, largeAnswer)); err != nil {
				t.Error(err)
			}
		}
	}
	var writers []net.Conn
	for range slowWriters {
		if c := crowd.dial(t); c != nil {
			fmt.Fprint(c, post+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
			writers = append(writers, c)
		}
	}
	fmt.Println("open")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other process wants no more
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for at := 0; ; at++ {
		select {
		case <-ended:
			return
		case <-tick.C:
			fmt.Fprint(writers[at%len(writers)], "1\r\n \r\n")
		}
	}
}

// crowd are connections to a server.
type crowd struct {
	address string
	mu      sync.Mutex
	all     []net.Conn
}

// dial opens one more, nil if it cannot.
func (c *crowd) dial(t *testing.T) net.Conn {
	conn, err := net.DialTimeout("tcp", c.address, patience)
	if err != nil {
		t.Error(err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conn)
	return conn
}

func (c *crowd) close() {
	for _, conn := range c.all {
		conn.Close()
	}
}
