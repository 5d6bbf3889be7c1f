#!/bin/sh
# Makes what stands for the public images: localhost/debian is a Debian as slim as debian:12-slim, localhost/node has Node and npm
# besides, as node:24-bookworm-slim. $1 is the folder of a Debian, made here once; $2 the Node; $3 npm; $4 a file of certificates
# that this machine's registry needs, or empty; the rest is buildah with its options.
set -eu
root=$1 node=$2 npm=$3 certificates=$4
shift 4

if [ ! -e "$root.made" ]; then
  rm -rf "$root"
  debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian
  # As the public image does, for what is there and for packages to come.
  for folder in doc locale man info i18n; do
    rm -rf "$root/usr/share/$folder/"*
    echo "path-exclude /usr/share/$folder/*" >>"$root/etc/dpkg/dpkg.cfg.d/docker"
  done
  rm -rf "$root/var/cache/apt/archives/"*.deb "$root/var/lib/apt/lists/"*
  touch "$root.made"
fi

container=$("$@" from scratch)
"$@" add -q "$container" "$root" /
"$@" config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
"$@" commit -q "$container" localhost/debian
"$@" copy -q "$container" "$node" /usr/local/bin/node
"$@" copy -q "$container" "$npm" /usr/local/lib/node_modules/npm
for name in npm npx; do
  "$@" run --isolation chroot "$container" -- ln -s "../lib/node_modules/npm/bin/$name-cli.js" "/usr/local/bin/$name"
done
if [ -n "$certificates" ]; then
  "$@" copy -q "$container" "$certificates" /etc/machine-certificates.pem
  "$@" config --env NODE_EXTRA_CA_CERTS=/etc/machine-certificates.pem "$container"
fi
"$@" commit -q --rm "$container" localhost/node
