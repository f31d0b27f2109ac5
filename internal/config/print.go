package config

import (
	"fmt"
	"io"
	"strings"
)

// width is the column that comments of the reference file are wrapped at.
const width = 110

// Print writes the configuration in force as a file that can be loaded again, with a comment on every key.
func (l *Loading) Print(w io.Writer) error {
	var b strings.Builder
	comment(&b, "", fmt.Sprintf("Configuration of the %s. The comment on a key ends with its type, its default, its "+
		"variable and its flag. "+
		"Flags win over variables, variables over this file, and this file over defaults. Keys that are left out "+
		"have their defaults; unknown keys are errors.", l.schema.role))
	var open []string // the sections that the last key was in
	for _, f := range l.schema.fields {
		path := strings.Split(f.key, ".")
		sections, leaf := path[:len(path)-1], path[len(path)-1]
		for i, section := range sections {
			if i < len(open) && open[i] == section {
				continue
			}
			open = open[:min(i, len(open))]
			indent := strings.Repeat("  ", i)
			fresh(&b)
			comment(&b, indent, l.schema.sections[strings.Join(path[:i+1], ".")])
			fmt.Fprintf(&b, "%s%s:\n", indent, section)
			open = append(open, section)
		}
		open = open[:len(sections)]
		indent := strings.Repeat("  ", len(sections))
		fresh(&b)
		comment(&b, indent, f.doc)
		need := "default " + show(f.preset)
		if f.required {
			need = "required"
		}
		fmt.Fprintf(&b, "%s# %s, %s, %s, %s\n", indent, f.typeName(), need, Variable(l.schema.role, f.key), Flag(f.key))
		fmt.Fprintf(&b, "%s%s: %s\n", indent, leaf, show(l.values[f.key]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fresh leaves a line empty, except below the head of a section.
func fresh(b *strings.Builder) {
	if !strings.HasSuffix(b.String(), ":\n") {
		b.WriteByte('\n')
	}
}

// comment writes text as comment lines.
func comment(b *strings.Builder, indent, text string) {
	line := indent + "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + word
	}
	if text != "" {
		b.WriteString(line + "\n")
	}
}
