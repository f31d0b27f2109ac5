package feature

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Values are features by the names of fields: float64 or int, string, bool, or nil for one that is missing.
type Values map[string]any

// Arm is one arm of a decision.
type Arm struct {
	ID       string // 1 to MaxText bytes, unique among the arms of a decision
	Features Values // of the schema's fields of arms, without the id
}

// UnmarshalJSON reads an arm as apps send it: an object with the key "id" beside the features. Errors are ErrFeatures.
func (a *Arm) UnmarshalJSON(text []byte) error {
	var all Values
	if json.Unmarshal(text, &all) != nil { // its error could name a value
		return fmt.Errorf("%w: an arm must be a JSON object of numbers, texts, true, false and null", ErrFeatures)
	}
	id, ok := all[ID].(string)
	if !ok {
		return fmt.Errorf(`%w: an arm has no "id" that is a text`, ErrFeatures)
	}
	delete(all, ID)
	a.ID, a.Features = id, all
	return nil
}

// Context stands for the context where the index of an arm is asked for.
const Context = -1

// entry is a block: all zeros but for the number value at a place. A value of 0 is the block of zeros.
type entry struct {
	place int
	value float64
}

// Encode makes a vector of Dimension numbers, of norm at most 1, of each arm in its context. There are 1 to MaxArms of
// them. It is a function of its arguments alone. Every error is ErrFeatures and names the field, and the arm by its
// index, never a value: an unknown field, a value of another kind, a number that is not finite, a text of more than
// MaxText bytes or, in a category without "other", one that is not listed; an id that is missing, too long, or another
// arm's.
func (s *Schema) Encode(context Values, arms []Arm) ([][]float64, error) {
	if len(arms) < 1 || len(arms) > MaxArms {
		return nil, fmt.Errorf("%w: a decision has 1 to %d arms, this one has %d", ErrFeatures, MaxArms, len(arms))
	}
	blocks := make([]entry, len(s.fields))
	if err := s.read(blocks, Context, context); err != nil {
		return nil, err
	}
	ids := make(map[string]bool, len(arms))
	vectors := make([][]float64, len(arms))
	for i, a := range arms {
		if ids[a.ID] || len(a.ID) < 1 || len(a.ID) > MaxText {
			return nil, fmt.Errorf(`%w: arm %d: its "id" must be a text of 1 to %d bytes that no other arm has`,
				ErrFeatures, i, MaxText)
		}
		ids[a.ID] = true
		if err := s.read(blocks, i, a.Features); err != nil {
			return nil, err
		}
		if f, ok := s.index[ID]; ok {
			b, err := s.fields[f].block(a.ID)
			if err != nil {
				return nil, fmt.Errorf("%w: arm %d: field %q %w", ErrFeatures, i, ID, err)
			}
			blocks[f] = b
		}
		vectors[i] = s.vector(blocks)
	}
	return vectors, nil
}

// CheckField reports whether the arm of that index, or the context (Context), has a field of that name. The error is
// ErrFeatures; it repeats the name only if it has the form of a field's name.
func (s *Schema) CheckField(arm int, name string) error {
	f, known := s.index[name]
	switch {
	case known && (f < s.context) == (arm == Context) && name != ID:
		return nil
	case !isName(name):
		return fmt.Errorf("%w: %s has a field whose name no schema can have", ErrFeatures, where(arm))
	case known && name != ID:
		return fmt.Errorf("%w: %s has the field %q, which belongs to %s", ErrFeatures, where(arm), name,
			map[bool]string{true: "the context", false: "the arms"}[f < s.context])
	}
	return fmt.Errorf("%w: %s has the field %q, which the schema does not have", ErrFeatures, where(arm), name)
}

func where(arm int) string {
	if arm == Context {
		return "the context"
	}
	return fmt.Sprintf("arm %d", arm)
}

// read turns the features of the context or of one arm into blocks. Those of other fields stay.
func (s *Schema) read(blocks []entry, arm int, from Values) error {
	first, end := 0, s.context
	if arm != Context {
		first, end = s.context, len(s.fields)
	}
	found := 0
	for i := first; i < end; i++ {
		f := &s.fields[i]
		if f.Name == ID {
			continue
		}
		v, ok := from[f.Name]
		if ok {
			found++
		}
		b, err := f.block(v)
		if err != nil {
			return fmt.Errorf("%w: %s: field %q %w", ErrFeatures, where(arm), f.Name, err)
		}
		blocks[i] = b
	}
	if found == len(from) {
		return nil
	}
	names := make([]string, 0, len(from))
	for name := range from {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.CheckField(arm, name); err != nil {
			return err
		}
	}
	return nil
}

// block is what a field's value becomes. The error says what the value must be.
func (f *Field) block(v any) (entry, error) {
	if v == nil {
		return entry{}, nil
	}
	switch f.Kind {
	case Number, Buckets:
		x, ok := v.(float64)
		if n, whole := v.(int); whole {
			x, ok = float64(n), true
		}
		if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
			return entry{}, fmt.Errorf("must be a finite number")
		}
		if f.Kind == Number {
			return entry{0, scaled(x, *f.Low, *f.High)}, nil
		}
		// the number of thresholds that are at most x
		return f.one(sort.Search(len(f.Thresholds), func(i int) bool { return f.Thresholds[i] > x })), nil
	case Flag:
		switch v {
		case true:
			return entry{0, 1}, nil
		case false:
			return entry{0, -1}, nil
		}
		return entry{}, fmt.Errorf("must be true or false")
	}
	text, ok := v.(string)
	if !ok || len(text) > MaxText {
		return entry{}, fmt.Errorf("must be a text of at most %d bytes", MaxText)
	}
	if f.Kind == Hashed {
		place, sign := Hash(f.Name, text, f.Buckets)
		return entry{place, sign}, nil
	}
	place := slices.Index(f.Values, text)
	if place < 0 && !f.Other {
		return entry{}, fmt.Errorf(`must be one of the %d values of the schema, which has no "other" there`,
			len(f.Values))
	}
	if place < 0 {
		place = len(f.Values)
	}
	return f.one(place), nil
}

// one is the block with 1 at a place, which a baseline moves by one.
func (f *Field) one(place int) entry {
	if !f.Baseline {
		return entry{place, 1}
	}
	if place == 0 {
		return entry{}
	}
	return entry{place - 1, 1}
}

// scaled maps [low, high] to [-1, 1]; what lies outside counts as the nearest inside. t + t is exact, t is at most 1
// because rounding is monotone, and so is the result.
func scaled(x, low, high float64) float64 {
	switch {
	case x <= low:
		return -1
	case x >= high:
		return 1
	}
	t := (x - low) / (high - low)
	return (t + t) - 1
}

// Hash is the place, from 0, and the sign, 1 or -1, of a text in a field of that many buckets. With h the SHA-256 of
// the bytes "riffle/v1/feature" 0x00 name 0x00 text (UTF-8), the place is the unsigned big-endian number of the first
// four bytes of h modulo buckets, and the sign is -1 if the fifth byte is odd. Texts are taken byte for byte, without
// normalisation. buckets is positive.
func Hash(name, text string, buckets int) (place int, sign float64) {
	h := sha256.Sum256([]byte("riffle/v1/feature\x00" + name + "\x00" + text))
	place, sign = int(binary.BigEndian.Uint32(h[:4])%uint32(buckets)), 1
	if h[4]&1 == 1 {
		sign = -1
	}
	return place, sign
}

// vector puts the blocks of all terms together.
func (s *Schema) vector(blocks []entry) []float64 {
	out := make([]float64, s.dimension)
	for _, t := range s.terms {
		place, value := 0, 1.0
		for i, f := range t.fields {
			b := blocks[f]
			if i == 0 {
				place, value = b.place, b.value
				continue
			}
			place, value = place*s.fields[f].Width()+b.place, value*b.value
		}
		if value *= s.scale; value != 0 { // an entry that is 0 is never -0
			out[t.offset+place] = value
		}
	}
	return out
}
