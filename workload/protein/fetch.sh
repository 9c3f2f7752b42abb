#!/bin/sh
# Fetches larger structures from packages of npm and Debian into a folder:
#
#   workload/protein/fetch.sh FOLDER
#
#   1ake 4ake 2por 1r6a 4UBB 1rb8 2f8v 1nmr   npm bio-pv 1.8.1
#   1A1F                                      Debian libball1.5-data
#   1hel 1dpx (129 residues)                  Debian r-cran-bio3d
#   4JSV (2,750 residues)                     Debian python3-pdbfixer
#
# It needs npm and, on Debian or Ubuntu, apt-get and dpkg-deb; no test needs it. The files are
# entries of the Protein Data Bank, whose data is in the public domain (CC0 1.0).
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
to=$(cd "$1" && pwd)
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
cd "$tmp"
npm pack --silent bio-pv@1.8.1 >/dev/null
tar xzf bio-pv-1.8.1.tgz
cp package/pdbs/*.pdb "$to"
apt-get download -qq libball1.5-data python3-pdbfixer r-cran-bio3d 2>/dev/null
for p in *.deb; do
	dpkg-deb -x "$p" debian
done
find debian -name 1A1F.pdb -o -name 4JSV.pdb -o -name 1hel.pdb -o -name 1dpx.pdb | while read -r f; do
	cp "$f" "$to"
done
for f in 1ake 4ake 2por 1r6a 4UBB 1rb8 2f8v 1nmr 1A1F 1hel 1dpx 4JSV; do
	[ -s "$to/$f.pdb" ] || { echo "$0: $f.pdb did not come" >&2; exit 1; }
done
ls "$to"
