// Command pause holds a pod's namespaces while its containers come and go. It sleeps until it is told to stop, and
// buries what is left to it: with shareProcessNamespace it is process 1 of all the pod's containers.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	news := make(chan os.Signal, 16)
	signal.Notify(news, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for {
		bury()
		if <-news != syscall.SIGCHLD {
			return
		}
	}
}

func bury() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}
