import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { postgresBlobs } from 'nestjs-idempotency/postgres';
import type { BlobSettings } from '../../faults/worker/settings.js';
import { askForLarge } from './ask.js';
import type { BodiesSettings } from './server.js';
import { startS3rver } from '../../../test/integration/blobs/support/s3-server.js';
import { platforms } from '../../../test/support/http/combinations.js';
import { bytesOf } from '../../../test/support/http/streamed-bodies.js';
import { afterTest } from '../../../test/support/jest/after-test.js';
import { usePostgres } from '../../../test/support/postgres/use-postgres.js';
import { Child } from '../../../test/support/processes/child.js';
import { useServer } from '../../../test/support/servers/use-server.js';

const MB = 1_000_000;
const LARGE = 200 * MB;
const WAYS = ['file', 'pipe', 'writes'];
const SERVER = new URL('server.ts', import.meta.url);

const postgres = usePostgres();
const s3rver = useServer(startS3rver);

const PLACES: Readonly<Record<string, (directory: string) => Promise<BlobSettings>>> = {
  fileBlobs: async (directory) => ({ kind: 'file', directory }),
  s3Blobs: async () => ({ kind: 's3', endpoint: `http://127.0.0.1:${s3rver.port}` }),
  postgresBlobs: async () => {
    const url = await postgres.newDatabase();
    const blobs = postgresBlobs({ url });
    await blobs.migrate();
    await blobs.close();
    return { kind: 'postgres', url };
  },
};

function digestOf(execution: number): string {
  const digest = createHash('sha256');
  for (const chunk of bytesOf(execution, LARGE)) digest.update(chunk);
  return digest.digest('hex');
}

async function start(place: string, platform: BodiesSettings['platform']) {
  const directory = mkdtempSync(join(tmpdir(), 'idempotency-blobs-'));
  afterTest(() => rm(directory, { recursive: true }));
  const server = await Child.start(SERVER, { env: { NODE_OPTIONS: '' } });
  afterTest(() => server.stop());
  const blobs = await PLACES[place]!(directory);
  const settings: BodiesSettings = { platform, blobs, bytes: LARGE, directory };
  const port = await server.call<number>('start', settings);
  return { server, send: (path: string) => askForLarge(port, path, path) };
}

describe.each(platforms)('On %s, bodies of 200 MB', (platform) => {
  it.each(Object.keys(PLACES))(
    'in %s are sent by each way, run once, and are replayed byte for byte',
    async (place) => {
      const { server, send } = await start(place, platform);
      for (const [before, way] of WAYS.entries()) {
        const whole = { status: 201, bytes: LARGE, digest: digestOf(before + 1) };
        expect(await send(way)).toEqual({ ...whole, isReplayed: false });
        expect(await send(way)).toEqual({ ...whole, isReplayed: true });
        expect(await server.call('executions')).toBe(before + 1);
      }
    },
    300_000,
  );
});

it.each(platforms)(
  'On %s, one first response of 200 MB and twenty replays at once take less than 200 MB of memory',
  async (platform) => {
    const { server, send } = await start('fileBlobs', platform);
    const before = await server.call<number>('startWatchingRss');
    const { digest } = await send('file');
    expect(digest).toBe(digestOf(1));
    const replays = await Promise.all(Array.from({ length: 20 }, () => send('file')));
    for (const each of replays) expect(each).toMatchObject({ isReplayed: true, digest });
    expect((await server.call<number>('highestRss')) - before).toBeLessThan(200 * MB);
  },
  300_000,
);
