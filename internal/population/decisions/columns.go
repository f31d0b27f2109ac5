package decisions

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// The roles that a column of a log can have beside the fields of a schema. A log that does not say otherwise has
// columns of these names.
const (
	RoleArms       = "arms"       // the arms that could be played: vectors, names, or objects with an id
	RoleArm        = "arm"        // the one that was played
	RoleReward     = "reward"     // what it earned
	RoleCost       = "cost"       // in place of the reward, which is minus the cost
	RolePropensity = "propensity" // the probability with which it was played
	RoleDecision   = "decision"   // what the log calls the decision
	RoleRewards    = "rewards"    // what every arm would have earned, in place of arm, reward and propensity
)

// roles are all of them.
var roles = []string{RoleArms, RoleArm, RoleReward, RoleCost, RolePropensity, RoleDecision, RoleRewards}

// Columns say which column of a log has which role, and which column is which field of the schema.
type Columns map[string]Column

// Column is a column of a log, or one value for all rows.
type Column struct {
	Name     string // as the log has it
	Constant bool   // there is none: every row has the value
	value    value
}

// ParseColumns reads what a command line says: ROLE=COLUMN, ROLE:=VALUE for all rows, or @FILE, a file for ReadColumns.
// Names in a value of arms are separated by "|", and so are columns of rewards, one for each arm. A role may also be a
// field of the schema; a value of nothing says that it is known of nobody.
func ParseColumns(said []string) (Columns, error) {
	c := Columns{}
	for i, text := range said {
		if file, ok := strings.CutPrefix(text, "@"); ok {
			if len(said) > 1 {
				return nil, fmt.Errorf("--columns: a file says all: give %q alone, or put the others into it", text)
			}
			return ReadColumns(file)
		}
		role, column, ok := strings.Cut(text, "=")
		role, constant := strings.CutSuffix(role, ":")
		role = strings.TrimSpace(role)
		if !ok || role == "" || !constant && column == "" {
			return nil, fmt.Errorf("--columns: entry %d is not ROLE=COLUMN or ROLE:=VALUE, such as reward=clicked or "+
				"propensity:=0.5", i+1)
		}
		if _, again := c[role]; again {
			return nil, fmt.Errorf("--columns: %q is given twice: give one column for it", role)
		}
		c[role] = Column{Name: column, Constant: constant, value: value{cell: column, there: true}}
	}
	return c, nil
}

// ReadColumns reads a YAML file of roles and columns. A value for all rows is {value: ...}:
//
//	reward: clicked
//	propensity: {value: 0.25}
//	arms: {value: [none, sms, call]}
func ReadColumns(path string) (Columns, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	wrong := func(line int, problem string) (Columns, error) {
		return nil, fmt.Errorf("%s: line %d: %s: write a line ROLE: COLUMN for each role, with quotes around a "+
			"number, or ROLE: {value: ...} for all rows", path, line, problem)
	}
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s is not YAML of roles and columns (%s): write a line like reward: clicked for each "+
			"role", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	c := Columns{}
	if len(file.Content) == 0 {
		return c, nil
	}
	all := file.Content[0]
	if all.Kind != yaml.MappingNode {
		return wrong(all.Line, "it has no roles")
	}
	for i := 0; i < len(all.Content); i += 2 {
		role, of := all.Content[i].Value, all.Content[i+1]
		if _, again := c[role]; again {
			return wrong(all.Content[i].Line, fmt.Sprintf("%q is given twice", role))
		}
		switch {
		case of.Kind == yaml.ScalarNode && of.Tag == "!!str" && of.Value != "":
			c[role] = Column{Name: of.Value}
		case of.Kind == yaml.MappingNode && len(of.Content) == 2 && of.Content[0].Value == "value":
			var whole any // finds keys that are there twice, and what contains itself
			err := of.Content[1].Decode(&whole)
			var text []byte
			if err == nil {
				text, err = json.Marshal(plain(of.Content[1]))
			}
			if err != nil {
				return wrong(of.Line, fmt.Sprintf("%q has a value that cannot be read, or a key twice", role))
			}
			c[role] = Column{Constant: true, value: value{json: text, there: true}}
		default:
			return wrong(of.Line, fmt.Sprintf("%q is no name of a column", role))
		}
	}
	return c, nil
}

// plain is what a value in YAML says. A number that JSON would not write so, and a date, are the text that is there:
// 007 is no 7.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, of := range n.Content {
			list[i] = plain(of)
		}
		return list
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			object[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return object
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value)
		}
	}
	return n.Value
}

// check refuses a role that is none and no field of the schema.
func (c Columns) check(fields []string) error {
	for _, role := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(roles, role) && !slices.Contains(fields, role) {
			known := "; no schema of features is given"
			if len(fields) > 0 {
				known = ", and the schema has the fields " + strict.List(fields, "and")
			}
			return fmt.Errorf("%q is no role of a column: roles are %s%s", role, strict.List(roles, "and"), known)
		}
	}
	if _, cost := c[RoleCost]; cost {
		if _, reward := c[RoleReward]; reward {
			return fmt.Errorf("both %q and %q have a column: a reward is minus a cost; name one", RoleReward, RoleCost)
		}
	}
	return nil
}
