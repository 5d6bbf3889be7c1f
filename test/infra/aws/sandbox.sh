#!/bin/sh
# sandbox.sh ROOT NODE CLIENT TASK CERTIFICATE COMMAND...
# The file system of a function on Lambda, in a mount namespace of its own (unshare --mount): everything read-only but /tmp, no
# /sys, no home, and a user that owns nothing. ROOT is an empty folder, which nothing outside the namespace sees filled.
set -e
root=$1 node=$2 client=$3 task=$4 certificate=$5
shift 5
mount -t tmpfs -o mode=755 none "$root"
cd "$root"
mkdir -p usr etc dev proc tmp var/task var/runtime var/lang/bin
: > var/lang/bin/node
: > var/lang/ca.pem
for place in bin sbin lib lib64; do
  if [ -L "/$place" ]; then cp -P "/$place" .; elif [ -d "/$place" ]; then mkdir "$place" && mount --bind "/$place" "$place"; fi
done
mount --bind /usr usr
mount --bind /etc etc
# As on Lambda the user has a name, and a home that is not there.
echo sbx_user1051:x:993:990::/home/sbx_user1051:/sbin/nologin > var/lang/passwd
mount --bind var/lang/passwd etc/passwd
mount --bind /dev dev
mount --rbind /proc proc
mount --bind "$client" var/runtime
mount --bind "$task" var/task
mount --bind "$node" var/lang/bin/node
mount --bind "$certificate" var/lang/ca.pem
mount -t tmpfs -o mode=1777,size=512m none tmp
for place in usr etc etc/passwd dev var/runtime var/task var/lang/bin/node var/lang/ca.pem .; do
  mount -o remount,bind,ro "$place"
done
exec chroot --userspec=993:990 --groups= . env --chdir=/var/task "$@"
