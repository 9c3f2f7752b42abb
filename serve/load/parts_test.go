package load

import (
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func pemOf(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// A quantile is at least the duration of its rank among all sorted, and less than 1/128 above.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(longest)).Draw(t, "d") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		}), 1, 200).Draw(t, "durations")
		var h Histogram
		sum := 0.0
		for _, d := range ds {
			h.Add(d)
			sum += d.Seconds()
		}
		slices.Sort(ds)
		if h.Count() != uint64(len(ds)) || h.min() != ds[0] || h.Max() != ds[len(ds)-1] {
			t.Fatalf("%d from %v to %v", h.Count(), h.min(), h.Max())
		}
		for _, permille := range []int{0, 1, 10, 250, 500, 900, 950, 990, 999, 1000} {
			rank := max((permille*len(ds)+999)/1000, 1)
			want, got := ds[rank-1], h.Quantile(float64(permille)/1000)
			if got < want || got-want > want/128 {
				t.Fatalf("quantile %d/1000 of %v: %v, want %v", permille, ds, got, want)
			}
		}
		if h.Quantile(1) != h.Max() {
			t.Fatalf("quantile 1 is %v, the greatest %v", h.Quantile(1), h.Max())
		}
		bars := h.bars()
		n := uint64(0)
		for i, b := range bars {
			n += b.Count
			if i > 0 && b.From != bars[i-1].To || b.From >= b.To {
				t.Fatalf("bars %v", bars)
			}
		}
		if n != h.Count() || bars[0].From > ds[0].Seconds() {
			t.Fatalf("%d of %d in bars %v from %v", n, h.Count(), bars, ds[0])
		}
	})
}

// Every bucket begins where the one before ends, and holds what belongs to it.
func TestBuckets(t *testing.T) {
	next := time.Duration(0)
	for i := range buckets {
		lo, hi := bounds(i)
		if lo != next || hi < lo || bucket(lo) != i || bucket(hi) != i {
			t.Fatalf("bucket %d from %d to %d, behind %d", i, lo, hi, next)
		}
		next = hi + 1
	}
	if next != math.MinInt64 { // one more than the greatest duration
		t.Errorf("the last bucket ends before %d", next)
	}
}

// Constant arrivals are equally far apart, however many there are.
func TestConstant(t *testing.T) {
	s := newSchedule(Pace{Rate: 3000, WarmUp: time.Second, Duration: 9 * time.Second})
	n := uint64(0)
	for at, i, ok := s.next(); ok; at, i, ok = s.next() {
		if want := time.Duration(math.Round(float64(n) * 1e9 / 3000)); at != want || i != n {
			t.Fatalf("arrival %d (%d) at %v, want %v", n, i, at, want)
		}
		n++
	}
	if n != 30000 {
		t.Errorf("%d arrivals", n)
	}
}

// The times between Poisson arrivals have the mean and the variance of an exponential
// distribution, the counts of equal windows those of a Poisson distribution, for any seed. Bounds
// are five standard errors: by chance one seed in some 300,000 is outside of one of them.
func TestPoisson(t *testing.T) {
	const rate, seconds = 5000.0, 20
	var first []time.Duration
	for seed := range uint64(10) {
		s := newSchedule(Pace{Rate: rate, Arrivals: Poisson, Duration: seconds * time.Second, Seed: seed})
		var gaps []float64
		counts := make([]float64, seconds*100) // in windows of 10 ms
		last := 0.0
		var begin []time.Duration
		for at, _, ok := s.next(); ok; at, _, ok = s.next() {
			gaps = append(gaps, at.Seconds()-last)
			last = at.Seconds()
			counts[int(last*100)]++
			if len(begin) < 3 {
				begin = append(begin, at)
			}
		}
		if slices.Equal(begin, first) {
			t.Errorf("seed %d gives what the one before does", seed)
		}
		first = begin
		n := float64(len(gaps))
		if total := rate * seconds; math.Abs(n-total) > 5*math.Sqrt(total) {
			t.Errorf("seed %d: %v arrivals, want about %v", seed, n, total)
		}
		mean, variance := moments(gaps)
		if math.Abs(mean*rate-1) > 5/math.Sqrt(n) {
			t.Errorf("seed %d: a mean of %v, want %v", seed, mean, 1/rate)
		}
		if math.Abs(variance*rate*rate-1) > 5*math.Sqrt(8/n) { // the fourth moment is 9, less 1
			t.Errorf("seed %d: a variance of %v, want %v", seed, variance, 1/rate/rate)
		}
		mean, variance = moments(counts)
		want, m := rate/100, float64(len(counts))
		if math.Abs(mean-want) > 5*math.Sqrt(want/m) || math.Abs(variance-want) > 5*want*math.Sqrt(2.1/m) {
			t.Errorf("seed %d: counts have mean %v and variance %v, want %v", seed, mean, variance, want)
		}
	}
	again := newSchedule(Pace{Rate: rate, Arrivals: Poisson, Duration: time.Second, Seed: 9})
	for _, want := range first {
		if at, _, _ := again.next(); at != want {
			t.Errorf("the same seed gives %v and %v", at, want)
		}
	}
}

func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / float64(len(xs))
	}
	return mean, variance
}

func TestPaces(t *testing.T) {
	good := Pace{Rate: 1, Duration: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Pace){
		func(p *Pace) { p.Rate = 0 }, func(p *Pace) { p.Rate = math.NaN() }, func(p *Pace) { p.Rate = math.Inf(1) },
		func(p *Pace) { p.Arrivals = "bursts" }, func(p *Pace) { p.Duration = 0 }, func(p *Pace) { p.Duration = maxDuration + 1 },
		func(p *Pace) { p.WarmUp = -1 },
	} {
		p := good
		change(&p)
		if p.Check() == nil {
			t.Errorf("%+v is allowed", p)
		}
	}
}

// Random elements of every type are as many bytes as they should be, and the same by JSON.
func TestElements(t *testing.T) {
	for _, typ := range []Type{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"} {
		data := fill(rand.New(rand.NewPCG(1, 2)), typ, 50)
		if size := typ.size(); size > 0 && int64(len(data)) != 50*size {
			t.Errorf("%s: %d bytes", typ, len(data))
		}
		text, err := numbers(typ, data)
		if err != nil {
			t.Fatal(err)
		}
		var values []any
		if err := json.Unmarshal(text, &values); err != nil || len(values) != 50 {
			t.Fatalf("%s: %s: %v", typ, text, err)
		}
		distinct := make(map[any]bool)
		for _, v := range values {
			distinct[v] = true
			if x, ok := v.(float64); ok && (x < 0 || x >= 100) {
				t.Errorf("%s: %v", typ, x)
			}
		}
		if len(distinct) < 20 && typ != "BOOL" || len(distinct) < 2 {
			t.Errorf("%s: %d values of 50", typ, len(distinct))
		}
	}
	for _, c := range []struct {
		typ  Type
		data []byte
		want string
	}{
		{"INT8", []byte{255, 127}, "[-1,127]"},
		{"INT16", []byte{255, 255}, "[-1]"},
		{"INT32", []byte{254, 255, 255, 255}, "[-2]"},
		{"INT64", []byte{254, 255, 255, 255, 255, 255, 255, 255}, "[-2]"},
		{"UINT64", []byte{255, 255, 255, 255, 255, 255, 255, 255}, "[18446744073709551615]"},
		{"FP16", binary.LittleEndian.AppendUint16(nil, 0x3555), "[0.33325195]"},
		{"FP16", []byte{0, 0xc0, 1, 0}, "[-2,5.9604645e-08]"},
		{"FP64", binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1)), "[0.1]"},
		{"BYTES", append([]byte{2, 0, 0, 0}, "a\""...), `["a\""]`},
	} {
		if got, err := numbers(c.typ, c.data); err != nil || string(got) != c.want {
			t.Errorf("%s %v: %s, %v; want %s", c.typ, c.data, got, err, c.want)
		}
	}
	for i := range 1024 {
		if x := float32(i) / 1024; single(half(x)) != x {
			t.Errorf("%v becomes %v", x, single(half(x)))
		}
	}
}

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]Target{
		"http://a":            {network: "tcp", address: "a:80", host: "a"},
		"http://a:81/":        {network: "tcp", address: "a:81", host: "a:81"},
		"https://[::1]/x%20y": {network: "tcp", address: "[::1]:443", host: "[::1]", prefix: "/x%20y"},
		"unix:/run/weft.sock": {network: "unix", address: "/run/weft.sock", host: "localhost"},
		"unix:///run/w":       {network: "unix", address: "/run/w", host: "localhost"},
		"unix:w.sock":         {network: "unix", address: "w.sock", host: "localhost"},
	} {
		got, err := ParseTarget(in)
		if err != nil || got.Secure() != strings.HasPrefix(in, "https") {
			t.Errorf("%s: %v", in, err)
		}
		got.tls, got.text = nil, ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"":               "neither http nor https",
		"localhost:8000": "neither http nor https",
		"ftp://a":        "neither http nor https",
		"http://":        "no host",
		"http://:80":     "no host",
		"http://a b":     "invalid character",
		"http://a:x":     "invalid port",
		"http://a?q":     "no meaning",
		"http://u:p@a":   "no meaning",
		"unix:":          "no path",
		"unix:///":       "no path",
	} {
		if _, err := ParseTarget(in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write http://HOST:PORT") {
			t.Errorf("%s: error %v", in, err)
		}
	}
}

// What a server says of its models makes no request that is larger than allowed, and no panic.
func FuzzModel(f *testing.F) {
	f.Add([]byte(metadata), uint16(1))
	f.Add([]byte(`{"inputs":[{"name":"x","datatype":"BYTES","shape":[]},{"name":"y","datatype":"BOOL","shape":[2,2]}]}`), uint16(0))
	f.Add([]byte(`[{"name":"m","state":"READY"}]`), uint16(3))
	f.Fuzz(func(t *testing.T, body []byte, batch uint16) {
		parseIndex(body)
		m, err := parseModel(body)
		if err != nil {
			return
		}
		total := int64(0)
		for _, in := range m.Inputs {
			n := elements(in.Shape[min(len(in.Shape), 1):])
			total += max(n, 0) * int64(batch)
			if total > 1e5 || n < 0 {
				return // it would take long, and no more
			}
		}
		c := &Client{o: Options{Batch: int(batch)}, model: m}
		if c.compose() == nil && len(c.requests) == 0 {
			t.Error("no error and no requests")
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"http://a:1/b", "unix:/x", "https://[::1]:9", "grpc://a:1/m", "grpcs://a:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			return
		}
		if got.address == "" || strings.ContainsAny(got.host+got.prefix, "\r\n \x00") {
			t.Errorf("%q: %+v", s, got)
		}
	})
}
