// Package batch decides which requests are computed together, on which device and when,
// and which are refused. It is a state machine: a call of Machine is an event with its
// time, and the decisions it appends say what the loop around it (serve/internal/infer) has to
// do. It has no locks, clocks or goroutines, so that a list of events always has the same
// answer.
//
// An item (a request) waits in the queue of its model, in the line of its priority and
// client. A model is ready when its queue has a full batch or has waited for long enough.
// A device that is free takes a batch of the ready model whose turn it is. How long
// queues wait, how many items a batch has and who is refused follow from deadlines and
// from what batches have been measured to take.
//
// An event costs steps that grow with the logarithm of the number of items that wait, and
// with the number of devices times that of models.
//
//	Infer ──check──► Machine.Add ──► queue (model) ──────► line (priority, client) ──► batch
//	  │                 │ Refuse                 │ ready: full, or waited enough          │ Start
//	  │◄────────────────┘                        └── Next, Tick ◄── one timer             ▼
//	  │◄── Done, Fail, Expire ◄────────────────── Machine.Ended ◄── a goroutine runs it on its device
//
// Cost. For each model on each device the machine learns what a batch takes: a fixed time and one for each example,
// fitted to measured batches whose weight decays (cost.go). The warm-up gives the first measurements.
//
// Waiting. With an idle device, waiting for the next arrival (λ a second) delays the n examples that are there by 1/λ
// and saves the newcomer what would be left of their batch, of which a is the fixed cost: a model waits while
// n+1 < λ·a, never for longer than a, and not into its most urgent deadline (Machine.dueOf in dispatch.go). It does
// not wait where the newcomer's batch would be computed in parallel (Device.Parallel): a CPU device computes as many
// at once as it has cores but one, up to four. Further places of a device (Device.Slots, key depth) only keep it
// busy between batches (infer.Places).
//
// Order. The priority first, then clients in turns by deficit round robin, so that what two clients with waiting
// requests got differs by at most twice the largest request. Every eighth request, and every eighth batch, goes to
// the level or model that has gone longest without. Requests of a lower priority fill up a batch as far as it makes
// none late that goes before them (Machine.start).
//
// Admission. A request is refused at once, with when to ask again, if the batches before it, dealt out to the devices,
// end after its deadline, or if the queue is full. One client alone may fill it: when others come, whoever has the
// most places gives up what came last, of its lowest priority, until all have as many (tally.yields). On an idle device
// a request is always taken, so that a prediction that is too high is corrected.
package batch

import (
	"fmt"
	"time"
)

// Kind says what a decision asks for.
type Kind uint8

const (
	// Start computes a batch.
	Start Kind = iota
	// Done answers an item with the result of its batch.
	Done
	// Fail answers an item with the error of its batch.
	Fail
	// Expire answers an item whose deadline has passed, or cannot be met any more.
	Expire
	// Refuse answers an item that is not taken, or gives up its place to another; After says
	// when to ask again.
	Refuse
)

var kindNames = [...]string{"start", "done", "fail", "expire", "refuse"}

func (k Kind) String() string { return kindNames[k] }

// Decision is one thing the loop has to do. Every item added has exactly one answer,
// unless it is cancelled.
type Decision struct {
	Kind  Kind
	Batch *Batch        // of Start, Done and Fail
	Item  *Item         // nil for Start
	After time.Duration // of Refuse
}

// place is the state of an item in the machine.
type place uint8

const (
	fresh place = iota
	waiting
	running
	over
)

// Item is a request. Its exported fields are set before Add.
type Item struct {
	Owner    any // the record of the loop
	Client   string
	Priority int
	Examples int // that it brings for the batch, at least 1
	Deadline time.Duration
	place    place
	alone    bool // its batch failed: it is computed by itself
	tries    int
	model    *Model
	prev     *Item
	next     *Item
	inTime   int // place in the heap of deadlines
}

// Over reports whether the item has its answer.
func (it *Item) Over() bool { return it.place == over }

// Batch is items that are computed together.
type Batch struct {
	Model   *Model
	Device  *Device
	Items   []*Item
	at      *placement
	load    load
	started time.Duration
	until   time.Duration // when it is predicted to end
	stuck   bool          // its device does not wait for it any more
	over    bool
}

// Examples returns the number of examples of all items of the batch.
func (b *Batch) Examples() int { return b.load.examples }

// Model describes a model that items are for. Its exported fields are set before AddModel.
type Model struct {
	Owner      any
	MaxBatch   int           // examples
	MaxWaiting int           // items
	MaxWait    time.Duration // for more items while a device is free; 0 for no bound of its own
	id         int
	removed    bool
	expected   bool // a device for it is on its way
	on         []*placement
	clients    tally
	queue
	// served is the time its batches have been predicted to take, raised to that of the
	// others when it begins to wait, so that it gets no more for having been idle.
	served float64
	taken  uint64 // number of its latest batch
}

// Waiting returns how many items wait for a batch.
func (m *Model) Waiting() int { return m.load.items }

// Device runs batches.
type Device struct {
	Owner any
	Slots int // batches at a time, at least 1
	// Parallel is how many of them it computes side by side, at no cost to one another, as
	// cores do; at least 1. Places beyond that keep it busy from the end of one batch to the
	// next.
	Parallel int
	// Devices is the number of real devices behind it, at least 1. A model whose batches hang gets no further
	// batch there once as many hang as there are real devices.
	Devices int
	up      bool
	batches []*Batch // in progress, those that are stuck too
	free    int
	on      []*placement
}

// idle returns how many batches more it would compute at no cost to those that it has.
func (d *Device) idle() int { return d.Parallel - (d.Slots - d.free) }

// placement is a model on a device.
type placement struct {
	model  *Model
	device *Device
	cost   estimate
	stuck  int // batches of the model that hang there: with as many as devices it gets no more until one ends
}

func (p *placement) open() bool { return p.device.up && p.stuck < p.device.Devices }

// A batch may run for hangFactor times what was predicted, and at least for leastHang, before
// its device is given to others.
const (
	hangFactor = 10
	leastHang  = time.Second
)

// maxTries is how often an item is computed again, after the loss of a device or by itself.
const maxTries = 3

// Machine is the state of all items, models and devices.
type Machine struct {
	// MaxWaiting is how many items may wait in all; 0 for no limit.
	MaxWaiting int
	now        time.Duration
	devices    []*Device
	models     []*Model
	byTime     heap[*Item]  // all items without an answer, by deadline
	byDue      heap[*Model] // those that wait for more items
	waiting    int
	clients    tally         // of all models together
	hang       time.Duration // leastHang, but in tests
	batches    uint64
	floor      float64 // Model.served of the latest batch's model
	deferred   bool    // a batch waits for a device that is faster than the free one
	ids        int
	steps      uint64
}

// New returns a machine without models and devices.
func New() *Machine {
	m := &Machine{hang: leastHang}
	m.byTime = heap[*Item]{steps: &m.steps, at: func(it *Item) *int { return &it.inTime },
		less: func(a, b *Item) bool { return a.Deadline < b.Deadline }}
	m.byDue = heap[*Model]{steps: &m.steps, at: func(mod *Model) *int { return &mod.inDue },
		less: func(a, b *Model) bool { return a.due < b.due }}
	m.clients = newTally(&m.steps)
	return m
}

// AddDevice adds a device, which is in service.
func (m *Machine) AddDevice(d *Device) {
	d.Slots, d.Parallel, d.Devices = max(d.Slots, 1), max(d.Parallel, 1), max(d.Devices, 1)
	d.free, d.up = d.Slots, true
	m.devices = append(m.devices, d)
}

// SetSlots changes how many batches a device has at a time, how many of them it computes
// side by side, and for how many devices it stands. Those that it has go on.
func (m *Machine) SetSlots(now time.Duration, d *Device, slots, parallel, devices int, out []Decision) []Decision {
	out = m.tick(now, out)
	slots = max(slots, 1)
	d.free += slots - d.Slots
	d.Slots, d.Parallel, d.Devices = slots, max(parallel, 1), max(devices, 1)
	return m.dispatch(out)
}

// AddModel adds a model that runs on devices, with a guess at what its batches cost.
func (m *Machine) AddModel(mod *Model, prior Cost, on ...*Device) {
	m.ids++
	mod.id = m.ids
	mod.MaxBatch = max(mod.MaxBatch, 1)
	mod.clients = newTally(&m.steps)
	mod.taken = m.batches
	for _, d := range on {
		m.Place(mod, d, prior)
	}
	m.models = append(m.models, mod)
}

// Place has a model run on one more device. The next event has batches begin there.
func (m *Machine) Place(mod *Model, d *Device, prior Cost) {
	p := &placement{model: mod, device: d, cost: newEstimate(prior)}
	for _, b := range d.batches {
		if b.Model == mod { // from before it was taken away
			if b.at = p; b.stuck {
				p.stuck++
			}
		}
	}
	mod.on, d.on = append(mod.on, p), append(d.on, p)
}

// Unplace has a model not run on a device any more. Batches that it has there go on.
func (m *Machine) Unplace(mod *Model, d *Device) {
	for _, p := range mod.on {
		if p.device == d {
			mod.on, d.on = without(mod.on, p), without(d.on, p)
			return
		}
	}
}

// Expect says whether a device for the model is on its way: until it comes items wait, by
// their deadlines, instead of being refused where no device takes them.
func (m *Machine) Expect(mod *Model, expected bool) { mod.expected = expected }

// RemoveModel takes a model out. Items that wait for it fail; batches of it that run are
// forgotten when they end.
func (m *Machine) RemoveModel(now time.Duration, mod *Model, out []Decision) []Decision {
	out = m.tick(now, out)
	mod.removed = true
	for it := mod.next(&m.steps); it != nil; it = mod.next(&m.steps) {
		m.unwait(it)
		out = m.answer(Fail, it, nil, out)
	}
	for _, p := range mod.on {
		p.device.on = without(p.device.on, p)
	}
	m.models = without(m.models, mod)
	return m.dispatch(out)
}

func without[T comparable](xs []T, x T) []T {
	for i := range xs {
		if xs[i] == x {
			return append(xs[:i:i], xs[i+1:]...)
		}
	}
	return xs
}

// Add brings an item for a model. It is refused at once if its deadline will not be met.
func (m *Machine) Add(now time.Duration, mod *Model, it *Item, out []Decision) []Decision {
	out = m.tick(now, out)
	if it.place != fresh {
		panic(fmt.Sprintf("batch: an item of client %q is added twice", it.Client))
	}
	it.Examples, it.model = max(it.Examples, 1), mod
	out, after := m.admit(mod, it, out)
	if after > 0 {
		it.place = over
		return m.dispatch(append(out, Decision{Kind: Refuse, Item: it, After: after}))
	}
	m.byTime.put(it)
	mod.arrivals.at(m.now)
	mod.levels[levelOf(it.Priority)].arrivals.at(m.now)
	m.wait(it)
	return m.dispatch(out)
}

// Cancel takes back an item that nobody waits for any more. It has no answer.
func (m *Machine) Cancel(now time.Duration, it *Item, out []Decision) []Decision {
	out = m.tick(now, out)
	switch it.place {
	case waiting:
		m.unwait(it)
	case over:
		return out
	}
	it.place = over
	m.byTime.remove(it)
	return m.dispatch(out)
}

// Ended says that a batch has ended. If it failed its items are computed one by one, so
// that one bad item fails no other.
func (m *Machine) Ended(now time.Duration, b *Batch, failed bool, out []Decision) []Decision {
	// Its answers come before those of deadlines that passed meanwhile.
	m.now = max(m.now, now)
	if b.over {
		return m.dispatch(m.tick(now, out))
	}
	m.end(b)
	if !failed {
		b.at.cost.measured(float64(b.load.examples), (m.now - b.started).Seconds())
	}
	for _, it := range b.Items {
		switch {
		case it.place != running:
		case !failed:
			out = m.answer(Done, it, b, out)
		case len(b.Items) == 1:
			out = m.answer(Fail, it, b, out)
		default:
			it.alone = true
			out = m.again(it, b, out)
		}
	}
	return m.dispatch(m.tick(now, out))
}

// end frees the place of a batch.
func (m *Machine) end(b *Batch) {
	b.over = true
	b.Device.batches = without(b.Device.batches, b)
	if b.stuck {
		b.at.stuck--
	} else {
		b.Device.free++
	}
}

// again puts an item of a batch that came to nothing back among those that wait.
func (m *Machine) again(it *Item, b *Batch, out []Decision) []Decision {
	if it.tries++; it.tries > maxTries || it.model.removed {
		return m.answer(Fail, it, b, out)
	}
	m.wait(it)
	return out
}

// Down says that a device takes no more batches. If it is lost, those it has are computed
// elsewhere.
func (m *Machine) Down(now time.Duration, d *Device, lost bool, out []Decision) []Decision {
	out = m.tick(now, out)
	d.up = false
	for lost && len(d.batches) > 0 {
		b := d.batches[0]
		m.end(b)
		for _, it := range b.Items {
			if it.place == running {
				out = m.again(it, b, out)
			}
		}
	}
	return m.dispatch(out)
}

// Up says that a device is back.
func (m *Machine) Up(now time.Duration, d *Device, out []Decision) []Decision {
	out = m.tick(now, out)
	d.up = true
	return m.dispatch(out)
}

// Measured says what a batch of a model took on a device that was computed for that
// purpose alone.
func (m *Machine) Measured(mod *Model, d *Device, examples int, took time.Duration) {
	for _, p := range mod.on {
		if p.device == d {
			p.cost.measured(float64(examples), took.Seconds())
		}
	}
}

// Tick says that the time that Next returned has come.
func (m *Machine) Tick(now time.Duration, out []Decision) []Decision {
	return m.dispatch(m.tick(now, out))
}

// Next returns when Tick has to be called unless another event comes first; false for never.
func (m *Machine) Next() (at time.Duration, ok bool) {
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if it, some := m.byTime.first(); some {
		sooner(it.Deadline)
	}
	if mod, some := m.byDue.first(); some {
		sooner(mod.due)
	}
	for _, d := range m.devices {
		for _, b := range d.batches {
			if !b.stuck {
				sooner(m.hangs(b))
			}
			if m.deferred && b.until > m.now {
				sooner(b.until)
			}
		}
	}
	return at, ok
}

// hangs returns from when on the device of a batch does not wait for it.
func (m *Machine) hangs(b *Batch) time.Duration {
	return b.started + max(m.hang, hangFactor*(b.until-b.started))
}

// tick does what has become due.
func (m *Machine) tick(now time.Duration, out []Decision) []Decision {
	m.now = max(m.now, now)
	for {
		it, ok := m.byTime.first()
		if !ok || it.Deadline > m.now {
			break
		}
		if it.place == waiting {
			m.unwait(it)
		}
		out = m.answer(Expire, it, nil, out)
	}
	for {
		mod, ok := m.byDue.first()
		if !ok || mod.due > m.now {
			break
		}
		m.byDue.remove(mod)
		mod.ready = true
	}
	for _, d := range m.devices {
		for _, b := range d.batches {
			if !b.stuck && m.hangs(b) <= m.now {
				b.stuck = true
				b.at.stuck++
				d.free++
			}
		}
	}
	return out
}

// answer ends an item.
func (m *Machine) answer(k Kind, it *Item, b *Batch, out []Decision) []Decision {
	it.place = over
	m.byTime.remove(it)
	return append(out, Decision{Kind: k, Item: it, Batch: b})
}
