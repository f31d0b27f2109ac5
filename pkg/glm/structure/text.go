package structure

import (
	"fmt"
	"strconv"
	"strings"
)

// String is the group as FROM:COUNTxSIZE, and with =CHOICE where it is tied to others. Parse reads it.
func (g Group) String() string {
	s := fmt.Sprintf("%d:%dx%d", g.From, g.Count, g.Size)
	if g.Choice != 0 {
		s += fmt.Sprintf("=%d", g.Choice)
	}
	return s
}

// Text is the groups as String writes them; nil for no structure.
func (s Structure) Text() (groups []string) {
	for _, g := range s {
		groups = append(groups, g.String())
	}
	return groups
}

// Parse reads groups as String writes them: "0:3x5" says that coordinates 0 to 14 are three runs of five, of which an
// arm has one. It does not validate them. Errors wrap ErrInvalid; no text is no structure.
func Parse(groups []string) (s Structure, err error) {
	for _, text := range groups {
		var g Group
		from, rest, ok1 := strings.Cut(text, ":")
		count, rest, ok2 := strings.Cut(rest, "x")
		size, choice, tied := strings.Cut(rest, "=")
		if !ok1 || !ok2 || !number(from, &g.From) || !number(count, &g.Count) || !number(size, &g.Size) ||
			tied && !(number(choice, &g.Choice) && g.Choice > 0) {
			return nil, fmt.Errorf("%w: %.40q is not a group as 0:3x5 (from coordinate 0 on, 3 runs of 5 "+
				"coordinates), or 0:3x5=1 for one that is tied to others", ErrInvalid, text)
		}
		s = append(s, g)
	}
	return s, nil
}

// number reads a whole number in its one decimal form.
func number(text string, into *int) bool {
	n, err := strconv.Atoi(text)
	*into = n
	return err == nil && n >= 0 && strconv.Itoa(n) == text
}
