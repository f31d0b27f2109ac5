package population

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzCensus reads any text as the census. Every line that is neither empty nor the mark of the test set is a person,
// or an error that names the line.
func FuzzCensus(f *testing.F) {
	const row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, " +
		"2174, 0, 40, " + "United-States, <=50K"
	f.Add(row + "\n" + adultTestMark + "\n" + row + ".\n\n")
	f.Add(strings.Replace(row, "39", "x", 1))
	f.Add(row[:20])
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readCensus(strings.NewReader(text))
		if err != nil {
			if rows != nil || !strings.Contains(err.Error(), "shipped census") {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			return
		}
		lines := 0
		for line := range bytes.Lines([]byte(text)) {
			if line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")); len(line) > 0 &&
				!bytes.HasPrefix(line, []byte(adultTestMark)) {
				lines++
			}
		}
		if lines != len(rows) {
			t.Fatalf("%d rows of %d lines", len(rows), lines)
		}
	})
}
