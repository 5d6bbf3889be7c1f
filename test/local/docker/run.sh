#!/bin/sh
# Runs a command in the files of an image, as `docker run --read-only --tmpfs /tmp -v <folder>:/data` does, within new namespaces
# (unshare). $1 is the root, $2 the folder of /data, $3 the user, $4 the working directory; then NAME=value … and the command.
# 192.0.2.7 is an address of the container, beside its loopback.
set -eu
root=$1 data=$2 user=$3 work=$4
shift 4
mount --make-rprivate /
echo '127.0.0.1 localhost' >"$root/etc/hosts"
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount --bind "$data" "$root/data"
mount -t proc proc "$root/proc"
mount -t tmpfs -o noexec,nosuid,nodev tmpfs "$root/tmp"
mount --bind /dev "$root/dev"
ip link set lo up
ip addr add 192.0.2.7/32 dev lo
exec env -i /usr/sbin/chroot --userspec="$user" "$root" /usr/bin/env --chdir="$work" "$@"
