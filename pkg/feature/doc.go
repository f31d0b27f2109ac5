// Package feature is the schema of features that a deployment announces: it says how the numbers, categories and texts
// of a context and of arms become vectors of norm at most 1, so that all clients encode alike.
//
// # The schema
//
// A schema is JSON (Parse). It lists the fields of the context, which is the same for all arms of a decision, the
// fields of an arm, and the terms of a vector:
//
//	{"version": 1,
//	 "context": [{"name": "age", "kind": "number", "low": 18, "high": 90}],
//	 "arms":    [{"name": "id", "kind": "category", "values": ["none", "sms", "call"], "baseline": true}],
//	 "terms":   [["bias"], ["id"], ["id", "age"]]}
//
// Each field becomes a block of numbers, of which at most one is not 0, and which lies in [-1, 1]:
//
//	kind      value    width of its block              the number that is not 0
//	number    number   1                               2 t - 1 for t = (x - low) / (high - low), x clipped
//	flag      boolean  1                               1 for true, -1 for false
//	category  text     values, one more with "other"   1 at the value's place; at the last for one not listed
//	buckets   number   thresholds and one more         1 at the place given by the number of thresholds <= x
//	hashed    text     buckets                         1 or -1 at a place, both by a hash (see Hash)
//
// With "baseline" the first value of a category, or the first bucket, is a block of zeros, and the block is shorter by
// one. A number outside [low, high] counts as the nearest inside. A value that is missing, or null, is a block of
// zeros. "id" is the arm's id: as a field it gives each arm an intercept.
//
// A term names one to three fields. Its block is that of the field or, of several, the products of their numbers: entry
// (i w2 + j) w3 + k is the product, from left to right, of entry i of the first, j of the second and k of the third,
// where w2 and w3 are the widths of the second and third. The term "bias" is the block of the number 1. A vector is the
// blocks of all terms in their order, times one number (Schema.Scale).
//
// # Norm
//
// Each number of a block is at most 1 in absolute value, so that of a product is, also after rounding: rounding is
// monotone. A block has at most one number that is not 0, so a vector of T terms has at most T, each at most the scale
// s in absolute value after rounding. s is below 1/sqrt(T) by a margin that is larger than all rounding (Schema.Scale).
// Hence the norm is at most sqrt(T) s < 1 for every input, and also a sum of squares in floating point, in any order,
// does not exceed 1.
//
// # The same everywhere
//
// A client in another language that does these operations in float64 of IEEE 754, each rounded by itself, has the same
// vectors bit for bit: there are only comparison, +, -, *, / and one square root. Entries that are 0 are +0. The files
// testdata/*.golden hold schemas, features and vectors to test it with. They hold JSON; a number there is the shortest
// decimal that reads back as the same float64.
package feature
