package scoring

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// maxSQLDimension bounds the numbers of a vector in SQL: each is a column, and with caution the query has a term for
// every two of them. Databases have a least bound of about 1000 columns, and of a megabyte for a query.
const maxSQLDimension = 128

// about is the comment at the beginning of a query. Its verbs: name of the deployment, epoch, digest, and the columns.
const about = `-- The arm of each decision by a policy that was learnt by Riffle (deployment %s, epoch %d).
-- Digest of the policy: %x
-- Written by riffle policy export; do not edit.
--
-- It reads a table or view offers with a row for each arm that can be played in a decision:
--   "_decision"   names the decision
--   "_arm"        orders its arms
--   "_default"    1 for the arm that was played before there was a policy; if there is none, the first one is
--   %s
-- NULL is a feature that is missing. The result has each row's score, and "_probability": 1 for the arm that is
-- played, 0 for others, NULL in decisions with a value that a device refuses. It is how a device plays when nobody
-- learns from the decision: it does not explore. Texts must be compared byte for byte. This is standard SQL with window
-- functions; in MySQL set ANSI_QUOTES.
`

// SQL is the policy as a query in standard SQL over a table of arms.
func SQL(f *policyfile.File) ([]byte, error) {
	s, err := scored(f, "SQL")
	if err != nil {
		return nil, err
	}
	p := &f.Policy
	if p.Dimension > maxSQLDimension {
		return nil, unsupported("vectors have %d numbers, and a query is written for at most %d: use the Python",
			p.Dimension, maxSQLDimension)
	}
	q := query{policy: p, schema: s}
	for _, field := range append(s.Context(), s.Arms()...) {
		if err := q.field(field); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&q.out, about, f.Deployment, f.Epoch, []byte(f.Digest), strings.Join(q.columns, ", "))
	q.write()
	return []byte(q.out.String()), nil
}

// scored refuses a policy that is no choice by one score of each arm, in a form that has no functions, and gives its
// schema.
func scored(f *policyfile.File, form string) (*feature.Schema, error) {
	if err := linear(&f.Policy); err != nil {
		return nil, err
	}
	if len(f.Policy.Stages) > 0 {
		return nil, unsupported("it eliminates arms in stages, which %s is not written for: use the Python", form)
	}
	s, err := f.Features()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, unsupported("the deployment has no schema, so that %s has no fields to name: use the Python", form)
	}
	for _, field := range append(s.Context(), s.Arms()...) {
		if field.Kind == feature.Hashed {
			return nil, unsupported("the field %q is hashed, and %s has no SHA-256: use the Python", field.Name, form)
		}
	}
	return s, nil
}

// query is a query that is being written.
type query struct {
	policy  *glm.Policy
	schema  *feature.Schema
	columns []string // that it reads, quoted
	blocks  []string // columns of the fields' blocks, with their names
	out     strings.Builder
}

// block names the column of a place of a field's block.
func block(name string, place int) string { return fmt.Sprintf(`"_%s_%d"`, name, place) }

// float is a literal of SQL for an approximate number.
func float(v float64) string { return strconv.FormatFloat(v, 'E', -1, 64) }

// quoted is a literal of SQL. A text is refused that some databases read otherwise: with a backslash, or something that
// is not printable.
func quoted(field, s string) (string, error) {
	for _, r := range s {
		if r == '\\' || !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return "", unsupported("a value of the field %q has the character %U, which not every database reads as "+
				"it is: use the Python", field, r)
		}
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'", nil
}

// field writes the columns of a field's block.
func (q *query) field(f feature.Field) error {
	column := `"` + f.Name + `"`
	q.columns = append(q.columns, column+map[feature.Kind]string{feature.Number: " (number)",
		feature.Buckets: " (number)", feature.Flag: " (boolean)", feature.Category: " (text)"}[f.Kind])
	number := fmt.Sprintf("CAST(%s AS DOUBLE PRECISION)", column) // in a table of texts, too
	infinite := fmt.Sprintf("%s NOT BETWEEN %s AND %s", number, float(-math.MaxFloat64), float(math.MaxFloat64))
	add := func(place int, expression string) {
		q.blocks = append(q.blocks, fmt.Sprintf("CAST(%s AS DOUBLE PRECISION) AS %s", expression, block(f.Name, place)))
	}
	first := 0 // place in the field's values of the block's first
	if f.Baseline {
		first = 1
	}
	switch f.Kind {
	case feature.Number:
		t := fmt.Sprintf("((%s - %s) / %s)", number, float(*f.Low), float(*f.High-*f.Low))
		add(0, fmt.Sprintf("CASE WHEN %s IS NULL THEN 0 WHEN %s THEN NULL WHEN %s <= %s THEN -1 WHEN %[3]s >= %[5]s "+
			"THEN 1 ELSE (%[6]s + %[6]s) - 1 END", column, infinite, number, float(*f.Low), float(*f.High), t))
	case feature.Flag:
		add(0, fmt.Sprintf("CASE WHEN %s IS NULL THEN 0 WHEN %[1]s = TRUE THEN 1 WHEN %[1]s = FALSE THEN -1 END",
			column))
	case feature.Buckets:
		for i := first; i <= len(f.Thresholds); i++ {
			var tests []string
			if i > 0 {
				tests = append(tests, fmt.Sprintf("%s >= %s", number, float(f.Thresholds[i-1])))
			}
			if i < len(f.Thresholds) {
				tests = append(tests, fmt.Sprintf("%s < %s", number, float(f.Thresholds[i])))
			}
			add(i-first, fmt.Sprintf("CASE WHEN %s THEN NULL WHEN %s THEN 1 ELSE 0 END", infinite,
				strings.Join(tests, " AND ")))
		}
	default:
		var texts []string
		for _, v := range f.Values {
			text, err := quoted(f.Name, v)
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		listed := strings.Join(texts, ", ")
		unlisted := "NULL"
		if f.Other {
			unlisted = "0"
		}
		for i := first; i < len(texts); i++ {
			add(i-first, fmt.Sprintf("CASE WHEN %s = %s THEN 1 WHEN %[1]s IN (%[3]s) OR %[1]s IS NULL THEN 0 "+
				"ELSE %[4]s END", column, texts[i], listed, unlisted))
		}
		if f.Other {
			add(len(texts)-first, fmt.Sprintf("CASE WHEN %s NOT IN (%s) THEN 1 ELSE 0 END", column, listed))
		}
	}
	return nil
}

// entries are the numbers of a vector: the products of blocks, from left to right, times the scale.
func entries(s *feature.Schema) (out []string) {
	for _, t := range s.Terms() {
		products := []string{""}
		for _, f := range t.Fields {
			var longer []string
			for _, p := range products {
				for i := range f.Width() {
					longer = append(longer, p+block(f.Name, i)+" * ")
				}
			}
			products = longer
		}
		for _, p := range products {
			out = append(out, p+float(s.Scale()))
		}
	}
	return out
}

// each is f of 0 to n - 1.
func each(n int, f func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// write writes the query.
func (q *query) write() {
	d, p := q.policy.Dimension, q.policy
	list := func(parts []string) string { return strings.Join(parts, ",\n    ") }
	dot := func(column string) string {
		return "0E0 + " + strings.Join(each(d, func(i int) string {
			return fmt.Sprintf(`"%s%d" * %s`, column, i, float(p.Theta[i]))
		}), " + ")
	}
	vector := entries(q.schema)
	with := []string{
		"\"_blocks\" AS (\n  SELECT \"_decision\", \"_arm\", \"_default\",\n    " + list(q.blocks) +
			"\n  FROM offers\n)",
		"\"_vectors\" AS (\n  SELECT \"_decision\", \"_arm\", \"_default\",\n    " + list(each(d, func(i int) string {
			return fmt.Sprintf(`%s AS "_x%d"`, vector[i], i)
		})) + "\n  FROM \"_blocks\"\n)",
		"\"_scored\" AS (\n  SELECT *, " + dot("_x") + " AS \"_score\"\n  FROM \"_vectors\"\n)",
		`"_ranked" AS (
  SELECT *,
    ROW_NUMBER() OVER (PARTITION BY "_decision" ORDER BY "_score" DESC, "_arm") AS "_rank",
    ROW_NUMBER() OVER (PARTITION BY "_decision" ORDER BY CASE WHEN "_default" = 1 THEN 0 ELSE 1 END, "_arm")
      AS "_standard",
    COUNT(*) OVER (PARTITION BY "_decision") AS "_arms",
    COUNT("_score") OVER (PARTITION BY "_decision") AS "_known"
  FROM "_scored"
)`,
		"\"_compared\" AS (\n  SELECT b.\"_decision\", b.\"_arm\" AS \"_best\", s.\"_arm\" AS \"_fallback\",\n    " +
			list(each(d, func(i int) string { return fmt.Sprintf(`b."_x%d" - s."_x%[1]d" AS "_z%[1]d"`, i) })) + `
  FROM "_ranked" b JOIN "_ranked" s ON s."_decision" = b."_decision"
  WHERE b."_rank" = 1 AND s."_standard" = 1 AND b."_known" = b."_arms"
)`,
		"\"_measured\" AS (\n  SELECT \"_decision\", \"_best\", \"_fallback\",\n    " + dot("_z") +
			" AS \"_gain\",\n    " + q.form() + " AS \"_form\"\n  FROM \"_compared\"\n)",
		"\"_chosen\" AS (\n  SELECT \"_decision\", " + q.chosen() + " AS \"_chosen\"\n  FROM \"_measured\"\n)",
	}
	probability := `CASE WHEN c."_chosen" = r."_arm" THEN 1.0 WHEN c."_chosen" <> r."_arm" THEN 0.0 END`
	if p.Play == glm.PlayUniform {
		probability = `CASE WHEN c."_chosen" IS NOT NULL THEN 1E0 / r."_arms" END`
	}
	fmt.Fprintf(&q.out, "WITH %s\nSELECT r.\"_decision\", r.\"_arm\", r.\"_score\",\n  %s AS \"_probability\"\n"+
		"FROM \"_ranked\" r LEFT JOIN \"_chosen\" c ON c.\"_decision\" = r.\"_decision\"\n"+
		"ORDER BY r.\"_decision\", r.\"_arm\";\n", strings.Join(with, ",\n"), probability)
}

// chosen is the arm that is played: the best if it is better than the default by what caution asks for.
func (q *query) chosen() string {
	p := q.policy
	switch {
	case p.Play == glm.PlayDefault, p.Caution > 0 && p.Scaling == nil:
		return `"_fallback"`
	case p.Caution == 0:
		return `CASE WHEN "_gain" > 0 THEN "_best" ELSE "_fallback" END`
	}
	return fmt.Sprintf(`CASE WHEN "_gain" > %s * SQRT(CASE WHEN "_form" > 0 THEN "_form" ELSE 0 END)
    THEN "_best" ELSE "_fallback" END`, float(p.Caution))
}

// form is the variance of the difference of the two arms' scores, added up as symmetric.Packed.Form does; 0 where
// nobody asks.
func (q *query) form() string {
	p := q.policy
	if p.Caution == 0 || p.Scaling == nil {
		return "0E0"
	}
	k := 0
	return "2E0 * (" + strings.Join(each(p.Dimension, func(i int) string {
		inner := fmt.Sprintf(`%s * "_z%d"`, float(0.5*p.Scaling.Covariance[k]), i)
		for j := i + 1; j < p.Dimension; j++ {
			k++
			inner += fmt.Sprintf(` + %s * "_z%d"`, float(p.Scaling.Covariance[k]), j)
		}
		k++
		return fmt.Sprintf(`"_z%d" * (%s)`, i, inner)
	}), " + ") + ")"
}
