package strict

import "strings"

// List is names in a sentence, as refusals and help texts say what a value may be: "a, b or c" if the conjunction is
// "or". It is empty if there are none.
func List[T ~string](names []T, conjunction string) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i == 0:
		case i < len(names)-1:
			b.WriteString(", ")
		default:
			b.WriteString(" " + conjunction + " ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
