package feature

import (
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// Structure says which numbers of a vector can be other than 0 together, for all features that there can be: a
// category, buckets or a hash has one place, the same in all terms that it is in. It is a function of the schema alone,
// and every vector of Encode fits it. Where that would take more groups than a structure has, what the fields of the
// most groups say is left out.
func (s *Schema) Structure() (out structure.Structure) {
	var choices []structure.Structure
	for f := range s.fields {
		if width := s.fields[f].Width(); width > 1 {
			choices = append(choices, s.groups(f, width))
		}
	}
	slices.SortStableFunc(choices, func(a, b structure.Structure) int { return len(a) - len(b) })
	for n, groups := range choices {
		if len(out)+len(groups) > structure.MaxGroups {
			break
		}
		for _, g := range groups {
			if len(groups) > 1 {
				g.Choice = n + 1
			}
			out = append(out, g)
		}
	}
	return out
}

// groups are where the places of a field are: in a term with other fields, once for every place of those before it, in
// runs of the places of those behind it.
func (s *Schema) groups(field, width int) (out structure.Structure) {
	for _, t := range s.terms {
		at := slices.Index(t.fields, field)
		if at < 0 {
			continue
		}
		before, behind := 1, 1
		for i, f := range t.fields {
			switch w := s.fields[f].Width(); {
			case i < at:
				before *= w
			case i > at:
				behind *= w
			}
		}
		for b := range before {
			out = append(out, structure.Group{From: t.offset + b*width*behind, Count: width, Size: behind})
		}
	}
	return out
}
