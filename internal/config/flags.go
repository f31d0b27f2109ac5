package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flags holds what the flags of a schema were given, unread: reading them is the loader's, which finds all faults.
type Flags []*flagValue

type flagValue struct {
	field *field
	texts []string
}

// AddFlags gives a command a flag for each field.
func (s *Schema) AddFlags(to *pflag.FlagSet) Flags {
	var flags Flags
	for _, f := range s.fields {
		v := &flagValue{field: f}
		flag := to.VarPF(v, strings.TrimPrefix(Flag(f.key), "--"), "", f.doc+" ["+Variable(s.role, f.key)+"]")
		if f.typ.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
		flags = append(flags, v)
	}
	return flags
}

func (v *flagValue) Set(text string) error { v.texts = append(v.texts, text); return nil }
func (v *flagValue) Type() string          { return v.field.typeName() }
func (v *flagValue) String() string {
	if v.field == nil || v.field.typ.Kind() != reflect.Bool && reflect.ValueOf(v.field.preset).IsZero() {
		return ""
	}
	return strings.Trim(show(v.field.preset), `"`) // pflag has quotes of its own
}

// settings gives the flags that were used: a flag given twice is a longer list, or its last value.
func (flags Flags) settings() []setting {
	var settings []setting
	for _, v := range flags {
		if len(v.texts) == 0 {
			continue
		}
		s := setting{field: v.field, text: v.texts[len(v.texts)-1], origin: Flag(v.field.key)}
		if v.Type() == "list" {
			s.list = splitList(strings.Join(v.texts, ","))
		}
		settings = append(settings, s)
	}
	return settings
}

// Unread puts the error of reading a command's flags before all other faults. It explains a flag that does not exist.
func (l *Loading) Unread(cmd *cobra.Command, err error) error {
	l.faults = append([]error{explain(cmd, err)}, l.faults...)
	return l.Err()
}

func explain(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	given := "--" + unknown.GetSpecifiedName()
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return fmt.Errorf("unknown flag %s%s", given, didYouMean(given, known))
}
