package monitor

import "syscall"

// peer returns the user of the process at the other end of a socket.
func peer(fd int) (uid int, err error) {
	c, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
