package batch

// heap is a binary heap of things that know their places in it, so that any of them can be
// moved or taken out. steps counts what it does.
type heap[T any] struct {
	xs    []T
	less  func(a, b T) bool
	at    func(T) *int // the place of a thing plus one; 0 for one that is not in the heap
	steps *uint64
}

func (h *heap[T]) first() (x T, ok bool) {
	if len(h.xs) == 0 {
		return x, false
	}
	return h.xs[0], true
}

// put adds a thing, or moves it if it is there already.
func (h *heap[T]) put(x T) {
	if *h.at(x) == 0 {
		h.xs = append(h.xs, x)
		*h.at(x) = len(h.xs)
	}
	i := *h.at(x) - 1
	if !h.up(i) {
		h.down(i)
	}
}

// remove takes a thing out if it is there.
func (h *heap[T]) remove(x T) {
	i := *h.at(x) - 1
	if i < 0 {
		return
	}
	last := len(h.xs) - 1
	h.swap(i, last)
	var zero T
	h.xs[last] = zero
	h.xs = h.xs[:last]
	*h.at(x) = 0
	if i < last && !h.up(i) {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) (moved bool) {
	for i > 0 && h.less(h.xs[i], h.xs[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i, moved = (i-1)/2, true
	}
	return moved
}

func (h *heap[T]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.xs) {
			return
		}
		if c+1 < len(h.xs) && h.less(h.xs[c+1], h.xs[c]) {
			c++
		}
		if !h.less(h.xs[c], h.xs[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *heap[T]) swap(i, j int) {
	*h.steps++
	h.xs[i], h.xs[j] = h.xs[j], h.xs[i]
	*h.at(h.xs[i]), *h.at(h.xs[j]) = i+1, j+1
}
