/** s3rver in a process of its own: port and folder are its arguments. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import S3rver from 's3rver';

const [port, directory] = process.argv.slice(2);
const server = new S3rver({
  address: '127.0.0.1',
  port: Number(port),
  directory,
  silent: true,
  allowMismatchedSignatures: true,
  configureBuckets: [{ name: 'outcomes' }],
});

/** It replies as soon as it has received the bytes, and writes the last of them later. */
function repliesWhenWritten(method, pathOf) {
  const { store } = server;
  const original = store[method].bind(store);
  store[method] = async (...args) => {
    const stored = await original(...args);
    while ((await stat(pathOf(...args))).size < stored.size) await delay(1);
    return stored;
  };
}
repliesWhenWritten('putObject', ({ bucket, key }) =>
  server.store.getResourcePath(bucket, key, 'object'),
);
repliesWhenWritten('putPart', (bucket, uploadId, part) =>
  join(server.store.getResourcePath(bucket, undefined, 'uploads'), uploadId, String(part)),
);

await server.run();
console.log('listening');
