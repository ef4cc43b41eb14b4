import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { IdempotencyHealth, staticKeys, type Finding, type SecretKeys } from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { memoryStore } from 'nestjs-idempotency/memory';
import { migrate, postgresBlobs } from 'nestjs-idempotency/postgres';
import { BlobStore } from 'nestjs-idempotency/store';
import { runDoctor } from '../../support/internals/cli.js';
import { nodeClock } from '../../support/internals/core.js';
import { OutcomeTransform } from '../../support/internals/payload.js';
import { blocksOf } from '../../support/docs/documented-blocks.js';
import { startApp } from '../../support/http/start-app.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { projectRoot } from '../../support/project-root.js';
import { useServer } from '../../support/servers/use-server.js';
import { S3Gateway, startS3rver } from '../blobs/support/s3-server.js';
import { as, diagnose } from './support/diagnosis.js';

const postgres = usePostgres();

async function all(findings: AsyncIterable<Finding>): Promise<Finding[]> {
  const found: Finding[] = [];
  for await (const finding of findings) found.push(finding);
  return found;
}

const checksIn = (findings: readonly Finding[]) =>
  findings.map(({ check, verdict }) => `${check} ${verdict}`);

describe('The doctor of fileBlobs', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'idempotency-doctor-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('writes, reads and deletes a blob, says what is free, and leaves nothing', async () => {
    const diagnosis = await diagnose('--blobs', pathToFileURL(directory).href);
    expect(checksIn(diagnosis.findings)).toEqual(['blobs ok', 'disk ok']);
    expect(diagnosis.messageOf('disk')).toMatch(/^\d+ of \d+ MiB \(\d+ %\) are free\.$/);
    expect(diagnosis.code).toBe(0);
    const left = await readdir(directory, { recursive: true, withFileTypes: true });
    expect(left.filter((each) => each.isFile())).toEqual([]);
  });

  it('finds that the folder is none, and goes on to nothing else', async () => {
    const file = join(directory, 'file');
    await writeFile(file, '');
    const diagnosis = await diagnose('--blobs', pathToFileURL(file).href);
    expect(checksIn(diagnosis.findings)).toEqual(['blobs error']);
    expect(diagnosis.messageOf('blobs')).toMatch(/^fileBlobs: mkdir failed with (EEXIST|ENOTDIR)/);
    expect(diagnosis.code).toBe(1);
    await chmod(file, 0o600);
  });
});

describe('The doctor of postgresBlobs', () => {
  it('checks the table, the rights and the index, besides those of the store', async () => {
    const url = await postgres.newDatabase();
    await migrate({ url });
    const blobs = postgresBlobs({ url });
    await blobs.migrate();
    await blobs.close();
    const { findings, complaints } = await diagnose('--postgres', url, '--blobs', url);
    expect(complaints).toEqual({ durability: 'warning' });
    const ofBlobs = checksIn(findings.slice(findings.findIndex(({ check }) => check === 'blobs')));
    expect(ofBlobs).toEqual(['blobs ok', 'role ok', 'durability warning', 'table ok', 'index ok']);
    const pool = openPostgresPool(url);
    afterTest(() => pool.end());
    const { rowCount } = await pool.query('SELECT 1 FROM idempotency_blobs');
    expect(rowCount).toBe(0);
    await pool.query('DROP INDEX idempotency_blobs_expires_at_idx');
    const again = await diagnose('--blobs', url);
    expect(again.complaints).toEqual({ durability: 'warning', index: 'warning' });
    expect(again.messageOf('index')).toContain(
      'CREATE INDEX ON "public"."idempotency_blobs" (expires_at)',
    );
  });

  it('finds a missing table, by its name, and missing rights', async () => {
    const url = await postgres.newDatabase();
    const missing = await diagnose('--blobs', url, '--blobs-table', 'statements');
    expect(missing.complaints).toEqual({ blobs: 'error' });
    expect(missing.messageOf('blobs')).toContain('--blobs --schema public --table statements');
    const blobs = postgresBlobs({ url });
    await blobs.migrate();
    await blobs.close();
    const pool = openPostgresPool(url);
    afterTest(() => pool.end());
    await pool.query(`CREATE ROLE blob_reader LOGIN PASSWORD 's3cr3t-word';
      GRANT SELECT ON idempotency_blobs, idempotency_blobs_migrations TO blob_reader`);
    afterTest(() => pool.query('DROP OWNED BY blob_reader; DROP ROLE blob_reader'));
    const poor = await diagnose('--blobs', as(url, 'blob_reader', 's3cr3t-word'));
    expect(poor.messageOf('blobs')).toContain('may not INSERT, UPDATE, DELETE on');
  });

  it('hides the password of its URL', async () => {
    const url = await postgres.newDatabase();
    const { findings } = await diagnose('--blobs', as(url, 'nobody-s3cr3t', 's3cr3t-word'));
    expect(checksIn(findings)).toEqual(['blobs error']);
    expect(JSON.stringify(findings)).not.toContain('s3cr3t-word');
  });
});

describe('The doctor of s3Blobs', () => {
  const server = useServer(startS3rver);
  const gateway = useServer(() => S3Gateway.start(server.port));
  const page = readFileSync(join(projectRoot, 'docs/reference/blob-stores.md'), 'utf8');
  const documented = blocksOf(page).find(({ language }) => language === 'json');
  const { Rules: rules } = JSON.parse(documented?.text ?? '{}') as { Rules: { ID: string }[] };

  const before = { ...process.env };
  beforeEach(() => {
    gateway.reset();
    Object.assign(process.env, {
      AWS_ENDPOINT_URL_S3: gateway.url,
      AWS_REGION: 'eu-central-1',
      AWS_ACCESS_KEY_ID: 'S3RVER',
      AWS_SECRET_ACCESS_KEY: 'S3RVER',
    });
  });
  afterEach(() => {
    process.env = { ...before };
  });

  it('takes bucket and prefix from the URL, and region and credentials from the environment', async () => {
    gateway.configure({ lifecycle: rules });
    const diagnosis = await diagnose('--blobs', 's3://outcomes/idem');
    expect(checksIn(diagnosis.findings)).toEqual(['blobs ok', 'lifecycle ok', 'conditions ok']);
    expect(diagnosis.messageOf('lifecycle')).toContain(
      'bucket outcomes expire each class below idem/',
    );
    expect((await diagnose('--blobs', 's3://outcomes')).complaints).toEqual({});
    const other = await diagnose('--blobs', 's3://outcomes/other/');
    expect(other.complaints).toEqual({ lifecycle: 'warning' });
    expect(other.messageOf('lifecycle')).toContain('other/d1/');
  });

  it('finds a class whose rule is missing or too short, and a server without conditions', async () => {
    gateway.configure({ lifecycle: rules.filter(({ ID }) => ID !== 'idem-d7') });
    const missing = await diagnose('--blobs', 's3://outcomes');
    expect(missing.complaints).toEqual({ lifecycle: 'warning' });
    expect(missing.messageOf('lifecycle')).toContain('that expires idem/d7/:');
    const shortened = { Filter: { Prefix: '' }, Status: 'Enabled', Expiration: { Days: 30 } };
    gateway.configure({ isConditional: false, lifecycle: [...rules, { ID: 'all', ...shortened }] });
    const { complaints } = await diagnose('--blobs', 's3://outcomes');
    expect(complaints).toEqual({ lifecycle: 'error', conditions: 'warning' });
  });

  it('finds a bucket that is not there', async () => {
    const { findings } = await diagnose('--blobs', 's3://nowhere');
    expect(checksIn(findings)).toEqual(['blobs error']);
  });
});

describe('A blob store of its own', () => {
  class Held extends BlobStore {
    readonly id = 'held';
    readonly calls: string[] = [];
    override open() {
      this.calls.push('open');
      return Promise.resolve([{ code: 'held_full', message: 'It is full.' }]);
    }
    put = () => Promise.resolve();
    get = () => Promise.resolve(Readable.from([]));
    delete = () => Promise.resolve();
    close() {
      this.calls.push('close');
      return Promise.resolve();
    }
  }

  it('has the findings of its start, and is closed', async () => {
    const store = new Held();
    expect(checksIn(await all(store.diagnose()))).toEqual(['blobs ok', 'configuration warning']);
    expect(store.calls).toEqual(['open', 'close']);
  });
});

describe('IdempotencyHealth.diagnose()', () => {
  async function diagnosisOf(secrets: SecretKeys) {
    const directory = await mkdtemp(join(tmpdir(), 'idempotency-doctor-'));
    const app = await startApp({
      platform: 'express',
      controllers: [],
      store: memoryStore(),
      options: { secrets, blobs: fileBlobs({ directory }) },
    });
    afterTest(async () => {
      await app.close();
      await rm(directory, { recursive: true });
    });
    return all(app.nest.get(IdempotencyHealth, { strict: false }).diagnose());
  }

  it('has the store, the ids of the keys and no key, and the blob store', async () => {
    const keys = Object.fromEntries(['2026-11', '2026-05'].map((id) => [id, randomBytes(32)]));
    const findings = await diagnosisOf(staticKeys({ current: '2026-11', keys }));
    const checks = findings.map(({ check }) => check);
    expect(checks.slice(-3)).toEqual(['keys', 'blobs', 'disk']);
    expect(checks).toContain('steps');
    expect(findings.find(({ check }) => check === 'keys')).toEqual({
      check: 'keys',
      verdict: 'ok',
      message: 'Encrypts with the key "2026-11". Decrypts with "2026-05", too.',
    });
    for (const key of Object.values(keys)) {
      expect(JSON.stringify(findings)).not.toContain(key.toString('base64').slice(0, 20));
    }
  });

  it('says of a single key that no other one decrypts', async () => {
    const findings = await diagnosisOf(
      staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } }),
    );
    expect(findings.find(({ check }) => check === 'keys')?.message).toBe(
      'Encrypts with the key "k1". No other key decrypts.',
    );
  });

  it.each([
    [new Error('secret of the KMS'), 'The keys of "secrets" cannot be loaded (Error)'],
    [{ current: 'k2', keys: new Map() }, 'secrets: "current" must be the id of one of the keys.'],
  ])('says that keys cannot be loaded, but not what their source says', async (loaded, message) => {
    const load = () => (loaded instanceof Error ? Promise.reject(loaded) : Promise.resolve(loaded));
    const [finding] = await all(new OutcomeTransform({ load }, nodeClock).diagnose());
    expect(finding).toMatchObject({ check: 'keys', verdict: 'error' });
    expect(finding!.message).toContain(message);
    expect(finding!.message).not.toContain('secret of');
  });
});

describe('The arguments of the doctor', () => {
  it.each([[[]], [['--blobs', 'nonsense']], [['--blobs', 'ftp://a/b']], [['--blobs', 's3://']]])(
    '%j are rejected',
    async (args) => {
      await expect(runDoctor(args, () => undefined)).rejects.toThrow(
        /^(Pass either|Write --blobs)/,
      );
    },
  );
});
