package role

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagSet holds what the flags of a schema were given, unread: reading them is the loader's, which finds all faults.
type flagSet []*flagValue

type flagValue struct {
	field *field
	texts []string
}

func (s *schema) addFlags(to *pflag.FlagSet, prefix string) flagSet {
	var flags flagSet
	for _, f := range s.fields {
		v := &flagValue{field: f}
		flag := to.VarPF(v, strings.TrimPrefix(dashed(f.key), "--"), "", f.doc+" ["+f.env(prefix)+"]")
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
func (flags flagSet) settings() []setting {
	var settings []setting
	for _, v := range flags {
		if len(v.texts) == 0 {
			continue
		}
		s := setting{field: v.field, text: v.texts[len(v.texts)-1], origin: dashed(v.field.key)}
		if v.Type() == "list" {
			s.list = splitList(strings.Join(v.texts, ","))
		}
		settings = append(settings, s)
	}
	return settings
}

// flagError explains a flag that does not exist.
func (s *schema) flagError(cmd *cobra.Command, prefix string, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	given := "--" + unknown.GetSpecifiedName()
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return fmt.Errorf("unknown flag %s%s", given, didYouMean(given, known))
}
