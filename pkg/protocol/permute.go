package protocol

// Permute puts items into a uniformly random order, every order exactly as likely as any other: Fisher and Yates, with
// unbiased draws (seed paper, Algorithm 5).
func Permute[T any](items []T, src Source) {
	for i := len(items) - 1; i > 0; i-- {
		j := below(uint64(i)+1, src)
		items[i], items[j] = items[j], items[i]
	}
}

// Buckets draws for each item one of so many buckets (from 1 to 2^32), each as likely as any other and independently of
// all others, exactly. Items that are put into the buckets drawn for them, each bucket permuted uniformly, are bucket
// after bucket in a uniformly random order, so that a permutation of any number of items takes the memory of a bucket
// (Rao, "Generation of random permutations of given number of elements using random sampling numbers", 1961; Sandelius,
// "A simple randomization procedure", 1962).
func Buckets(of []uint32, buckets int, src Source) {
	for i := range of {
		of[i] = uint32(below(uint64(buckets), src))
	}
}
