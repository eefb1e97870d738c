// Package category tells what each buffer of a PyTorch program is for: its category (parameter, gradient, activation
// ...), the phase that allocated it, and the module.
//
// Snapshots and traces do not record this. The evidence is, strongest first: what the program recorded (annotations,
// categories), call stacks, who frees a buffer and when, and sizes. Rules is the table of what follows from it. What no
// rule covers stays unknown.
package category
