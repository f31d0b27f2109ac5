package symmetric

import (
	"math"
)

// Cholesky overwrites the lower triangle of the r x r row-major matrix by its Cholesky factor. It reports false
// when a pivot falls to floor times its diagonal entry or below.
func Cholesky(m []float64, r int, floor float64) bool {
	for j := range r {
		row := m[j*r:]
		diagonal := row[j]
		for k := range j {
			other := m[k*r:]
			v := row[k]
			for i := range k {
				v -= row[i] * other[i]
			}
			v /= other[k]
			row[k] = v
		}
		pivot := diagonal
		for k := range j {
			pivot -= row[k] * row[k]
		}
		if !(pivot > floor*diagonal) || !(pivot > 0) {
			return false
		}
		row[j] = math.Sqrt(pivot)
	}
	return true
}

// InvertCholesky writes (L L')^-1 into dst. l holds L in its lower triangle and is left as it is.
func InvertCholesky(dst, l []float64, r int) {
	for c := range r { // column c: solve L z = e_c, then L' x = z
		for j := range r {
			v := 0.0
			if j == c {
				v = 1
			}
			for k := c; k < j; k++ {
				v -= l[j*r+k] * dst[k*r+c]
			}
			if j < c {
				v = 0
			}
			dst[j*r+c] = v / l[j*r+j]
		}
		for j := r - 1; j >= 0; j-- {
			v := dst[j*r+c]
			for k := j + 1; k < r; k++ {
				v -= l[k*r+j] * dst[k*r+c]
			}
			dst[j*r+c] = v / l[j*r+j]
		}
	}
}
