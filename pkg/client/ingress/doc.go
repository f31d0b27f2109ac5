// Package ingress is the Go client of an ingress: the way into a deployment over HTTPS for devices that are no users of
// its broker. It carries what a device.Device makes and reads; a web page and a phone have the same calls in their own
// languages.
//
// Every method makes one request. Whoever has no reply to an enrolment asks the device for another request, which has
// the same wish, and saves the device before it is sent. Announcements and keys may be read again at any time. A report
// may be sent again as it is until it is taken or Refusal.Final says that it never will be.
//
// # What it does not do
//
// It verifies nothing: the device does. It keeps nothing, and knows no time at which a report is due.
package ingress
