module ebbtide.dev/tools/control-plane/pause

go 1.26
