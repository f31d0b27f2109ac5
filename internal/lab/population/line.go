package population

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// ParseLine reads one person from one line of JSON Lines:
//
//	{"arms": [[0.1, 0.9], [0.3, -0.2]], "rewards": [1, 0]}
//
// It is strict, so that a mistake in a file is found rather than learned from: exactly these two keys, once each, and
// finite numbers; no null, no other key, nothing after the object. Arms have the same dimension, at least one arm and
// one coordinate, and there are as many rewards as arms. The caller checks norms and the range of rewards. The
// error says what is wrong and at which byte of the line.
func ParseLine(line []byte) (Person, error) {
	s := scanner{in: line}
	p, err := s.person()
	if err != nil {
		return Person{}, err
	}
	if len(p.Rewards) != len(p.Arms) {
		return Person{}, fmt.Errorf("%d rewards for %d arms: one reward for each arm is needed", len(p.Rewards),
			len(p.Arms))
	}
	for i, a := range p.Arms {
		if len(a) != len(p.Arms[0]) {
			return Person{}, fmt.Errorf("arm %d has dimension %d, arm 0 has %d", i, len(a), len(p.Arms[0]))
		}
	}
	return p, nil
}

// scanner walks over one line. It exists because encoding/json takes null for 0, a key twice, and keys in any case.
type scanner struct {
	in []byte
	at int
}

func (s *scanner) person() (Person, error) {
	var p Person
	if err := s.expect('{', "an object"); err != nil {
		return p, err
	}
	for {
		key, err := s.key()
		if err != nil {
			return p, err
		}
		switch {
		case key == "arms" && p.Arms == nil:
			p.Arms, err = s.arms()
		case key == "rewards" && p.Rewards == nil:
			p.Rewards, err = s.numbers("rewards")
		case key == "arms" || key == "rewards":
			err = fmt.Errorf("%q is given twice", key)
		default:
			err = fmt.Errorf("unknown key %.40q; the keys are \"arms\" and \"rewards\"", key)
		}
		if err != nil {
			return p, err
		}
		if !s.take(',') {
			break
		}
	}
	if err := s.expect('}', "\",\" or the object's end"); err != nil {
		return p, err
	}
	if s.space(); s.at != len(s.in) {
		return p, fmt.Errorf("byte %d: %s after the object; one person per line", s.at+1, s.here())
	}
	switch {
	case p.Arms == nil:
		return p, fmt.Errorf("%q is missing", "arms")
	case p.Rewards == nil:
		return p, fmt.Errorf("%q is missing", "rewards")
	}
	return p, nil
}

// key reads a key and its colon. No known key needs escapes.
func (s *scanner) key() (string, error) {
	if err := s.expect('"', "a key"); err != nil {
		return "", err
	}
	n := bytes.IndexByte(s.in[s.at:], '"')
	if n < 0 {
		return "", fmt.Errorf("byte %d: a key without its closing quote", s.at+1)
	}
	key := string(s.in[s.at : s.at+n])
	s.at += n + 1
	return key, s.expect(':', "a colon")
}

func (s *scanner) arms() ([][]float64, error) {
	if err := s.expect('[', "a list of arms"); err != nil {
		return nil, err
	}
	if s.take(']') {
		return nil, fmt.Errorf("%q is empty: nothing to decide", "arms")
	}
	var arms [][]float64
	for {
		arm, err := s.numbers(fmt.Sprintf("arms[%d]", len(arms)))
		if err != nil {
			return nil, err
		}
		arms = append(arms, arm)
		if !s.take(',') {
			return arms, s.expect(']', "\",\" or the end of \"arms\"")
		}
	}
}

// numbers reads a non-empty list of finite numbers; name says whose, in errors.
func (s *scanner) numbers(name string) ([]float64, error) {
	if err := s.expect('[', "a list of numbers for "+name); err != nil {
		return nil, err
	}
	if s.take(']') {
		return nil, fmt.Errorf("%s is empty", name)
	}
	var out []float64
	for {
		s.space()
		start := s.at
		text := s.number()
		if text == "" {
			return nil, fmt.Errorf("byte %d: %s[%d] is %s, not a number", start+1, name, len(out), s.here())
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) { // the grammar leaves overflow as the only error
			return nil, fmt.Errorf("byte %d: %s[%d] = %.40s is too large", start+1, name, len(out), text)
		}
		out = append(out, v)
		if !s.take(',') {
			return out, s.expect(']', "\",\" or the end of "+name)
		}
	}
}

// number takes the longest JSON number from here; "" and no movement if there is none.
func (s *scanner) number() string {
	i := s.at
	digits := func() bool {
		from := i
		for i < len(s.in) && s.in[i] >= '0' && s.in[i] <= '9' {
			i++
		}
		return i > from
	}
	is := func(set string) bool {
		if i < len(s.in) && bytes.IndexByte([]byte(set), s.in[i]) >= 0 {
			i++
			return true
		}
		return false
	}
	is("-")
	if is("0") {
		if i < len(s.in) && s.in[i] >= '0' && s.in[i] <= '9' {
			return ""
		}
	} else if !digits() {
		return ""
	}
	if is(".") && !digits() {
		return ""
	}
	if is("eE") {
		is("+-")
		if !digits() {
			return ""
		}
	}
	text := string(s.in[s.at:i])
	s.at = i
	return text
}

func (s *scanner) space() {
	for s.at < len(s.in) {
		switch s.in[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take moves past c, and blanks before it, if c comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.in) && s.in[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) expect(c byte, what string) error {
	if s.take(c) {
		return nil
	}
	return fmt.Errorf("byte %d: expected %s, found %s", s.at+1, what, s.here())
}

// here names what comes next, shortened.
func (s *scanner) here() string {
	rest := s.in[s.at:]
	if len(rest) == 0 {
		return "the end of the line"
	}
	if n := bytes.IndexAny(rest, " ,]}\t"); n > 0 {
		rest = rest[:n]
	}
	if len(rest) > 24 {
		rest = rest[:24]
	}
	return strconv.Quote(string(rest))
}
