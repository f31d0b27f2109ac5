package openapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// keywords of a schema that judge, and those that only explain.
var (
	judging = []string{"$ref", "type", "enum", "const", "properties", "required", "additionalProperties", "items",
		"minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "pattern", "format",
		"contentEncoding", "allOf", "anyOf"}
	explaining = []string{"description", "title", "examples", "default"}
)

// understands refuses a schema with a keyword that fits does not know.
func (d *Document) understands(schema any) error {
	switch s := schema.(type) {
	case bool:
		return nil
	case map[string]any:
		for key, of := range s {
			switch {
			case slices.Contains(explaining, key):
			case !slices.Contains(judging, key):
				return fmt.Errorf("the keyword %q of a schema is not known", key)
			case key == "$ref":
				if d.resolve(s) == nil {
					return fmt.Errorf("%v leads nowhere", of)
				}
			}
		}
		inner := append(list(s["allOf"]), list(s["anyOf"])...)
		for _, key := range []string{"items", "additionalProperties"} {
			if of, ok := s[key]; ok {
				inner = append(inner, of)
			}
		}
		if of, ok := s["properties"].(map[string]any); ok {
			inner = slices.AppendSeq(inner, maps.Values(of))
		}
		for _, of := range inner {
			if err := d.understands(of); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%T is no schema", schema)
}

// resolve is a schema, or the one that it refers to; nil where there is none.
func (d *Document) resolve(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	for range 8 {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		name, local := strings.CutPrefix(ref, "#/components/schemas/")
		if s, _ = d.schemas[name].(map[string]any); !local {
			return nil
		}
	}
	return nil
}

// fits says what of a value a schema does not allow. A property that is not described is not allowed, unless the schema
// says so.
func (d *Document) fits(schema, value any, at string) error {
	if all, ok := schema.(bool); ok {
		if all {
			return nil
		}
		return fmt.Errorf("%s must not be there", at)
	}
	if object, ok := value.(map[string]any); ok {
		described, more := d.described(schema)
		for name := range object {
			if !more && !described[name] {
				return fmt.Errorf("%s.%s is not described", at, name)
			}
		}
	}
	return d.check(schema, value, at)
}

// described are the properties that a schema describes; more tells that it allows others, or describes none.
func (d *Document) described(schema any) (names map[string]bool, more bool) {
	s := d.resolve(schema)
	names = map[string]bool{}
	properties, ok := s["properties"].(map[string]any)
	for name := range properties {
		names[name] = true
	}
	parts := append(list(s["allOf"]), list(s["anyOf"])...)
	for _, part := range parts {
		of, any := d.described(part)
		maps.Copy(names, of)
		more = more || any && d.resolve(part)["additionalProperties"] != nil
	}
	if extra, said := s["additionalProperties"]; said {
		return names, extra != false
	}
	return names, more || !ok && len(parts) == 0
}

// check is fits, but for properties that are not described.
func (d *Document) check(schema, value any, at string) error {
	s := d.resolve(schema)
	if kinds := s["type"]; kinds != nil && !slices.ContainsFunc(list(kinds), func(k any) bool { return is(k, value) }) {
		return fmt.Errorf("%s is %T, and must be %v", at, value, kinds)
	}
	if all := list(s["enum"]); all != nil && !slices.ContainsFunc(all, func(v any) bool {
		return reflect.DeepEqual(v, value)
	}) {
		return fmt.Errorf("%s is %v, and must be one of %v", at, value, all)
	}
	if one, ok := s["const"]; ok && !reflect.DeepEqual(one, value) {
		return fmt.Errorf("%s is %v, and must be %v", at, value, one)
	}
	for _, part := range list(s["allOf"]) {
		if err := d.check(part, value, at); err != nil {
			return err
		}
	}
	if parts := list(s["anyOf"]); parts != nil && !slices.ContainsFunc(parts, func(part any) bool {
		return d.fits(part, value, at) == nil
	}) {
		return fmt.Errorf("%s fits none of what it may be", at)
	}
	switch v := value.(type) {
	case map[string]any:
		return d.object(s, v, at)
	case []any:
		if n := float64(len(v)); n < number(s, "minItems", 0) || n > number(s, "maxItems", math.Inf(1)) {
			return fmt.Errorf("%s has %v items", at, n)
		}
		for i, item := range v {
			if of, ok := s["items"]; ok {
				if err := d.fits(of, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	case float64:
		if v < number(s, "minimum", math.Inf(-1)) || v > number(s, "maximum", math.Inf(1)) ||
			v <= number(s, "exclusiveMinimum", math.Inf(-1)) {
			return fmt.Errorf("%s is %v", at, v)
		}
	case string:
		return text(s, v, at)
	}
	return nil
}

func (d *Document) object(s map[string]any, v map[string]any, at string) error {
	for _, name := range list(s["required"]) {
		if _, there := v[name.(string)]; !there {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, of := range v {
		schema, ok := properties[name]
		if !ok {
			if schema, ok = s["additionalProperties"]; !ok {
				continue
			}
		}
		if err := d.fits(schema, of, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func text(s map[string]any, v, at string) error {
	n := float64(len([]rune(v)))
	if n < number(s, "minLength", 0) || n > number(s, "maxLength", math.Inf(1)) {
		return fmt.Errorf("%s has %v characters", at, n)
	}
	if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
		return fmt.Errorf("%s is %q, and must be like %s", at, v, pattern)
	}
	var err error
	if s["format"] == "date-time" {
		_, err = time.Parse(time.RFC3339Nano, v)
	}
	if s["contentEncoding"] == "base64" {
		_, wrong := base64.StdEncoding.DecodeString(v)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// is reports whether a value has a type of JSON schema.
func is(kind, value any) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	}
	return false
}

// list is a list, or one value as a list of one; nil where there is none.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

func number(s map[string]any, key string, otherwise float64) float64 {
	if v, ok := s[key].(float64); ok {
		return v
	}
	return otherwise
}
