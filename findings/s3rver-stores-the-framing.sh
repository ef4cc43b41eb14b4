#!/usr/bin/env bash
# s3rver 3.7.1 with @aws-sdk/client-s3 3.1175.0 and @aws-sdk/lib-storage 3.1175.0, Node 20.20: the stand-in for S3 stores OTHER
# bytes than were sent, and answers every competitor of a conditional write that it won.
#
# The client computes a checksum by default. Of a stream it is known at the end only, so the body goes out in chunks with their
# sizes in between (aws-chunked) and the checksum behind it. s3rver takes the frame for content, and answers 200: the object begins
# with a size in hex and ends with the checksum. A string, and Upload of lib-storage (which reads a short stream first), are stored
# as they are; `requestChecksumCalculation: 'WHEN_REQUIRED'` helps the stream. `IfNoneMatch: '*'`, S3's "only if absent", is not
# looked at, nor is IfMatch: a lock that is right on S3 has eight winners of eight here, so a test against the stand-in never sees
# the 412. The readme lists the methods that it supports, with no word on conditions or on bodies in chunks.
#
# Seen:
#   string: stored "paid"
#   stream: stored "2\r\npa\r\n2\r\nid\r\n0\r\nx-amz-checksum-crc32:/Y6rOA==\r\n\r\n"
#   stream, WHEN_REQUIRED: stored "paid"
#   stream, Upload: stored "paid"
#   IfNoneMatch *: 8 winners of 8, stored "owner 7"
#   IfMatch of another ETag: fulfilled
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund s3rver@3.7.1 @aws-sdk/client-s3@3.1175.0 @aws-sdk/lib-storage@3.1175.0
cat >seen.mjs <<'JS'
import { Readable } from 'node:stream';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import S3rver from 's3rver';

const server = new S3rver({
  address: '127.0.0.1',
  port: 0,
  silent: true,
  directory: process.argv[2],
  configureBuckets: [{ name: 'bucket' }],
});
const { port } = await server.run();
const options = {
  endpoint: `http://127.0.0.1:${port}`,
  region: 'us-east-1',
  forcePathStyle: true,
  // The ones that s3rver's readme gives.
  credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
};
const client = new S3Client(options);
const sparing = new S3Client({ ...options, requestChecksumCalculation: 'WHEN_REQUIRED' });
const put = (by, Key, Body, more) => by.send(new PutObjectCommand({ Bucket: 'bucket', Key, Body, ...more }));
const stored = async (Key) => {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bucket', Key }));
  return `stored ${JSON.stringify(await Body.transformToString())}`;
};
const stream = () => Readable.from(['pa', 'id']);

await put(client, 'string', 'paid');
console.log(`string: ${await stored('string')}`);
await put(client, 'stream', stream(), { ContentLength: 4 });
console.log(`stream: ${await stored('stream')}`);
await put(sparing, 'sparing', stream(), { ContentLength: 4 });
console.log(`stream, WHEN_REQUIRED: ${await stored('sparing')}`);
await new Upload({ client, params: { Bucket: 'bucket', Key: 'upload', Body: stream() } }).done();
console.log(`stream, Upload: ${await stored('upload')}`);

let winners = 0;
for (let one = 0; one < 8; one += 1) {
  winners += await put(client, 'lock', `owner ${one}`, { IfNoneMatch: '*' }).then(() => 1, () => 0);
}
console.log(`IfNoneMatch *: ${winners} winners of 8, ${await stored('lock')}`);
const other = await put(client, 'lock', 'another', { IfMatch: '"another"' }).then(() => 'fulfilled', (error) => error.name);
console.log(`IfMatch of another ETag: ${other}`);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node --no-warnings seen.mjs "$dir/objects")
echo "as described"
