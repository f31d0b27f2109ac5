package feature

import (
	"fmt"
	"slices"
)

// Sum says where a number or a flag is found in a vector: it is the sum of these entries, in ascending order, times
// 1/Scale, in [-1, 1]; what is missing counts as 0, the middle. The entries are of the shortest term in which the field
// stands alone, or beside categories and buckets that have a place for every value. Errors are ErrFeatures.
func (s *Schema) Sum(field string) ([]int, error) {
	f, ok := s.index[field]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: the schema has no field of this name", ErrFeatures)
	case s.fields[f].Kind != Number && s.fields[f].Kind != Flag:
		return nil, fmt.Errorf("%w: the field is a %s, and has no mean: ask for its histogram", ErrFeatures,
			s.fields[f].Kind)
	}
	groups, err := s.placesOf(f)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// Places says where the value of a category or of buckets is found in a vector: it is the first of these places of
// which the sum of the entries is above 0; at none where the value is missing, or the field's baseline. names are those
// of the places. Errors are ErrFeatures.
func (s *Schema) Places(field string) (names []string, groups [][]int, err error) {
	f, ok := s.index[field]
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("%w: the schema has no field of this name", ErrFeatures)
	case s.fields[f].Kind != Category && s.fields[f].Kind != Buckets:
		return nil, nil, fmt.Errorf("%w: the field is a %s, whose places mean nothing", ErrFeatures, s.fields[f].Kind)
	}
	groups, err = s.placesOf(f)
	return s.fields[f].names(), groups, err
}

// Field is the field of that name.
func (s *Schema) Field(name string) (Field, bool) {
	f, ok := s.index[name]
	if !ok {
		return Field{}, false
	}
	return s.fields[f], true
}

// FieldNames lists the fields, of the context first.
func (s *Schema) FieldNames() (names []string) {
	for _, f := range s.fields {
		names = append(names, f.Name)
	}
	return names
}

// placesOf has, for each place of a field, the entries in which it can be.
func (s *Schema) placesOf(f int) ([][]int, error) {
	best := -1
	for i, t := range s.terms {
		whole := !slices.ContainsFunc(t.fields, func(other int) bool {
			of := s.fields[other]
			return other != f && (of.Baseline || of.Kind != Category && of.Kind != Buckets)
		})
		if slices.Contains(t.fields, f) && whole && (best < 0 || len(t.fields) < len(s.terms[best].fields)) {
			best = i
		}
	}
	if best < 0 {
		return nil, fmt.Errorf("%w: vectors have the field only multiplied by others that can be 0: give it a term "+
			"of its own in the schema of another deployment", ErrFeatures)
	}
	groups := make([][]int, s.fields[f].Width())
	var walk func(fields []int, place, own int)
	walk = func(fields []int, place, own int) {
		if len(fields) == 0 {
			groups[own] = append(groups[own], s.terms[best].offset+place)
			return
		}
		w := s.fields[fields[0]].Width()
		for i := range w {
			if next := own; fields[0] == f {
				walk(fields[1:], place*w+i, i)
			} else {
				walk(fields[1:], place*w+i, next)
			}
		}
	}
	walk(s.terms[best].fields, 0, 0)
	return groups, nil
}
