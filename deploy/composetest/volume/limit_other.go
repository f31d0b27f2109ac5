//go:build !linux

package main

import "errors"

// limit exists only where containers run.
func limit(int, bool) error { return errors.ErrUnsupported }
