package feature

import "strconv"

// between joins the names of the fields that a term multiplies.
const between = " × "

// Names are what the entries of a vector stand for, in their order, for people to read: a number or flag by its field's
// name, a place of a category or of buckets with its value or range ("id = sms", "age < 40", "40 ≤ age < 65"), one of a
// hash with its number, a product by its factors ("id = sms × age"), and [Bias]. They are as long as the vectors.
func (s *Schema) Names() []string {
	names := make([]string, 0, s.dimension)
	for _, t := range s.terms {
		if len(t.fields) == 0 {
			names = append(names, Bias)
			continue
		}
		block := s.fields[t.fields[0]].names()
		for _, f := range t.fields[1:] {
			var products []string
			for _, a := range block {
				for _, b := range s.fields[f].names() {
					products = append(products, a+between+b)
				}
			}
			block = products
		}
		names = append(names, block...)
	}
	return names
}

// names are those of the entries of the field's block.
func (f *Field) names() (names []string) {
	switch f.Kind {
	case Category:
		for _, v := range f.Values {
			names = append(names, f.Name+" = "+v)
		}
		if f.Other {
			names = append(names, f.Name+" other")
		}
	case Buckets:
		text := func(i int) string { return strconv.FormatFloat(f.Thresholds[i], 'g', -1, 64) }
		last := len(f.Thresholds) - 1
		names = append(names, f.Name+" < "+text(0))
		for i := range last {
			names = append(names, text(i)+" ≤ "+f.Name+" < "+text(i+1))
		}
		names = append(names, f.Name+" ≥ "+text(last))
	case Hashed:
		for i := range f.Buckets {
			names = append(names, f.Name+" #"+strconv.Itoa(i))
		}
	default:
		names = append(names, f.Name)
	}
	if f.Baseline {
		names = names[1:]
	}
	return names
}
