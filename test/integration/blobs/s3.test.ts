import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { s3Blobs, type S3BlobsOptions } from 'nestjs-idempotency/blobs/s3';
import { BlobUnavailableError } from 'nestjs-idempotency/store';
import { describeBlobStoreConformance } from 'nestjs-idempotency/testing/store';
import { blocksOf } from '../../support/docs/documented-blocks.js';
import { projectRoot } from '../../support/project-root.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';
import { never, newName, put, sourceOf } from './support/blobs.js';
import { clientAt, S3Gateway, startS3rver } from './support/s3-server.js';

const MIB = 1024 * 1024;

const server = useServer(startS3rver);
const gateway = useServer(() => S3Gateway.start(server.port));

const clientOf = (config?: S3ClientConfig) => clientAt(gateway.url, config);

function storeOf(options: Partial<S3BlobsOptions> = {}) {
  return s3Blobs({ client: clientOf(), bucket: 'outcomes', ...options });
}

beforeEach(() => gateway.reset());

for (const ifNoneMatch of [true, false]) {
  describeBlobStoreConformance(
    { describe, it },
    {
      name: `s3Blobs with ifNoneMatch: ${String(ifNoneMatch)}`,
      create: () => ({ store: storeOf({ ifNoneMatch, partBytes: 5 * MIB }) }),
    },
  );
}

describe('s3Blobs', () => {
  const isPut = ({ method }: { method: string }) => method === 'PUT';
  const seenPuts = () => gateway.seen.filter(isPut);

  it('sends a small blob as one request with its checksum, and a large one in parts', async () => {
    const store = storeOf({ partBytes: 5 * MIB });
    const small = newName();
    await put(store, small, randomBytes(1_000));
    expect(gateway.seen).toHaveLength(1);
    expect(seenPuts()[0]).toMatchObject({
      url: `/outcomes/idem/${small}?x-id=PutObject`,
      headers: {
        'content-length': '1000',
        'if-none-match': '*',
        'x-amz-checksum-crc32': expect.any(String),
      },
    });
    gateway.follow(() => 'none');
    await put(store, newName(), randomBytes(11 * MIB));
    const sizes = seenPuts().map(({ headers }) => Number(headers['content-length']) / MIB);
    expect(sizes.sort()).toEqual([1, 5, 5]);
    expect(gateway.seen.at(-1)).toMatchObject({
      method: 'POST',
      headers: { 'if-none-match': '*' },
    });
  });

  it('takes no more of its source than the parts in flight, while the server stalls', async () => {
    const store = storeOf({ partBytes: 5 * MIB, partsInFlight: 2 });
    gateway.follow((request) => (isPut(request) ? 'stall' : 'none'));
    const source = sourceOf(randomBytes(40 * MIB));
    const ended = new AbortController();
    const putting = put(store, newName(), source, { signal: ended.signal });
    const rejected = expect(putting).rejects.toThrow('ended');
    await until(() => seenPuts().length === 2);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(source.pulled).toBeLessThan(11 * MIB);
    ended.abort(new Error('ended'));
    await rejected;
    expect(gateway.seen.at(-1)?.method).toBe('DELETE');
  });

  it('has deleted the parts of an upload that failed when it rejects', async () => {
    const store = storeOf({ partBytes: 5 * MIB });
    const failure = new Error('the handler failed');
    const source = sourceOf(randomBytes(12 * MIB), 'wait');
    const putting = put(store, newName(), source);
    const rejected = expect(putting).rejects.toBe(failure);
    await until(() => seenPuts().length === 2);
    source.destroy(failure);
    await rejected;
    expect(gateway.seen.at(-1)?.method).toBe('DELETE');
  });

  it('rejects a put whose part the server refuses, without sending the rest', async () => {
    const store = storeOf({ client: clientOf({ maxAttempts: 1 }), partBytes: 5 * MIB });
    const name = newName();
    gateway.follow((request) => (isPut(request) ? { status: 503, code: 'SlowDown' } : 'none'));
    const source = sourceOf(randomBytes(60 * MIB));
    await expect(put(store, name, source)).rejects.toThrow(
      's3Blobs: S3 did not do what was asked of it (SlowDown, status 503).',
    );
    expect(source.pulled).toBeLessThan(30 * MIB);
    expect(gateway.seen.at(-1)?.method).toBe('DELETE');
    gateway.reset();
    expect(await store.get(name, { signal: never })).toBeUndefined();
  });

  describe('a request whose response is lost', () => {
    /** Each first request of a kind. */
    const loseFirst = (isLost: (request: { method: string; url: string }) => boolean) => {
      let lost = 0;
      gateway.follow((request) =>
        isLost(request) && (lost += 1) === 1 ? 'lose the answer' : 'none',
      );
    };

    it('is sent again: the blob that it stored is its own', async () => {
      const store = storeOf();
      const [name, bytes] = [newName(), randomBytes(1_000)];
      loseFirst(isPut);
      await put(store, name, bytes);
      expect(gateway.seen.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'HEAD']);
      const stored = await store.get(name, { signal: never });
      expect((await buffer(stored!)).equals(bytes)).toBe(true);
    });

    it('is sent again at the end of an upload', async () => {
      const store = storeOf({ partBytes: 5 * MIB });
      const [name, bytes] = [newName(), randomBytes(6 * MIB)];
      loseFirst(({ method, url }) => method === 'POST' && url.includes('uploadId'));
      await put(store, name, bytes);
      const stored = await store.get(name, { signal: never });
      expect((await buffer(stored!)).equals(bytes)).toBe(true);
    });

    it('is no success if a blob of another length is there', async () => {
      const store = storeOf();
      const name = newName();
      await put(store, name, randomBytes(999));
      await expect(put(store, name, randomBytes(1_000))).rejects.toThrow(
        'PreconditionFailed, status 412',
      );
    });
  });

  describe('says of a read', () => {
    const impatient = () => storeOf({ client: clientOf({ maxAttempts: 1 }) });

    it.each([
      [{ status: 503, code: 'SlowDown' }],
      [{ status: 500, code: 'InternalError' }],
      [{ status: 404, code: 'NoSuchBucket' }],
      ['cut'],
      ['lose the answer'],
    ] as const)('that it does not know: %j', async (fault) => {
      const store = impatient();
      const name = newName();
      gateway.follow(() => fault);
      await expect(store.get(name, { signal: never })).rejects.toThrow(BlobUnavailableError);
      await expect(store.delete(name)).rejects.toThrow(BlobUnavailableError);
      await expect(put(store, name, randomBytes(10))).rejects.toThrow(BlobUnavailableError);
    });

    it('that there is none: 404', async () => {
      gateway.follow(() => ({ status: 404, code: 'NoSuchKey' }));
      expect(await impatient().get(newName(), { signal: never })).toBeUndefined();
    });

    it('which right is missing: 403', async () => {
      const store = impatient();
      gateway.follow(() => ({ status: 403, code: 'AccessDenied' }));
      await expect(store.get(newName(), { signal: never })).rejects.toThrow(
        's3Blobs: access to the bucket outcomes is denied. Grant s3:GetObject, and s3:ListBucket on the bucket, on the prefix.',
      );
      await expect(store.delete(newName())).rejects.toThrow('Grant s3:DeleteObject');
      await expect(put(store, newName(), randomBytes(10))).rejects.toThrow(
        'Grant s3:PutObject and s3:AbortMultipartUpload',
      );
    });

    it('that the credentials are refused', async () => {
      gateway.follow(() => ({ status: 403, code: 'SignatureDoesNotMatch' }));
      await expect(impatient().get(newName(), { signal: never })).rejects.toThrow(
        's3Blobs: S3 does not accept the credentials (SignatureDoesNotMatch).',
      );
    });

    it('that it broke off: its stream fails, and does not end', async () => {
      const store = impatient();
      const name = newName();
      await put(store, name, randomBytes(2 * MIB));
      gateway.follow(() => 'cut the answer');
      const stream = await store.get(name, { signal: never });
      await expect(buffer(stream!)).rejects.toThrow();
    });

    it('that its signal was aborted while the server stalled', async () => {
      gateway.follow(() => 'stall');
      const ended = new AbortController();
      const getting = impatient().get(newName(), { signal: ended.signal });
      const rejected = expect(getting).rejects.toThrow('ended');
      await until(() => gateway.seen.length === 1);
      ended.abort(new Error('ended'));
      await rejected;
    });
  });

  describe('at the start', () => {
    const page = readFileSync(join(projectRoot, 'docs/reference/blob-stores.md'), 'utf8');
    const documented = blocksOf(page).find(({ language }) => language === 'json');
    const { Rules: rules } = JSON.parse(documented?.text ?? '{}') as {
      Rules: { ID: string; Expiration?: { Days: number }; Filter: object; Status: string }[];
    };
    const codesAt = async (options: Partial<S3BlobsOptions> = {}) =>
      (await storeOf(options).open()).map(({ code }) => code);

    it('finds nothing to say with the documented rules, and leaves no object', async () => {
      gateway.configure({ lifecycle: rules });
      expect(await storeOf().open()).toEqual([]);
      const objects = gateway.seen.filter(({ url }) => url.includes('/probe/'));
      expect(objects.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'GET', 'DELETE', 'GET']);
    });

    it('warns of missing rules, those that are too short, and uploads that stay', async () => {
      expect(await codesAt()).toEqual(['blobs_lifecycle_missing', 'blobs_uploads_stay']);
      gateway.configure({ lifecycle: rules });
      expect(await codesAt({ prefix: 'other/' })).toEqual([
        'blobs_lifecycle_missing',
        'blobs_uploads_stay',
      ]);
      gateway.configure({ lifecycle: rules.filter(({ ID }) => ID !== 'idem-d7') });
      expect((await storeOf().open())[0]!.message).toContain('that expires idem/d7/:');
      const shortened = { ID: 'all', Filter: { Prefix: '' }, Status: 'Enabled' };
      gateway.configure({ lifecycle: [...rules, { ...shortened, Expiration: { Days: 30 } }] });
      expect((await storeOf().open())[0]!.message).toContain('expires idem/d30/, idem/d365/ too');
    });

    it('does not count a rule that is off, or is for some of the objects', async () => {
      gateway.configure({ lifecycle: rules.map((rule) => ({ ...rule, Status: 'Disabled' })) });
      expect(await codesAt()).toContain('blobs_lifecycle_missing');
      const tagged = rules.map((rule) => ({
        ...rule,
        Filter: { And: { ...rule.Filter, Tag: { Key: 'a', Value: 'b' } } },
      }));
      gateway.configure({ lifecycle: tagged });
      expect(await codesAt()).toContain('blobs_lifecycle_missing');
    });

    it('warns if it may not read the rules', async () => {
      gateway.configure({ lifecycle: 403 });
      expect(await codesAt()).toEqual(['blobs_lifecycle_not_checked']);
    });

    it.each(['ignores', 'refuses'])(
      'goes on without conditions if the server %s them',
      async (how) => {
        gateway.configure({ lifecycle: rules });
        if (how === 'ignores') gateway.configure({ isConditional: false, lifecycle: rules });
        else {
          gateway.follow(({ headers }) =>
            headers['if-none-match'] === undefined
              ? 'none'
              : { status: 501, code: 'NotImplemented' },
          );
        }
        const store = storeOf();
        expect((await store.open()).map(({ code }) => code)).toEqual(['blobs_not_conditional']);
        gateway.follow(() => 'none');
        await put(store, newName(), randomBytes(10));
        expect(seenPuts()[0]!.headers).not.toHaveProperty('if-none-match');
      },
    );

    it('stops if the bucket is missing, or a right', async () => {
      await expect(storeOf({ bucket: 'no-such-bucket' }).open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringContaining('NoSuchBucket'),
      });
      gateway.follow(({ method }) =>
        method === 'DELETE' ? { status: 403, code: 'AccessDenied' } : 'none',
      );
      await expect(storeOf().open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringContaining('s3:DeleteObject'),
      });
    });

    it('does not take a failure for the refusal that it expects', async () => {
      gateway.follow((request) =>
        isPut(request) && seenPuts().length === 2 ? { status: 500, code: 'InternalError' } : 'none',
      );
      const warnings = await storeOf({ client: clientOf({ maxAttempts: 1 }) }).open();
      expect(warnings).toMatchObject([{ code: 'blobs_unreachable' }]);
    });

    it('warns if it cannot reach the server', async () => {
      gateway.follow(() => 'cut');
      const warnings = await storeOf({ client: clientOf({ maxAttempts: 1 }) }).open();
      expect(warnings).toMatchObject([{ code: 'blobs_unreachable', isOutage: true }]);
    });

    it('does not know options that it has not, nor does without client and bucket', () => {
      expect(() => s3Blobs({ bucket: 'b' } as never)).toThrow('client and bucket are required');
      expect(() => storeOf({ client: {} as never })).toThrow('"client" must be an S3Client');
      expect(() => storeOf({ prefix: '/idem' })).toThrow('"prefix"');
      expect(() => storeOf({ partBytes: 1_000 })).toThrow('"partBytes"');
    });
  });
});
