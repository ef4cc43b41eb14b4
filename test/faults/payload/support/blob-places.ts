import { mkdtempSync } from 'node:fs';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgresBlobs } from 'nestjs-idempotency/postgres';
import type { StartOptions } from '../../../../lab/faults/lab.js';
import type { BlobSettings } from '../../../../lab/faults/worker/settings.js';
import { S3Gateway, startS3rver } from '../../../integration/blobs/support/s3-server.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { sharedDatabase } from '../../../support/postgres/use-postgres.js';
import { TcpRelay, type Link } from '../../../support/servers/tcp-relay.js';

export interface StoredBlob {
  readonly bytes: Buffer;
  replace(bytes: Buffer): Promise<unknown>;
  remove(): Promise<unknown>;
}

/** A blob store between which and the workers something can happen. */
export interface BlobPlace {
  readonly settings: BlobSettings;
  /** In which form it has bodies. */
  readonly form: Pick<StartOptions, 'secrets'> & { readonly compression?: boolean };
  /** Nothing gets through. */
  goDown(): unknown;
  /** Everything that is sent is taken, and nothing is said. Absent where that does not exist. */
  goMute?(): unknown;
  recover(): unknown;
  /** What it has, with no regard to faults. */
  blobs(): Promise<readonly StoredBlob[]>;
  stop(): Promise<unknown>;
}

export interface S3Place extends BlobPlace {
  readonly gateway: S3Gateway;
  recover(): void;
}

/** s3rver, whose bodies are encrypted. */
export async function s3Place(): Promise<S3Place> {
  const server = await startS3rver();
  const gateway = await S3Gateway.start(server.port);
  const paths = new Set<string>();
  const noted = (fault: 'none' | 'cut' | 'stall') => () => {
    for (const { method, url } of gateway.seen) {
      if (method === 'PUT') paths.add(new URL(url, gateway.url).pathname);
    }
    gateway.follow(() => fault);
  };
  const recover = noted('none');
  return {
    settings: { kind: 's3', endpoint: gateway.url },
    form: { secrets: { current: 'k1', known: ['k1'] } },
    gateway,
    goDown: noted('cut'),
    goMute: noted('stall'),
    recover,
    async blobs() {
      recover();
      const found = [...paths].map(async (path) => {
        const url = `http://127.0.0.1:${server.port}${path}`;
        const response = await fetch(url);
        if (!response.ok) return [];
        const bytes = Buffer.from(await response.arrayBuffer());
        return [
          {
            bytes,
            replace: (body: Buffer) => fetch(url, { method: 'PUT', body }),
            remove: () => fetch(url, { method: 'DELETE' }),
          },
        ];
      });
      return (await Promise.all(found)).flat();
    },
    async stop() {
      await gateway.stop();
      await server.stop();
    },
  };
}

/** A folder, whose bodies are as they were sent. */
export function folderPlace(): BlobPlace & { readonly directory: string } {
  const directory = mkdtempSync(join(tmpdir(), 'idempotency-blobs-'));
  const away = `${directory}-away`;
  return {
    settings: { kind: 'file', directory },
    form: {},
    directory,
    goDown: () => rename(directory, away),
    recover: () => rename(away, directory).catch(() => undefined),
    async blobs() {
      const entries = await readdir(directory, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile());
      const found = await Promise.all(
        files.map(async ({ parentPath, name }) => {
          const path = join(parentPath, name);
          // A put renames its file, and a sweep deletes one.
          const bytes = await readFile(path).catch(() => undefined);
          if (bytes === undefined) return [];
          const replace = (body: Buffer) => writeFile(path, body);
          return [{ bytes, replace, remove: () => rm(path) }];
        }),
      );
      return found.flat();
    },
    stop: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Between workers and PostgreSQL. */
class Gate extends TcpRelay {
  private isOpen = true;

  set(isOpen: boolean): void {
    this.isOpen = isOpen;
    this.deliver();
    // Replies that were swallowed are not told again.
    this.cut();
  }

  protected override pass(link: Link): void {
    if (this.isOpen) super.pass(link);
    else link.breakBoth();
  }
}

/** A table of PostgreSQL, whose bodies are compressed. */
export async function tablePlace(): Promise<BlobPlace> {
  const url = await sharedDatabase();
  const blobs = postgresBlobs({ url });
  await blobs.migrate();
  await blobs.close();
  const pool = openPostgresPool(url);
  const relay = await Gate.start(Number(new URL(url).port));
  return {
    settings: { kind: 'postgres', url: relay.through(url) },
    form: { compression: true },
    goDown: () => relay.set(false),
    goMute: () => relay.swallowReplies(),
    recover: () => relay.set(true),
    async blobs() {
      const { rows } = await pool.query<{ name: string; bytes: Buffer }>(
        `SELECT name, string_agg(bytes, '' ORDER BY part) AS bytes FROM idempotency_blobs GROUP BY name`,
      );
      return rows.map(({ name, bytes }) => ({
        bytes,
        async replace(body) {
          await pool.query('DELETE FROM idempotency_blobs WHERE name = $1 AND part > 0', [name]);
          await pool.query('UPDATE idempotency_blobs SET bytes = $2 WHERE name = $1', [name, body]);
        },
        remove: () => pool.query('DELETE FROM idempotency_blobs WHERE name = $1', [name]),
      }));
    },
    async stop() {
      await relay.stop();
      await pool.end();
    },
  };
}
