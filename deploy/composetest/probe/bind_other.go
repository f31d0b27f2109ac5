//go:build !linux

package main

import "errors"

func bind(int, string) error { return errors.ErrUnsupported }
