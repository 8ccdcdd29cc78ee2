#!/bin/bash
# Fills containerd's folder with images: fill.sh CONFIG STORE ARCHIVE…, in separate mount and pid namespaces.
set -eu
config=$1 store=$2
shift 2
mount --make-rprivate /
mkdir -p "$store.lib/containerd"
mount --bind "$store" "$store.lib/containerd"
mount --rbind "$store.lib" /var/lib
mount -t tmpfs tmpfs /run
containerd --config "$config" > "$store.log" 2>&1 &
until ctr version > /dev/null 2>&1; do
  kill -0 $! 2> /dev/null || { tail -n 1 "$store.log" >&2; exit 1; }
  sleep 0.1
done
for archive in "$@"; do
  ctr --namespace k8s.io images import --snapshotter overlayfs "$archive" > /dev/null
done
kill $!
wait $! || true
sync -f /var/lib/containerd
