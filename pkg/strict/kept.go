package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Kept reads what a program of this project wrote for itself with encoding/json, and nothing else: names that the type
// does not have are refused, since what they stand for would be read as zero, and so is anything behind the value.
func Kept(b []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
