package design

import "github.com/riffle-dp/riffle/pkg/convex"

// Sums over arms or over rows, four at a time: one sum alone waits for its last addition. Every sum is taken in the
// order of the coordinates, so that the results of products are those of convex.Dot to the last bit.

// products writes the inner product of y with every row of a row-major matrix.
func products(dst, rows, y []float64) {
	r, i := len(y), 0
	for ; i+4 <= len(dst); i += 4 {
		p := rows[i*r : (i+4)*r]
		p0, p1, p2, p3 := p[:r], p[r:2*r], p[2*r:3*r], p[3*r:4*r]
		var s0, s1, s2, s3 float64
		for j, v := range y {
			s0 += p0[j] * v
			s1 += p1[j] * v
			s2 += p2[j] * v
			s3 += p3[j] * v
		}
		dst[i], dst[i+1], dst[i+2], dst[i+3] = s0, s1, s2, s3
	}
	for ; i < len(dst); i++ {
		sum, row := 0.0, rows[i*r:(i+1)*r]
		for j, v := range y {
			sum += row[j] * v
		}
		dst[i] = sum
	}
}

// gram writes the lower triangle of sum_i weights_i x_i x_i' over the rows of points.
func gram(dst, points, weights []float64) {
	clear(dst)
	n := len(weights)
	r, i := len(points)/n, 0
	for ; i+4 <= n; i += 4 {
		x, w := points[i*r:(i+4)*r], weights[i:i+4]
		x0, x1, x2, x3 := x[:r], x[r:2*r], x[2*r:3*r], x[3*r:4*r]
		for j := range r {
			c0, c1, c2, c3 := w[0]*x0[j], w[1]*x1[j], w[2]*x2[j], w[3]*x3[j]
			row := dst[j*r : j*r+j+1]
			y0, y1, y2, y3 := x0[:len(row)], x1[:len(row)], x2[:len(row)], x3[:len(row)]
			for k := range row {
				row[k] += (c0*y0[k] + c1*y1[k]) + (c2*y2[k] + c3*y3[k])
			}
		}
	}
	for ; i < n; i++ {
		x := points[i*r : (i+1)*r]
		for j, v := range x {
			c := weights[i] * v
			for k := range j + 1 {
				dst[j*r+k] += c * x[k]
			}
		}
	}
}

// forms writes x'Mx for every row x of points and a symmetric matrix M, of which it reads the lower triangle.
func forms(dst, points, m []float64) {
	n := len(dst)
	r, i := len(points)/n, 0
	for ; i+4 <= n; i += 4 {
		x := points[i*r : (i+4)*r]
		x0, x1, x2, x3 := x[:r], x[r:2*r], x[2*r:3*r], x[3*r:4*r]
		var f0, f1, f2, f3 float64
		for j := range r {
			row, v := m[j*r:j*r+j], m[j*r+j]
			y0, y1, y2, y3 := x0[:len(row)], x1[:len(row)], x2[:len(row)], x3[:len(row)]
			var s0, s1, s2, s3 float64
			for k, u := range row {
				s0 += u * y0[k]
				s1 += u * y1[k]
				s2 += u * y2[k]
				s3 += u * y3[k]
			}
			f0 += x0[j] * (2*s0 + v*x0[j])
			f1 += x1[j] * (2*s1 + v*x1[j])
			f2 += x2[j] * (2*s2 + v*x2[j])
			f3 += x3[j] * (2*s3 + v*x3[j])
		}
		dst[i], dst[i+1], dst[i+2], dst[i+3] = f0, f1, f2, f3
	}
	for ; i < n; i++ {
		dst[i] = quadratic(m, points[i*r:(i+1)*r])
	}
}

// solveLower replaces every row x of points by L^-1 x, for a lower triangular L.
func solveLower(points, l []float64, r int) {
	n, i := len(points)/r, 0
	for ; i+4 <= n; i += 4 {
		x := points[i*r : (i+4)*r]
		x0, x1, x2, x3 := x[:r], x[r:2*r], x[2*r:3*r], x[3*r:4*r]
		for j := range r {
			row, pivot := l[j*r:j*r+j], l[j*r+j]
			y0, y1, y2, y3 := x0[:len(row)], x1[:len(row)], x2[:len(row)], x3[:len(row)]
			v0, v1, v2, v3 := x0[j], x1[j], x2[j], x3[j]
			for k, u := range row {
				v0 -= u * y0[k]
				v1 -= u * y1[k]
				v2 -= u * y2[k]
				v3 -= u * y3[k]
			}
			x0[j], x1[j], x2[j], x3[j] = v0/pivot, v1/pivot, v2/pivot, v3/pivot
		}
	}
	for ; i < n; i++ {
		x := points[i*r : (i+1)*r]
		for j := range x {
			v := x[j]
			for k := range j {
				v -= l[j*r+k] * x[k]
			}
			x[j] = v / l[j*r+j]
		}
	}
}

// quadratic is x'Mx for a square matrix in row-major order.
func quadratic(m, x []float64) float64 {
	r, sum := len(x), 0.0
	for j, v := range x {
		sum += v * convex.Dot(m[j*r:(j+1)*r], x)
	}
	return sum
}

// manyPerDimension and manyArms are the numbers of arms per dimension and of arms above both of which the search works
// on subsets.
const manyPerDimension, manyArms = 8, 64

// isMany reports whether a search over n arms of rank r works on subsets.
func isMany(n, r int) bool { return r > 1 && n > manyArms && n > manyPerDimension*r }
