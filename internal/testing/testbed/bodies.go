package testbed

import "bytes"

// HostileDecisions are bodies of 4 MB for the local API, each built to take much memory. good is a body that is taken.
func HostileDecisions(good string) [][]byte {
	fill := func(head, unit, tail string) []byte {
		const size = 4<<20 - 16
		return append(append([]byte(head), bytes.Repeat([]byte(unit), (size-len(head)-len(tail))/len(unit))...),
			tail...)
	}
	return [][]byte{
		fill(`{"arms": [`, `[],`, `[]]}`), fill(`{"arms": [[`, `1,`, `1]]}`), fill(`{"arms": [[1`, `1`,
			`]]}`), fill(`{"arms": [`, `[1,1],`, `[1,1]]}`),
		fill(`{"arms": `, `[`, ``), fill(`{"`, `x`, `": 1}`), fill(`{"arms": [`, `null,`, `[1, 1]]}`), fill(``, ` `,
			good),
		fill(`{"arms": [[[`, `1,`, `1]]]}`),
	}
}
