package gate

// line holds tasks by priority, and in the order they were added among equals: a binary
// heap in which each task knows its index.
type line []*Task

func (l line) before(i, j int) bool {
	if l[i].Priority != l[j].Priority {
		return l[i].Priority > l[j].Priority
	}
	return l[i].seq < l[j].seq
}

func (l line) swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = int32(i), int32(j)
}

func (l *line) push(t *Task) {
	t.index = int32(len(*l))
	*l = append(*l, t)
	l.up(len(*l) - 1)
}

func (l *line) remove(i int) {
	last := len(*l) - 1
	l.swap(i, last)
	(*l)[last].index = -1
	(*l)[last] = nil
	*l = (*l)[:last]
	if i < last {
		l.down(i)
		l.up(i)
	}
}

func (l line) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !l.before(i, parent) {
			return
		}
		l.swap(i, parent)
		i = parent
	}
}

func (l line) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l); child++ {
			if l.before(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		l.swap(i, first)
		i = first
	}
}
