package uniform

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxLine is how long a line may be, in bytes.
const maxLine = 1 << 28

// ErrFormat says that a file of releases is not one. The error says in which line, and what to do.
var ErrFormat = errors.New("not a file of releases")

// header is a line that says what is known of the releases of the lines behind it, up to the next such line.
type header struct {
	// Input has the items in the order in which they came.
	Input []json.RawMessage `json:"input"`
	// Reports has for each item of Input, or in their order for each item, the report that it came in.
	Reports []json.RawMessage `json:"reports"`
	// Report is how many items in a row came in one report, where Reports is not given.
	Report int `json:"report_size"`
	// Chunk is how many items leave together.
	Chunk int `json:"chunk_size"`
}

// about is a header that was understood.
type about struct {
	input   map[string]int // from an item to its number
	reports []int
	report  int
	chunk   int
}

// Read calls use with each release of a file, and the shape that is known of it. A line is a JSON array of the items of
// one release in the order in which they left: all integers, or all strings, and no item twice. A line may also be an
// object with what is known of the releases behind it: "input", an array of the items in the order in which they came;
// "reports", an array of the reports in which the items came, in the same order; or in place of it "report_size", how
// many items in a row came in one report; and "chunk_size", how many left together.
//
// Without "input", items are taken to have come in ascending order: integers by value, strings by their text with every
// run of digits in it read as a number. If that is not so, false alarms stay as rare, but less is found.
//
// Errors: ErrFormat with the line, the reader's, and that of use.
func Read(in io.Reader, use func(*Release, Shape) error) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	var known about
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if e := known.line(line, use); e != nil {
				return fmt.Errorf("line %d: %w", number, e)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads up to the end of a line, or of the file, which is io.EOF.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrFormat, maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (a *about) line(line []byte, use func(*Release, Shape) error) error {
	if line[0] == '{' {
		return a.header(line)
	}
	var items []json.RawMessage
	if line[0] != '[' {
		return fmt.Errorf("%w: must be a JSON array of the items of one release", ErrFormat)
	}
	if err := json.Unmarshal(line, &items); err != nil {
		return fmt.Errorf("%w: must be a JSON array of the items of one release: %w", ErrFormat, err)
	}
	if len(items) > MaxItems {
		return fmt.Errorf("%w: %d items, at most %d are judged", ErrFormat, len(items), MaxItems)
	}
	r := &Release{}
	var err error
	if a.input != nil {
		r.Order, err = a.numbers(items)
	} else {
		r.Order, err = ascending(items)
	}
	if err != nil {
		return err
	}
	n := len(items)
	shape := Shape{Items: n, Report: a.report, Chunk: a.chunk}
	switch {
	case a.reports != nil && len(a.reports) != n:
		return fmt.Errorf("%w: the reports of %d items are given, and here are %d", ErrFormat, len(a.reports), n)
	case a.reports != nil:
		r.Reports = a.reports
	case a.report > 0:
		for i := range n {
			r.Reports = append(r.Reports, i/a.report)
		}
	}
	for rest := n; a.chunk > 0 && rest > 0; rest -= a.chunk {
		r.Chunks = append(r.Chunks, min(rest, a.chunk))
	}
	return use(r, shape)
}

func (a *about) header(line []byte) error {
	var h header
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return fmt.Errorf(`%w: an object may have "input", "reports", "report_size" and "chunk_size": %w`, ErrFormat,
			err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the object", ErrFormat)
	}
	if h.Report < 0 || h.Chunk < 0 || h.Report > MaxItems || h.Chunk > MaxItems {
		return fmt.Errorf(`%w: "report_size" and "chunk_size" must be from 0 to %d`, ErrFormat, MaxItems)
	}
	if h.Input != nil && h.Reports != nil && len(h.Input) != len(h.Reports) {
		return fmt.Errorf("%w: %d items came, in %d reports", ErrFormat, len(h.Input), len(h.Reports))
	}
	*a = about{report: h.Report, chunk: h.Chunk}
	if h.Input != nil {
		if _, err := ascending(h.Input); err != nil { // whatever is wrong with the items
			return err
		}
		a.input = make(map[string]int, len(h.Input))
		for i, item := range h.Input {
			a.input[text(item)] = i
		}
	}
	if h.Reports != nil {
		a.reports, a.report = make([]int, len(h.Reports)), 0
		known := map[string]int{}
		for i, report := range h.Reports {
			if _, err := parse(report); err != nil {
				return err
			}
			n, ok := known[text(report)]
			if !ok {
				n = len(known)
				known[text(report)] = n
			}
			a.reports[i] = n
		}
		if len(known) > 0 {
			a.report = (len(h.Reports) + len(known) - 1) / len(known) // as large, on average
		}
	}
	return nil
}

// numbers are those of items whose order of arrival was given.
func (a *about) numbers(items []json.RawMessage) ([]int, error) {
	if len(items) != len(a.input) {
		return nil, fmt.Errorf(`%w: %d items leave, and "input" says that %d came`, ErrFormat, len(items), len(a.input))
	}
	order, seen := make([]int, len(items)), make([]bool, len(items))
	for place, item := range items {
		n, ok := a.input[text(item)]
		if !ok {
			return nil, fmt.Errorf(`%w: the item at place %d is not in "input"`, ErrFormat, place)
		}
		if seen[n] {
			return nil, twice(place)
		}
		order[place], seen[n] = n, true
	}
	return order, nil
}

func twice(place int) error {
	return fmt.Errorf("%w: the item at place %d is there twice: every item needs a mark of its own", ErrFormat,
		place)
}

// label is an item of a file.
type label struct {
	number int64
	text   string // where it is a string
	is     bool   // a string
	place  int
}

// ascending numbers items by their own order.
func ascending(items []json.RawMessage) ([]int, error) {
	labels := make([]label, len(items))
	for place, item := range items {
		l, err := parse(item)
		if err != nil {
			return nil, fmt.Errorf("%w, at place %d", err, place)
		}
		l.place = place
		if l.is != labels[0].is && place > 0 {
			return nil, fmt.Errorf("%w: items must be all integers or all strings, place %d is not like place 0",
				ErrFormat,
				place)
		}
		labels[place] = l
	}
	slices.SortFunc(labels, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.number, b.number), natural(a.text, b.text), strings.Compare(a.text, b.text))
	})
	order := make([]int, len(items))
	for i, l := range labels {
		if i > 0 && l.number == labels[i-1].number && l.text == labels[i-1].text {
			return nil, twice(max(l.place, labels[i-1].place))
		}
		order[l.place] = i
	}
	return order, nil
}

// text is an item as the key of a map.
func text(item json.RawMessage) string {
	l, err := parse(item)
	if err != nil {
		return ""
	}
	if l.is {
		return "s" + l.text
	}
	return strconv.FormatInt(l.number, 10)
}

func parse(item json.RawMessage) (l label, err error) {
	if len(item) > 0 && item[0] == '"' {
		l.is = true
		if err := json.Unmarshal(item, &l.text); err != nil {
			return l, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return l, nil
	}
	if l.number, err = strconv.ParseInt(string(item), 10, 64); err != nil {
		return l, fmt.Errorf("%w: an item must be an integer of 64 bits or a string", ErrFormat)
	}
	return l, nil
}

// natural compares texts, with every run of digits as a number.
func natural(a, b string) int {
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if c := cmp.Compare(a[0], b[0]); c != 0 {
			return c
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits a text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
