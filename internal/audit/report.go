package audit

// What names a kind of breach. The names stand in results, on pages and in docs.
type What string

// Breach is one thing that is wrong, with the entry that proves it.
type Breach struct {
	What What `json:"what"`
	// Entry is where the proof stands: "<role>/<index of the leaf> <kind>", the name of a file, or a checkpoint.
	Entry   string `json:"entry"`
	Release string `json:"release,omitempty"` // "<epoch>.<round>"
	Detail  string `json:"detail"`            // one sentence for people: what was expected, what was found
}
