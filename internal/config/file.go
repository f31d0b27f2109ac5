package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile finds the settings of a YAML file and reports, with its line, everything in it that is not one.
func (l *Loading) readFile(path string) []setting {
	content, err := os.ReadFile(path)
	if err != nil {
		l.fault(fmt.Errorf("the configuration file: %w", err))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file: nothing but defaults
	} else if err != nil {
		l.fault(fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		l.fault(fmt.Errorf("%s: a second document (---) begins: one file is one configuration", path))
	}
	w := walk{Loading: l, path: path, lines: map[string]int{}}
	for _, n := range doc.Content { // one, or none if there are only comments
		w.mapping(n, "")
	}
	return w.settings
}

// A walk goes through the nodes of one file.
type walk struct {
	*Loading
	path     string
	lines    map[string]int // where each key was seen
	settings []setting
}

func (w *walk) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", w.path, n.Line) }

func (w *walk) mapping(n *yaml.Node, prefix string) {
	switch n = resolve(n); {
	case n.Tag == "!!null":
		return // "section:" with all of its keys commented out
	case n.Kind != yaml.MappingNode:
		what := "the file"
		if prefix != "" {
			what = strings.TrimSuffix(prefix, ".")
		}
		w.fault(fmt.Errorf("%s: %s must hold keys (key: value)", w.at(n), what))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if line, seen := w.lines[key]; seen {
			w.fault(fmt.Errorf("%s: %s is already set on line %d", w.at(name), key, line), key)
			continue
		}
		w.lines[key] = name.Line
		if _, section := w.schema.sections[key]; section {
			w.mapping(value, key+".")
		} else if f := w.schema.byKey[key]; f != nil {
			w.leaf(f, value)
		} else {
			w.fault(fmt.Errorf("%s: unknown key %s%s", w.at(name), key, didYouMean(key, w.schema.keys())))
		}
	}
}

func (w *walk) leaf(f *field, value *yaml.Node) {
	s := setting{field: f, origin: w.at(value)}
	value = resolve(value)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		s.text = value.Value
	case value.Kind == yaml.SequenceNode && f.typeName() == "list":
		s.list = []string{}
		for _, item := range value.Content {
			if item = resolve(item); item.Kind != yaml.ScalarNode {
				w.fault(fmt.Errorf("%s: the items of %s must be plain values", w.at(item), f.key), f.key)
				return
			}
			s.list = append(s.list, item.Value)
		}
	case value.Tag == "!!null":
		w.fault(fmt.Errorf(`%s: %s has no value: write one ("" for an empty string), or leave the key out `+
			"for the default", s.origin, f.key), f.key)
		return
	default:
		w.fault(fmt.Errorf("%s: %s must be one %s", s.origin, f.key, f.typeName()), f.key)
		return
	}
	w.settings = append(w.settings, s)
}

// resolve follows *aliases to what they stand for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
