package main

import (
	"bytes"
	"os"

	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/audit"
	auditpage "github.com/riffle-dp/riffle/internal/audit/page"
)

// addPage adds the flag of the page.
func (f *auditFlags) addPage(flags *pflag.FlagSet) {
	flags.StringVar(&f.html, "html", "", "also write the result to FILE, as a page with plots that loads nothing from "+
		"elsewhere")
}

// writePage writes the page where one is asked for: whole or not at all.
func (f *auditFlags) writePage(report *audit.Report) error {
	if f.html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := auditpage.Write(&b, report); err != nil {
		return err
	}
	return os.WriteFile(f.html, b.Bytes(), 0o644) //nolint:gosec // all of it is public
}
