package role

import (
	"fmt"
	"io"
	"strings"
)

// manual is the part of --help that all roles share.
func (s *schema) manual(prefix string) string {
	return fmt.Sprintf(`
Every setting has a default, a key in the YAML file of --config, a variable (%sKEY, in brackets below) and a
flag; the later of these wins. Unknown keys, variables and flags are errors, and all errors are shown at once.
--%s prints all of it as a file.

Exit codes: %d done or stopped on request, %d wrong configuration (nothing was started), %d failed at work or did not
stop in time, %d ended by a second signal.`[1:], prefix, printFlag, ExitOK, ExitConfig, ExitFailed, ExitNow)
}

// width is the column that comments of the reference file are wrapped at.
const width = 110

// print writes the configuration in force as a file that can be loaded again, with a comment on every key.
func (l *loading) print(w io.Writer, role, prefix string) error {
	var b strings.Builder
	comment(&b, "", fmt.Sprintf("Configuration of the %s. The comment on a key ends with its type, its default, its "+
		"variable and its flag. "+
		"Flags win over variables, variables over this file, and this file over defaults. Keys that are left out "+
		"have their defaults; unknown keys are errors.", role))
	var open []string // the sections that the last key was in
	for _, f := range l.fields {
		path := strings.Split(f.key, ".")
		sections, leaf := path[:len(path)-1], path[len(path)-1]
		for i, section := range sections {
			if i < len(open) && open[i] == section {
				continue
			}
			open = open[:min(i, len(open))]
			indent := strings.Repeat("  ", i)
			fresh(&b)
			comment(&b, indent, l.sections[strings.Join(path[:i+1], ".")])
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
		fmt.Fprintf(&b, "%s# %s, %s, %s, %s\n", indent, f.typeName(), need, f.env(prefix), dashed(f.key))
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
