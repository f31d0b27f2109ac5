package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// populationFlags choose the people to decide for.
type populationFlags struct {
	data, mapping, family         string
	maxReward, normBound, holdout float64
	users                         int
	seed                          uint64
	testHoldout                   bool
	options, context, dim         int
	columns                       []string
	features                      string
}

// add declares the flags that every population has; more declares the others.
func (f *populationFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.data, "data", "synthetic",
		"population: synthetic, adult (UCI census records), or a file with the reward of every arm")
	flags.IntVar(&f.users, "users", 0,
		"number of people to decide for; 0: 5000 synthetic ones, or all who are not held out")
	flags.Uint64Var(&f.seed, "seed", 1,
		"seed of the population and of the choice of people held out; it has no effect on the noise")
}

// more declares the flags that only some populations need.
func (f *populationFlags) more(flags *pflag.FlagSet) {
	flags.StringVar(&f.mapping, "map", string(population.MapB7),
		"feature map of the census: b7, or block (arms that need exploration)")
	flags.StringVar(&f.family, "family", family.NameLogistic, "reward family of a file: "+
		strict.List(family.Names(), "or")+";\n"+
		"of other people logistic or linear")
	flags.Float64Var(&f.maxReward, "max-reward", 1, "largest reward in a file")
	flags.Float64Var(&f.normBound, "norm-bound", 0, "bound on the norm of the parameter for a file; 0: the default")
	flags.IntVar(&f.dim, "dim", 0, fmt.Sprintf("numbers of an arm of synthetic people; 0: %d",
		population.DefaultSyntheticDim))
	flags.IntVar(&f.options, "options", 0,
		"options of a decision in a file: an arm has --context numbers for each, and zeros for all but one")
	flags.IntVar(&f.context, "context", 0, "numbers of an option in a file")
	flags.StringSliceVar(&f.columns, "columns", nil,
		"what the columns of a file are, as in riffle evaluate; rewards=FIRST|SECOND: one for each arm")
	flags.StringVar(&f.features, "features", "", "schema of features, where a file names arms; riffle demo "+
		"announces it")
	flags.Float64Var(&f.holdout, "holdout", population.DefaultHoldout,
		"share of the people of the census or file who are held out, to value the last policy on")
	flags.BoolVar(&f.testHoldout, "test-holdout", false,
		"census: decide for the people of the training file and hold out the test file, as in published results")
}

// open makes the population that the flags name.
func (f *populationFlags) open() (*population.Population, error) {
	if f.options != 0 || f.context != 0 {
		return f.openOptions()
	}
	if !f.ofFile() && (f.columns != nil || f.features != "") {
		return nil, errors.New("--columns and --features are about a file: name one with --data, or leave them out")
	}
	if f.data != "synthetic" && f.dim != 0 {
		return nil, errors.New("--dim is of synthetic people: those of the census and of a file have their own")
	}
	switch f.data {
	case "synthetic":
		return population.Synthetic(population.SyntheticOptions{Users: f.users, Seed: f.seed, Family: f.family,
			Dim: f.dim})
	case "adult":
		return population.Adult(population.AdultOptions{Users: f.users, Seed: f.seed, Holdout: f.holdout,
			Map: population.FeatureMap(f.mapping), TestHoldout: f.testHoldout, Family: f.family})
	}
	o, err := f.file()
	if err != nil {
		return nil, err
	}
	return population.File(f.data, o)
}

func (f *populationFlags) file() (o population.FileOptions, err error) {
	o = population.FileOptions{
		Users: f.users, Seed: f.seed, Holdout: f.holdout, Family: f.family, MaxReward: f.maxReward,
		NormBound: f.normBound,
	}
	if o.Columns, err = columnsOf(f.columns); err != nil {
		return o, err
	}
	if o.Schema, err = readSchema(f.features); err == nil && o.Schema != nil {
		o.Structure = o.Schema.Structure()
	}
	return o, err
}

// ofFile reports whether the people are those of a file of the user's own.
func (f *populationFlags) ofFile() bool { return f.data != "synthetic" && f.data != "adult" }

// openOptions opens a file of decisions between options with weights of their own.
func (f *populationFlags) openOptions() (*population.Population, error) {
	switch {
	case !f.ofFile():
		return nil, errors.New("--options and --context say how the arms of a file are made: name one with --data")
	case f.options < 2 || f.context < 1 || f.options > glm.MaxDimension || f.context > glm.MaxDimension/f.options:
		return nil, fmt.Errorf("--options %d and --context %d: give at least 2 options of at least 1 number, and at "+
			"most %d numbers in all", f.options, f.context, glm.MaxDimension)
	}
	if f.features != "" {
		return nil, errors.New("--features says how arms are made: leave out --options and --context")
	}
	o, err := f.file()
	if err != nil {
		return nil, err
	}
	o.Structure = structure.Options(f.options, f.context)
	people, err := population.File(f.data, o)
	if err != nil {
		return nil, err
	}
	if d := people.Info().Dim; d != f.options*f.context {
		return nil, fmt.Errorf("--options %d times --context %d is %d, and the arms of %s have %d numbers", f.options,
			f.context, f.options*f.context, f.data, d)
	}
	return people, nil
}

// logFlags say how a log of decisions is read.
type logFlags struct {
	columns  []string
	features string
	drop     bool
}

func (f *logFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.columns, "columns", nil,
		"what the columns of the log are: ROLE=COLUMN or ROLE:=VALUE, separated by commas, or @FILE (YAML);\n"+
			"default LOG.columns.yaml, if it is there. Roles: docs/data.md")
	flags.StringVar(&f.features, "features", "",
		"file with the schema of features, where the log names arms and what was known of people")
	flags.BoolVar(&f.drop, "drop-without-reward", false,
		"leave out rows without a reward, and say how many; else they are refused")
}

// unused refuses flags about a log where none is read, which the flag other would name.
func (f *logFlags) unused(changed func(string) bool, read bool, other string) error {
	for _, name := range []string{"columns", "features", "drop-without-reward"} {
		if changed(name) && !read {
			return fmt.Errorf("--%s is about a log, and none is read: name one with %s, or leave it out", name, other)
		}
	}
	return nil
}

// open reads a log whole, and says how many rows it left out.
func (f *logFlags) open(cmd *cobra.Command, path string, of family.Family, strict bool) (*decisions.Log, error) {
	o := decisions.Options{Family: of, Strict: strict, DropWithoutReward: f.drop}
	var err error
	if o.Columns, err = columnsOf(f.columns); err != nil {
		return nil, err
	}
	if o.Schema, err = readSchema(f.features); err != nil {
		return nil, err
	}
	log, err := decisions.Open(path, o)
	if err == nil && log.Dropped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Left out: %d rows without a reward, of %d. What follows is about the others.\n",
			log.Dropped, log.Dropped+len(log.Decisions))
	}
	return log, err
}

// columnsOf are those that were named; nil: none were.
func columnsOf(said []string) (decisions.Columns, error) {
	if said == nil {
		return nil, nil
	}
	return decisions.ParseColumns(said)
}

// readSchema reads a schema of features; nil without a path.
func readSchema(path string) (*feature.Schema, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := feature.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
