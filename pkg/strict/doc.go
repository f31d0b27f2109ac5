// Package strict reads what people and other programs hand in as JSON, and takes nothing for granted. A value is read
// whole as it was meant, or refused with the line and the name of the field:
//
//   - a field is present, unless its tag says omitempty or omitzero: what a writer may leave out, a reader may miss;
//   - null is refused, but where a field is optional (it is then as good as absent) or of type any;
//   - a name occurs once in its object, in exactly the letters of the tag;
//   - a name that the type does not have is refused, or passed over if [Options] say so;
//   - a number fits its type: whole where the type is, not too large, and not too small to be told from 0;
//   - a list for an array has its length, text is UTF-8, and nothing follows the value.
//
// Errors quote names of fields and never a value. A type with an UnmarshalJSON of its own reads what is inside of it,
// and says what is wrong there.
//
// [Unmarshal] reads one value, [Rows] a table of one row a line; a further format of tables would yield the same rows.
// The grammar is that of github.com/go-json-experiment/json/jsontext, which is in the standard library from Go 1.27 on.
// What has passed is read by encoding/json, which by itself matches names in any case, takes the last of repeated ones,
// and leaves a value as it was for null.
package strict
