import type { BlobStore } from 'nestjs-idempotency/store';
import type { BlobSettings } from './settings.js';

/** Loads what the kind of blob store needs, and nothing else. */
export async function openBlobs(settings: BlobSettings): Promise<BlobStore> {
  switch (settings.kind) {
    case 'file': {
      const { fileBlobs } = await import('nestjs-idempotency/blobs/file');
      if (settings.mostBytes !== undefined) await limitFiles(settings.mostBytes);
      return fileBlobs({ directory: settings.directory });
    }
    case 'postgres': {
      const { postgresBlobs } = await import('nestjs-idempotency/postgres');
      return postgresBlobs({ url: settings.url, chunkBytes: 65_536 });
    }
    case 's3': {
      const { S3Client } = await import('@aws-sdk/client-s3');
      const { s3Blobs } = await import('nestjs-idempotency/blobs/s3');
      const client = new S3Client({
        endpoint: settings.endpoint,
        region: 'eu-central-1',
        forcePathStyle: true,
        credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
        maxAttempts: 1,
      });
      return s3Blobs({ client, bucket: 'outcomes' });
    }
  }
}

/** From now on the system refuses to let a file of this process grow beyond that. */
async function limitFiles(bytes: number): Promise<void> {
  const { execFileSync } = await import('node:child_process');
  // Without a listener, the signal ends the process.
  process.on('SIGXFSZ', () => undefined);
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}`]);
}
