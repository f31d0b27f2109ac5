package protocol

// Permute puts items into a uniformly random order, every order exactly as likely as any other: Fisher and Yates, with
// unbiased draws (seed paper, Algorithm 5).
func Permute[T any](items []T, src Source) {
	for i := len(items) - 1; i > 0; i-- {
		j := below(uint64(i)+1, src)
		items[i], items[j] = items[j], items[i]
	}
}
