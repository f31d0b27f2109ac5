package design

// Optimal returns a G-optimal design: a distribution over the arms that minimises the largest leverage
// max ||x||^2_{V^-1} (Lemma 4.3 of Riffle's seed paper), found by Frank-Wolfe with away steps on log det V (Wolfe 1970,
// Atwood 1973; the G- and D-optimal designs coincide by Kiefer and Wolfowitz 1960), with many arms after a search on
// subsets of them. The weights are non-negative, sum to 1, and belong to the arms in the order given; a repeated arm
// keeps its own index. Zero arms get weight zero, unless all arms are zero: then the design is uniform and has Rank 0.
//
// Every arm must have the same dimension, at least 1, and finite coordinates (ErrBadArm). The weights must be used to
// draw one arm at random; rounding them to counts would break Lemma I.1, which needs independent draws.
func Optimal(arms [][]float64, opts Options) ([]float64, Certificate, error) {
	if err := CheckArms(arms); err != nil {
		return nil, Certificate{}, err
	}
	if opts.Tolerance == 0 {
		opts.Tolerance = DefaultTolerance
	}
	opts, err := opts.resolve()
	if err != nil {
		return nil, Certificate{}, err
	}
	points, index, rank := reduceRank(arms)
	weights := make([]float64, len(arms))
	if rank == 0 {
		for i := range weights {
			weights[i] = 1 / float64(len(arms))
		}
		return weights, Certificate{}, nil
	}
	w := newSearch(points, rank)
	cert, err := w.certified(opts)
	if err != nil {
		return nil, cert, err
	}
	for i, j := range index {
		weights[j] = w.weights[i]
	}
	return weights, cert, nil
}

// certified searches in the way that suits the number of arms.
func (s *search) certified(opts Options) (Certificate, error) {
	if isMany(s.n, s.r) {
		return s.many(opts)
	}
	s.start()
	if s.r == 1 {
		s.longest()
	}
	return s.run(opts)
}
