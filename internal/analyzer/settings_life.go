package analyzer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// How a cohort is formed.
const (
	arrival = "arrival"
	panels  = "panel"
)

// RulesSettings say when a policy is taken back.
type RulesSettings struct {
	Rollback string `key:"rollback" doc:"Floor of the lift over the control group: when the upper end of its 95 % interval over the last window epochs is below it, the policy before the last one is taken up again. A number, in units of the reward. Empty: never."`
	Stop     string `key:"stop" doc:"Floor of the lift below which everybody gets the default arm from the next epoch on, in the same way. Empty: never."`
	Window   int    `key:"window" doc:"Epochs that the rules look at together; until there are so many since the start, or since a rule did something, they do nothing."`
}

// rules are the announced ones. What is no number is left out; Validate names it.
func (r RulesSettings) rules() (out plan.Rules) {
	if x, err := floor(r.Rollback); err == nil {
		out.Rollback = x
	}
	if x, err := floor(r.Stop); err == nil {
		out.Stop = x
	}
	if out.Rollback != nil || out.Stop != nil {
		out.Window = r.Window
	}
	return out
}

// floor reads a number; nil where there is none.
func floor(text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, fmt.Errorf("%q is no finite number", text)
	}
	return &x, nil
}

// Validate lists what is wrong.
func (r RulesSettings) Validate() (faults []error) {
	for _, of := range []struct{ key, text string }{{"rollback", r.Rollback}, {"stop", r.Stop}} {
		if _, err := floor(of.text); err != nil {
			faults = append(faults, config.Wrong(of.key, of.text, "must be empty or a finite number"))
		}
	}
	if r.Window < 1 {
		faults = append(faults, config.Wrong("window", r.Window, "must be at least 1"))
	}
	return faults
}

// Validate lists what is wrong.
func (a AdmissionSettings) Validate() (faults []error) {
	if !(a.SponsorShare > 0 && a.SponsorShare <= 1) {
		faults = append(faults, config.Wrong("sponsor_share", a.SponsorShare, "must be above 0 and at most 1"))
	}
	if !(a.Tail >= 0 && a.Tail < 1) {
		faults = append(faults, config.Wrong("tail", a.Tail, "must be at least 0 and below 1"))
	}
	for _, of := range []struct {
		key string
		n   int
	}{{"panel", a.Panel}, {"registered", a.Registered}} {
		switch {
		case of.n < 0:
			faults = append(faults, config.Wrong(of.key, of.n, "must not be negative"))
		case a.Mode == arrival && of.n > 0:
			faults = append(faults, config.Conflict(of.key, of.n, "must be 0 with", "mode", a.Mode).
				Because("there are panels only in the mode "+panels))
		case a.Mode == panels && of.n == 0:
			faults = append(faults, config.Conflict(of.key, of.n, "must be above 0 with", "mode", a.Mode))
		}
	}
	switch {
	case a.Mode != arrival && a.Mode != panels:
		faults = append(faults, config.Wrong("mode", a.Mode, "must be "+arrival+" or "+panels))
	case a.Mode == panels && a.Panel > a.Registered && a.Registered > 0:
		faults = append(faults, config.Conflict("panel", a.Panel, "must not be more than", "registered", a.Registered))
	}
	return faults
}

// draws reports whether cohorts are panels. Where the numbers of the mode panel are wrong, which Validate says, they
// are not.
func (a AdmissionSettings) draws() bool {
	return a.Mode == panels && a.Panel > 0 && a.Registered >= a.Panel
}

// lifeFaults lists what of panels, of several records, of the control group and of the schema does not go together.
func (s Settings) lifeFaults() (faults []error) {
	add := func(key string, value any, relation, other string, given any) {
		faults = append(faults, config.Conflict(key, value, relation, other, given))
	}
	p, l, mode := s.Privacy, s.Learner, s.Admission.Mode
	profile := glm.Profile(l.Profile)
	for _, of := range []struct {
		key    string
		value  any
		beyond bool
	}{
		{"privacy.records", p.Records, p.Records > 1}, {"privacy.period", p.Period, p.Period > 0},
		{"privacy.decisions", p.Decisions, p.Decisions > 1},
	} {
		if of.beyond && mode == arrival {
			add(of.key, of.value, "needs panels, and cannot go with", "admission.mode", mode)
		}
	}
	if s.Questions != "" && mode == arrival {
		add("questions", s.Questions, "needs panels, and cannot go with", "admission.mode", mode)
	}
	if p.Period > 0 && p.Period < p.Records {
		add("privacy.period", p.Period, "must be 0 or at least", "privacy.records", p.Records)
	}
	if tail := s.Admission.Tail; mode == panels && tail >= p.Delta && tail > 0 && tail < 1 {
		add("admission.tail", tail, "must be below", "privacy.delta", p.Delta)
	}
	if rollback, err := floor(s.Rules.Rollback); err == nil && rollback != nil {
		if stop, err := floor(s.Rules.Stop); err == nil && stop != nil && *stop >= *rollback {
			faults = append(faults, config.Conflict("rules.stop", s.Rules.Stop, "must be below", "rules.rollback",
				s.Rules.Rollback).Because("a deployment that stops first takes no policy back"))
		}
	}
	if mode == panels && profile != glm.Practical {
		add("admission.mode", mode, "cannot go with", "learner.profile", l.Profile)
	}
	if mode == panels && s.Admission.Panel > 0 && s.Admission.Panel < p.MinCohort {
		add("admission.panel", s.Admission.Panel, "must be at least", "privacy.min_cohort", p.MinCohort)
	}
	for _, of := range []struct {
		key   string
		value float64
	}{
		{"learner.half_life", l.HalfLife}, {"learner.alarm", l.Alarm}, {"learner.control", l.Control},
		{"learner.caution", l.Caution},
	} {
		if of.value > 0 && profile != glm.Practical {
			add(of.key, of.value, "cannot go with", "learner.profile", l.Profile)
		}
	}
	if l.Control == 0 && l.ControlShare > 0 {
		add("learner.control_share", l.ControlShare, "needs a control group, and cannot go with", "learner.control",
			l.Control)
	}
	for _, of := range []struct{ key, value string }{
		{"rules.rollback", s.Rules.Rollback}, {"rules.stop", s.Rules.Stop},
	} {
		if of.value != "" && l.Control == 0 {
			add(of.key, of.value, "needs a control group, and cannot go with", "learner.control", l.Control)
		}
	}
	return append(faults, s.fileFaults()...)
}

// fileFaults lists what is wrong with the files that settings name.
func (s Settings) fileFaults() (faults []error) {
	known, err := s.Learner.prior()
	if err != nil {
		faults = append(faults, config.Wrong("learner.prior", s.Learner.Prior, "cannot be used").From(err))
	} else if s.Learner.Prior != "" && glm.Profile(s.Learner.Profile) != glm.Practical {
		faults = append(faults, config.Conflict("learner.prior", s.Learner.Prior, "cannot go with", "learner.profile",
			s.Learner.Profile))
	}
	schema, err := s.schema()
	if err != nil {
		return append(faults, config.Wrong("features", s.Features, "cannot be used").From(err))
	}
	if err := known.suits(s.Learner, schema); err != nil {
		faults = append(faults, config.Wrong("learner.prior", s.Learner.Prior, "cannot be used").From(err))
	}
	if schema != nil && schema.Dimension() != s.Learner.dimension() {
		faults = append(faults, config.Conflict("learner.dimension", s.Learner.dimension(),
			fmt.Sprintf("must be the %d of", schema.Dimension()), "features", s.Features))
	}
	if schema != nil && (s.Learner.Options != 0 || len(s.Learner.Structure) > 0) {
		faults = append(faults, config.Jointly("with features the structure of arms follows from the schema: "+
			"leave out learner.options and learner.structure", "learner", "features"))
	}
	return faults
}

// largestFile bounds the bytes of a file that a setting names.
const largestFile = 16 << 20

func readSetting(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err == nil && len(b) > largestFile {
		err = fmt.Errorf("it has more than %d bytes", largestFile)
	}
	return b, err
}

// schema reads the schema of features; nil where there is none.
func (s Settings) schema() (*feature.Schema, error) {
	if s.Features == "" {
		return nil, nil
	}
	b, err := readSetting(s.Features)
	if err != nil {
		return nil, err
	}
	schema, err := feature.Parse(b)
	if err == nil && len(schema.Canonical()) > wire.MaxSchema {
		err = fmt.Errorf("it has %d bytes in the form that is announced, at most %d are", len(schema.Canonical()),
			wire.MaxSchema)
	}
	return schema, err
}

// announcedSchema is the schema as it is announced; empty where there is none that can be read.
func (s Settings) announcedSchema() []byte {
	schema, err := s.schema()
	if err != nil || schema == nil {
		return nil
	}
	return schema.Canonical()
}

// prior is what is known before the first person.
type prior struct {
	theta     []float64
	precision symmetric.Packed
	from      *policyfile.File // that it was taken from; nil: from a file that says no more
}

// suits says why the coefficients of an exported policy are not those of this deployment.
func (p prior) suits(l LearnerSettings, schema *feature.Schema) error {
	if p.from == nil {
		return nil
	}
	own := &p.from.Policy
	if own.Family != l.Family {
		return fmt.Errorf("its policy is for %s rewards, and this deployment's are %s", own.Family, l.Family)
	}
	if own.MaxReward != l.MaxReward {
		return fmt.Errorf("its policy is for rewards up to %g, and this deployment's go up to %g, so that its "+
			"model is another one", own.MaxReward, l.MaxReward)
	}
	its, err := p.from.Features()
	if err != nil {
		return err
	}
	canonical := func(s *feature.Schema) []byte {
		if s == nil {
			return nil
		}
		return s.Canonical()
	}
	if !bytes.Equal(canonical(its), canonical(schema)) {
		return errors.New("its policy was learnt with another schema of features, so that its coefficients stand for " +
			"something else: give this deployment the same file of features, or leave the prior out")
	}
	return nil
}

// prior reads the file of that name; zero where there is none. It is a policy that was exported, or a theta with a
// matrix that is written as rows, or as its upper triangle row by row.
func (l LearnerSettings) prior() (p prior, err error) {
	if l.Prior == "" {
		return p, nil
	}
	b, err := readSetting(l.Prior)
	if err != nil {
		return p, err
	}
	if policyfile.Is(b) {
		if p.from, err = policyfile.Decode(b); err == nil {
			p.theta, p.precision, err = p.from.Prior()
		}
		if err == nil && len(p.theta) != l.dimension() {
			err = fmt.Errorf("its policy has %d coefficients, learner.dimension is %d", len(p.theta), l.dimension())
		}
		return p, err
	}
	var file struct {
		Theta     []float64       `json:"theta"`
		Precision json.RawMessage `json:"precision"`
	}
	if err := strict.Unmarshal(b, &file, strict.Options{}); err != nil {
		return p, fmt.Errorf(`it must be JSON as {"theta": [0, 1], "precision": [[1, 0], [0, 1]]}: %w`, err)
	}
	n := len(file.Theta)
	if n != l.dimension() {
		return p, fmt.Errorf("theta has %d numbers, learner.dimension is %d", n, l.dimension())
	}
	var rows [][]float64
	if strict.Unmarshal(file.Precision, &rows, strict.Options{}) == nil {
		p.precision, err = triangle(rows, n)
	} else if strict.Unmarshal(file.Precision, &p.precision, strict.Options{}) != nil ||
		len(p.precision) != symmetric.Dim(n) {
		err = fmt.Errorf("precision must be the %d rows of a symmetric matrix, or the %d numbers of its upper triangle",
			n, symmetric.Dim(n))
	}
	p.theta = file.Theta
	return p, err
}

// triangle is the upper triangle of a symmetric matrix that is given by rows.
func triangle(rows [][]float64, n int) (out symmetric.Packed, err error) {
	if len(rows) != n || slices.ContainsFunc(rows, func(row []float64) bool { return len(row) != n }) {
		return nil, fmt.Errorf("precision must have %d rows of %d numbers", n, n)
	}
	for i, row := range rows {
		for j, x := range row {
			if x != rows[j][i] {
				return nil, fmt.Errorf("precision is not symmetric at row %d, column %d", i+1, j+1)
			}
			if j >= i {
				out = append(out, x)
			}
		}
	}
	return out, nil
}

// questions are those that wait in the folder; nil without one.
func (s Settings) questions() Questions {
	if s.Questions == "" {
		return nil
	}
	return QuestionsIn(s.Questions)
}
