package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/model"
	"github.com/weft-run/weft/serve/load"
)

// Bounds of files that weft load reads, in bytes.
const (
	maxInputFile = 256 << 20
	maxTokenFile = 64 << 10
)

// loading is a call of `weft load`.
type loading struct {
	options   load.Options
	pace      load.Pace
	arrivals  string
	rates     []float64
	inputs    []string // file, or name=file
	tokenFile string
	trustedBy string // file of certificates
	asJSON    bool
}

func newLoad() *cobra.Command {
	l := &loading{}
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Send predictions to a server at a rate, and measure it",
		Long: `Send predictions to a server of the Open Inference Protocol v2 (weft serve,
Triton, KServe and others), over HTTP or gRPC, at a rate that does not depend on
its answers, and print how long they took.

When each request is sent is decided beforehand, and its latency counts from
then, also if all connections were busy: a server that stalls has the stall in
the latency of every request that arrived meanwhile. What could not be sent in
time is counted, never left out. Inputs are random, of the types and shapes that
the server states, or come from files of NumPy's format. A file with more items
than a batch is sent part by part.

The exit status is 1 if requests failed. That the server refused some with 429
or 503, or by gRPC until later, is no failure.`,
		Example: `  weft load http://localhost:8000 --rate 1000 --arrivals poisson
  weft load http://localhost:8000 --model m --rate 500,1000,2000 --duration 30s
  weft load grpc://localhost:8001/reservoir --rate 1000
  weft load unix:/run/weft.sock --input x=digits.npy --batch 8 --binary
  weft load https://host --token-file token --ca-file ca.pem --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("load needs the address of one server, such as http://localhost:8000, grpc://localhost:8001/MODEL or unix:/PATH")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.settle(args[0]); err != nil {
				return terminal.Usage(err)
			}
			return l.run(c)
		},
	}
	f := c.Flags()
	f.StringVar(&l.options.Model, "model", "", "`NAME` of the model; needed where a server has several")
	f.StringVar(&l.options.Version, "model-version", "", "version of the model; without it the server chooses")
	f.Float64SliceVar(&l.rates, "rate", []float64{100}, "requests a second; several, joined by commas, one after another")
	f.StringVar(&l.arrivals, "arrivals", string(load.Constant), "constant, at equal times, or poisson, as of many users")
	f.DurationVar(&l.pace.Duration, "duration", 10*time.Second, "how long each rate is measured")
	f.DurationVar(&l.pace.WarmUp, "warm-up", time.Second, "how long each rate goes on before that")
	f.IntVar(&l.options.Connections, "connections", 64, "connections, each for one request at a time")
	f.DurationVar(&l.options.Timeout, "timeout", 10*time.Second, "longest time from sending a request to its answer")
	f.IntVar(&l.options.Batch, "batch", 0, "items in a request; 0 for one, or for all that --input has")
	f.StringArrayVar(&l.inputs, "input", nil, "`[NAME=]FILE.npy` of an input; once for each")
	f.Uint64Var(&l.options.Seed, "seed", 1, "seed of random inputs and poisson arrivals")
	f.BoolVar(&l.options.Binary, "binary", false, "send and receive tensors as bytes, as gRPC always does")
	f.StringVar(&l.tokenFile, "token-file", "", "`FILE` with the bearer token that the server asks for")
	f.StringVar(&l.trustedBy, "ca-file", "", "`FILE` with certificates that a server with TLS is trusted by")
	f.BoolVar(&l.asJSON, "json", false, "print JSON instead of text")
	terminal.Complete(c, "arrivals", func() []string { return []string{string(load.Constant), string(load.Poisson)} })
	return c
}

// settle checks what was asked for and reads the files it names.
func (l *loading) settle(address string) (err error) {
	if l.options.Target, err = load.ParseTarget(address); err != nil {
		return plain(err)
	}
	l.pace.Arrivals, l.pace.Seed = load.Arrivals(l.arrivals), l.options.Seed
	for _, rate := range l.rates {
		p := l.pace
		p.Rate = rate
		if err := p.Check(); err != nil {
			return plain(err)
		}
	}
	switch o := &l.options; {
	case o.Batch < 0:
		return fmt.Errorf("--batch %d: it must not be negative", o.Batch)
	case o.Connections < 1 || o.Connections > load.MaxConnections: // 0 is the default of Options
		return fmt.Errorf("--connections %d: it must be from 1 to %d", o.Connections, load.MaxConnections)
	}
	if l.tokenFile != "" {
		text, err := safefile.ReadInput(l.tokenFile, maxTokenFile)
		if err != nil {
			return terminal.FileError(l.tokenFile, err)
		}
		if l.options.Token = strings.TrimSpace(string(text)); l.options.Token == "" {
			return fmt.Errorf("%s: no token in it", l.tokenFile)
		}
	}
	if l.trustedBy != "" {
		if !l.options.Target.Secure() {
			return fmt.Errorf("--ca-file is for servers by https or grpcs, and the address is %s", address)
		}
		text, err := safefile.ReadInput(l.trustedBy, maxTokenFile<<4)
		if err == nil {
			err = plain(l.options.Target.Trust(text))
		}
		if err != nil {
			return terminal.FileError(l.trustedBy, err)
		}
	}
	for _, in := range l.inputs {
		t, err := readTensor(in)
		if err != nil {
			return err
		}
		l.options.Inputs = append(l.options.Inputs, t)
	}
	return nil
}

// plain is an error of what was asked for, without the words that say it is one.
func plain(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), load.ErrOption.Error()+": "))
}

// wireTypes are the protocol's names of types.
var wireTypes = map[graph.Elem]load.Type{
	graph.F2: "FP16", graph.F4: "FP32", graph.F8: "FP64", graph.I1: "INT8", graph.I2: "INT16", graph.I4: "INT32", graph.I8: "INT64",
	graph.U1: "UINT8", graph.U2: "UINT16", graph.U4: "UINT32", graph.U8: "UINT64", graph.B1: "BOOL",
}

// readTensor reads an input, which is written as a file or as a name and a file.
func readTensor(arg string) (load.Tensor, error) {
	name, file, ok := strings.Cut(arg, "=")
	if !ok {
		name, file = "", arg
	}
	src, err := safefile.ReadInput(file, maxInputFile)
	if err != nil {
		return load.Tensor{}, terminal.FileError(file, err)
	}
	a, err := model.ParseNPY(src)
	if err != nil {
		return load.Tensor{}, terminal.FileError(file, err)
	}
	return load.Tensor{Name: name, Type: wireTypes[a.Elem], Shape: a.Shape, Data: a.Bytes}, nil
}

// run sends the load of each rate and prints what became of it, also if it is interrupted.
func (l *loading) run(c *cobra.Command) error {
	ctx := c.Context()
	client, err := load.Open(ctx, l.options)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, load.ErrOption):
		return terminal.Usage(plain(err))
	case err != nil:
		return err
	}
	results := []*load.Result{}
	var failed []error
	progress := terminal.StartProgress(c.ErrOrStderr(), l.asJSON, "rate", len(l.rates))
	defer progress.Finish()
	for _, rate := range l.rates {
		p := l.pace
		p.Rate = rate
		progress.At("%v requests a second", rate)
		progress.Within(0, p.WarmUp+p.Duration)
		var r *load.Result
		if r, err = client.Run(ctx, p); r != nil {
			results = append(results, r)
			failed = append(failed, r.Err())
		}
		if err != nil {
			break
		}
		progress.Add()
	}
	progress.Finish()
	if len(results) > 0 {
		printed := terminal.Print(c, l.asJSON, results, func(b *bytes.Buffer) error {
			if len(results) == 1 {
				printLoad(b, results[0])
			} else {
				printLoads(b, results)
			}
			return nil
		})
		if printed != nil {
			return printed
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(failed...)
}
