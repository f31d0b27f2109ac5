package config

import (
	"fmt"
	"strings"
)

// didYouMean is " (did you mean X?)" for the known name nearest to the given one, "" if none is near.
func didYouMean(given string, known []string) string {
	best, distance := "", 1+max(2, len(given)/4)
	for _, name := range known {
		d := editDistance(given, name)
		if leaf := name[strings.LastIndexByte(name, '.')+1:]; leaf == given[strings.LastIndexByte(given, '.')+1:] {
			d = min(d, distance-1) // the right key in the wrong section
		}
		if d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// editDistance counts the insertions, deletions and substitutions that turn a into b.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
		}
	}
	return rows[len(a)][len(b)]
}
