package feature

import "slices"

// Term is one term of a vector: the block of its fields, from the entry Offset on. Without fields it is the bias.
type Term struct {
	Fields []Field
	Offset int
}

// Context are the fields of the context, which must not be changed.
func (s *Schema) Context() []Field { return slices.Clone(s.fields[:s.context]) }

// Arms are the fields of arms, which must not be changed.
func (s *Schema) Arms() []Field { return slices.Clone(s.fields[s.context:]) }

// Terms are the terms of a vector, in their order.
func (s *Schema) Terms() (out []Term) {
	for _, t := range s.terms {
		one := Term{Offset: t.offset}
		for _, f := range t.fields {
			one.Fields = append(one.Fields, s.fields[f])
		}
		out = append(out, one)
	}
	return out
}
