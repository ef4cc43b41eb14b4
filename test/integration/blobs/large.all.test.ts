import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { s3Blobs } from 'nestjs-idempotency/blobs/s3';
import { postgresBlobs } from 'nestjs-idempotency/postgres';
import type { BlobStore } from 'nestjs-idempotency/store';
import { blobStoreConformanceCases } from 'nestjs-idempotency/testing/store';
import { afterTest } from '../../support/jest/after-test.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { clientAt, S3Gateway, startS3rver } from './support/s3-server.js';

const postgres = usePostgres();
const s3rver = useServer(startS3rver);
const gateway = useServer(() => S3Gateway.start(s3rver.port));

const STORES: Readonly<Record<string, () => Promise<BlobStore>>> = {
  fileBlobs: async () => {
    const directory = mkdtempSync(join(tmpdir(), 'idempotency-blobs-'));
    afterTest(() => rm(directory, { recursive: true }));
    const store = fileBlobs({ directory });
    await store.open();
    return store;
  },
  s3Blobs: async () => s3Blobs({ client: clientAt(gateway.url), bucket: 'outcomes' }),
  postgresBlobs: async () => {
    const store = postgresBlobs({ url: await postgres.newDatabase() });
    await store.migrate();
    return store;
  },
};

describe.each(Object.entries(STORES))('%s', (_, create) => {
  const large = blobStoreConformanceCases.filter(({ isLarge }) => isLarge);

  it('is tested with a large blob', () => {
    expect(large).toHaveLength(1);
  });

  it.each(large)(
    '$name',
    async (each) => {
      const store = await create();
      afterTest(() => store.close());
      await each.run({ store });
    },
    180_000,
  );
});
