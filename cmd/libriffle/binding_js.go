package main

import (
	"errors"
	"fmt"
	"math"
	"syscall/js"
	"time"
)

func main() {
	api := js.Global().Get("Object").New()
	api.Set("open", promising("open", func(in []js.Value) (func() (any, error), error) {
		text, err := textOf(in, 0)
		if err != nil {
			return nil, err
		}
		saved, err := bytesOf(in, 1)
		if err != nil {
			return nil, err
		}
		sign, err := signerOf(in)
		return func() (any, error) {
			handle, err := open(text, saved, sign)
			return float64(handle), err
		}, err
	}))
	api.Set("public", promising("public", func(in []js.Value) (func() (any, error), error) {
		seed, err := bytesOf(in, 0)
		return func() (any, error) { return public(seed) }, err
	}))
	api.Set("close", promising("close", func(in []js.Value) (func() (any, error), error) {
		handle, err := wholeOf(in, 0)
		return func() (any, error) { closed(handle); return nil, nil }, err
	}))
	for name, call := range calls {
		api.Set(name, promising(name, func(in []js.Value) (func() (any, error), error) {
			handle, err := wholeOf(in, 0)
			if err != nil {
				return nil, err
			}
			a, err := argumentsOf(in[1:], call.takes)
			return func() (any, error) { return ask(handle, name, a) }, err
		}))
	}
	js.Global().Set("riffle", api)
	select {}
}

// promising is a function that reads its arguments at once, and gives a promise of what is asked with them.
func promising(name string, read func([]js.Value) (func() (any, error), error)) js.Func {
	return js.FuncOf(func(_ js.Value, in []js.Value) any {
		var do func() (any, error)
		refused := guarded(func() (err error) {
			if do, err = read(in); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
		executor := js.FuncOf(func(_ js.Value, settle []js.Value) any {
			resolve, reject := settle[0], settle[1]
			go func() { // a function that signs may need the event loop
				var v any
				err := refused
				if err == nil {
					err = guarded(func() (err error) { v, err = do(); return err })
				}
				if err != nil {
					reject.Invoke(errorOf(err))
					return
				}
				if b, ok := v.([]byte); ok {
					v = arrayOf(b)
				} else if v == nil {
					v = js.Undefined()
				}
				resolve.Invoke(v)
			}()
			return nil
		})
		defer executor.Release()
		return js.Global().Get("Promise").New(executor)
	})
}

func errorOf(err error) js.Value {
	e := js.Global().Get("Error").New(err.Error())
	e.Set("reason", reasonOf(err))
	return e
}

// signerOf is the function that signs, the third argument of open; nil where there is none.
func signerOf(in []js.Value) (func(message []byte) ([]byte, error), error) {
	if len(in) < 3 || in[2].IsUndefined() {
		return nil, nil
	}
	sign := in[2]
	if sign.Type() != js.TypeFunction {
		return nil, errors.New("argument 3 must be a function that signs")
	}
	return func(message []byte) (signature []byte, err error) {
		thrown := guarded(func() (failed error) {
			signature, err = awaited(sign.Invoke(arrayOf(message)))
			return nil
		})
		return signature, errors.Join(err, thrown)
	}, nil
}

// awaited waits for a promise of bytes.
func awaited(promised js.Value) (b []byte, err error) {
	done := make(chan struct{})
	kept := js.FuncOf(func(_ js.Value, of []js.Value) any {
		b, err = bytesOf(of, 0)
		close(done)
		return nil
	})
	defer kept.Release()
	broken := js.FuncOf(func(js.Value, []js.Value) any {
		err = errors.New("the function that signs failed")
		close(done)
		return nil
	})
	defer broken.Release()
	js.Global().Get("Promise").Call("resolve", promised).Call("then", kept, broken)
	<-done
	return b, err
}

func argumentsOf(in []js.Value, takes []argument) (a arguments, err error) {
	for i, what := range takes {
		switch what {
		case aStatement:
			a.statement, err = bytesOf(in, i)
		case aText:
			a.text, err = textOf(in, i)
		case aDecision:
			var n int64
			n, err = wholeOf(in, i)
			a.decision = uint64(n)
		case aReward:
			a.reward, err = numberOf(in, i)
		case aTime:
			var ms int64
			ms, err = wholeOf(in, i)
			a.now = time.UnixMilli(ms).UTC()
		}
		if err != nil {
			return arguments{}, err
		}
	}
	return a, nil
}

// typed is one of a function's arguments, which must be of a type.
func typed(in []js.Value, i int, is js.Type) (js.Value, error) {
	if i >= len(in) || in[i].Type() != is {
		return js.Value{}, fmt.Errorf("a %s is missing among the arguments", is)
	}
	return in[i], nil
}

func textOf(in []js.Value, i int) (string, error) {
	v, err := typed(in, i, js.TypeString)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}

func numberOf(in []js.Value, i int) (float64, error) {
	v, err := typed(in, i, js.TypeNumber)
	if err != nil {
		return 0, err
	}
	return v.Float(), nil
}

// wholeOf is a whole number of at most 53 bits.
func wholeOf(in []js.Value, i int) (int64, error) {
	x, err := numberOf(in, i)
	if err == nil && (x != math.Trunc(x) || math.Abs(x) >= 1<<53) {
		err = errors.New("a number among the arguments is not whole, or not exact")
	}
	return int64(x), err
}

// bytesOf copies a Uint8Array.
func bytesOf(in []js.Value, i int) ([]byte, error) {
	v, err := typed(in, i, js.TypeObject)
	if err != nil || !v.InstanceOf(js.Global().Get("Uint8Array")) {
		return nil, errors.New("a Uint8Array is missing among the arguments")
	}
	b := make([]byte, v.Length())
	js.CopyBytesToGo(b, v)
	return b, nil
}

func arrayOf(b []byte) js.Value {
	v := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(v, b)
	return v
}
