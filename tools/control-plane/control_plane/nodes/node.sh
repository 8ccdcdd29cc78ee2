#!/bin/bash
# Process 1 of a node, in separate network, mount, pid, uts and ipc namespaces. When it dies, the kernel kills all other
# processes: a power cut. Usage: node.sh NAME NUMBER CGROUP FOLDER PROGRAMS, followed by the kubelet's options.
set -eu
name=$1 number=$2 cgroup=$3 folder=$4 programs=$5
shift 5

# Enter the cgroup first, by which a later run finds it. 0: the writing process.
while read -r _ where kind _; do
  [ "$kind" != cgroup ] || echo 0 > "$where/$cgroup/system/cgroup.procs"
done < /proc/self/mounts

hostname "$name"
mount --make-rprivate /
cd "$folder"
mkdir -p lib/kubelet lib/containerd lib/cni log/pods log/containers sysctl
# Hide the machine's own folders of these names.
mount --bind lib /var/lib
mount --make-rshared /var/lib
mount --bind log /var/log
mount -t tmpfs -o mode=755 tmpfs /run
# The kubelet sets these for the entire machine; here it writes to unused files.
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  [ -e "/proc/sys/$key" ] || continue
  cat "/proc/sys/$key" > "sysctl/${key//\//.}"
  mount --bind "sysctl/${key//\//.}" "/proc/sys/$key"
done

until grep -q eth0: /proc/net/dev; do sleep 0.05; done
ip link set lo up
ip address add "10.99.0.$((10 + number))/24" dev eth0
ip link set eth0 up
ip route add default via 10.99.0.1
echo 1 > /proc/sys/net/ipv4/ip_forward

set +e
containerd --config containerd.toml >> containerd.log 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.1; done
# Restart it when it ends, as a machine does: containerd answers before it is ready for a kubelet, which then exits.
(until "$programs/kubelet" --config=kubelet.json --kubeconfig=kubeconfig --hostname-override="$name" "$@" >> kubelet.log 2>&1; do sleep 1; done) &
"$programs/kube-proxy" --config=proxy.json --hostname-override="$name" >> proxy.log 2>&1 &
trap 'exit 0' TERM
while :; do wait; sleep 1; done # the shell reaps orphans
