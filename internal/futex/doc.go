// Package futex lets threads of several processes sleep on a word of memory they
// share. It is Linux's own system call and nothing around it; who sleeps and why
// is the caller's business.
package futex
