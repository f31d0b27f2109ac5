package simulation

// Shrink makes a failing list smaller while it still fails: without some of its operations, then with smaller numbers.
// It runs at most so many lists.
func Shrink(l List, runs int, fails func(List) bool) List {
	try := func(ops []Operation) bool {
		if runs <= 0 {
			return false
		}
		runs--
		smaller := l
		smaller.Ops = ops
		if !fails(smaller) {
			return false
		}
		l = smaller
		return true
	}
	for parts := 2; len(l.Ops) > 1; { // delta debugging: leave out ever smaller parts
		size := (len(l.Ops) + parts - 1) / parts
		less := false
		for at := 0; at < len(l.Ops); at += size {
			without := append(append([]Operation{}, l.Ops[:at]...), l.Ops[min(len(l.Ops), at+size):]...)
			if try(without) {
				less = true
				break
			}
		}
		switch {
		case less:
			parts = max(2, parts-1)
		case size == 1:
			return smaller(l, try)
		default:
			parts = min(len(l.Ops), 2*parts)
		}
		if runs <= 0 {
			break
		}
	}
	return smaller(l, try)
}

// smaller halves the numbers of the operations while the list fails.
func smaller(l List, try func([]Operation) bool) List {
	for i := range l.Ops {
		for _, change := range []func(*Operation){
			func(o *Operation) { o.N /= 2 }, func(o *Operation) { o.Ms /= 2 },
		} {
			for {
				ops := append([]Operation{}, l.Ops...)
				change(&ops[i])
				if ops[i] == l.Ops[i] || !try(ops) {
					break
				}
				l.Ops = ops
			}
		}
	}
	return l
}
