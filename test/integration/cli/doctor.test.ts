import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  evaluateClock,
  evaluateLatency,
  runDoctor,
  ServerAddress,
  type Finding,
} from '../../support/internals/cli.js';
import { blocksOf } from '../../support/docs/documented-blocks.js';
import { closeAfterTest } from '../../support/jest/after-test.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { projectRoot } from '../../support/project-root.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { freePort } from '../../support/servers/free-port.js';
import { userPool } from '../postgres/support/fixture.js';
import { as, diagnose } from './support/diagnosis.js';
import { runServices, TWO_SERVICES } from './support/run-services.js';

const PREFIX = 'idem-doctor';

const redis = useRedis();
const redisClient = useRedisClient(redis);
const postgres = usePostgres();

/** What the doctor prints for a reader, and its exit code. */
async function printed(...args: string[]) {
  let text = '';
  const code = await runDoctor(args, (part) => {
    text += part;
  });
  return { code, text };
}

describe('The doctor of Redis', () => {
  it('executes every check, and finds that the server of the tests is not durable', async () => {
    const { findings, complaints } = await diagnose('--redis', redis.url, '--key-prefix', PREFIX);
    expect(findings.map(({ check }) => check)).toEqual([
      ...['connection', 'version', 'role', 'eviction', 'memory', 'persistence', 'rights'],
      ...['steps', 'push', 'services', 'latency', 'clock'],
    ]);
    expect(complaints).toEqual({ persistence: 'warning' });
  });

  it('leaves no record', async () => {
    const before = new Set(await redisClient.keys('*'));
    await diagnose('--redis', redis.url, '--key-prefix', 'idem-left');
    const left = (await redisClient.keys('*')).filter((key) => !before.has(key));
    expect(left).toEqual([]);
  });

  it('prints what its page shows, a line for each check, and exits with 1 after a warning', async () => {
    await runServices(() => redisStore({ url: redis.url, keyPrefix: PREFIX }));
    const { code, text } = await printed('--redis', redis.url, '--key-prefix', PREFIX);
    expect(code).toBe(1);
    expect(text).toContain(TWO_SERVICES);
    const page = readFileSync(join(projectRoot, 'docs/operations/doctor.md'), 'utf8');
    const shown = blocksOf(page).find(({ language }) => language === 'text')?.text;
    // Port, memory and times are those of one run; a busy machine can fail the last two checks.
    const shapeOf = (lines = '') =>
      lines
        .replaceAll(/\d+(?:\.\d+)*/g, '0')
        .replaceAll(/^\w+ +(latency|clock) .*/gm, '$1')
        .replace(/^0 ok, 0 to look at, 0 wrong\.$/m, 'in all');
    expect(shapeOf(text)).toBe(shapeOf(shown));
  });

  it('reports a wrong password without it', async () => {
    const { code, text } = await printed('--redis', as(redis.url, 'mallory', 's3cr3t-word'));
    expect(code).toBe(1);
    expect(text).toMatch(/^error {4}start {9}.*WRONGPASS.* Check the user name and the password\./);
    expect(text).not.toContain('s3cr3t');
  });

  it('warns of a limit for the memory of connections that large outcomes exceed', async () => {
    const other = closeAfterTest(await startRedis({ args: ['--maxmemory-clients', '1mb'] }));
    const { findings } = await diagnose('--redis', other.url);
    expect(findings).toContainEqual({
      check: 'memory',
      verdict: 'warning',
      message: expect.stringContaining('maxmemory-clients is 1048576 (1.0 MiB).'),
    });
  });

  it.each(['redis', 'Redis', 'of', 'user', '1', 'pw', 'password'])(
    'keeps its own words where the password is %s',
    async (password) => {
      const url = as(redis.url, 'user', password);
      const { text } = await printed('--redis', url);
      expect(text).toMatch(/WRONGPASS invalid username-password pair or user is disabled/);
      expect(text).not.toContain('***');
    },
  );

  it.each(['s3cr3t word', 'p%w0rd', 'ä/ö?', "it's-me-1"])(
    'prints the password %j of the URL neither as it is nor encoded',
    async (password) => {
      const encoded = encodeURIComponent(password);
      const address = new ServerAddress(`redis://user:${encoded}@127.0.0.1`, 6379);
      const text = `ERR "${password}" is wrong: redis://user:${encoded}@127.0.0.1`;
      expect(address.redact(text)).toBe('ERR "***" is wrong: redis://user:***@127.0.0.1');
    },
  );

  it.each([
    ['redis://:of@h', 'ERR no user of "of"', 'ERR no user of "***"'],
    ['postgres://a@h/b?password=s3cr3t', 'password=s3cr3t of a', 'password=*** of a'],
    ['redis://[::1]:7000', 'no [::1]:7000', 'no [::1]:7000'],
  ])('hides of %s in %j what is a password', (url, text, hidden) => {
    const address = new ServerAddress(url, 6379);
    expect(address.redact(text)).toBe(hidden);
    if (url.includes('::1')) expect([address.host, address.shown]).toEqual(['::1', '[::1]:7000']);
  });
});

describe('The doctor of PostgreSQL', () => {
  it('executes every check, and finds that the server of the tests is not durable', async () => {
    const url = await postgres.newDatabase();
    await migrate({ url });
    const { findings, complaints } = await diagnose('--postgres', url);
    expect(findings.map(({ check }) => check)).toEqual([
      ...['connection', 'version', 'role', 'connections', 'durability', 'isolation', 'migrations'],
      ...['rights', 'steps', 'push', 'services', 'latency', 'clock', 'autovacuum', 'deletion'],
    ]);
    expect(complaints).toEqual({ durability: 'warning' });
  });

  it('lists the services', async () => {
    const url = await postgres.newDatabase();
    await migrate({ url });
    const listed = async () =>
      (await diagnose('--postgres', url)).findings.find(({ check }) => check === 'services');
    expect(await listed()).toMatchObject({
      message: 'No service has used this store within a week.',
    });
    await runServices(() => postgresStore({ url }));
    expect(await listed()).toEqual({
      check: 'services',
      verdict: 'ok',
      message: TWO_SERVICES,
    });
  });

  it('leaves no record', async () => {
    const url = await postgres.newDatabase();
    const pool = userPool(url);
    await migrate({ url });
    await diagnose('--postgres', url);
    const { rows } = await pool.query('SELECT n_tup_ins > 0 AS wrote FROM pg_stat_user_tables');
    expect(rows).toContainEqual({ wrote: true });
    expect((await pool.query('SELECT * FROM idempotency_records')).rows).toEqual([]);
  });

  it('names the command that creates the table', async () => {
    const { code, text } = await printed('--postgres', await postgres.newDatabase());
    expect(code).toBe(1);
    expect(text).toMatch(
      /^error {4}migrations {4}Migrations are missing for .* npx nestjs-idempotency migrate /m,
    );
  });

  it('reports a wrong password without it', async () => {
    const url = as(await postgres.newDatabase(), 'mallory', 's3cr3t-word');
    const { text } = await printed('--postgres', url);
    expect(text).toMatch(
      /^error {4}connection {4}password authentication failed for user "mallory"\. Check /,
    );
    expect(text).not.toContain('s3cr3t');
  });

  it.each(['sslrootcert', 'sslcert', 'sslkey'])(
    'reports in a sentence that the file of %s is missing',
    async (name) => {
      const url = `${await postgres.newDatabase()}?${name}=/nonexistent/x`;
      const { code, text } = await printed('--postgres', url);
      expect(code).toBe(1);
      expect(text).toMatch(/^error {4}connection {4}ENOENT: .*\. Check sslcert, sslkey and .*\.$/m);
    },
  );
});

it.each(['redis', 'postgres'])('The doctor reports that no %s listens', async (store) => {
  const url = `${store}://user:s3cr3t@127.0.0.1:${await freePort()}/0`;
  const { code, text } = await printed(`--${store}`, url);
  expect(code).toBe(1);
  expect(text).toMatch(/^error {4}connection {4}.*ECONNREFUSED/);
  expect(text).not.toContain('s3cr3t');
});

describe('The doctor rejects', () => {
  const URL_WITH_SECRET = 'redis://user:s3cr3t@127.0.0.1';

  it.each([
    [[], 'either --redis URL, --postgres URL or --mysql URL'],
    [['--redis', 'redis://x', '--postgres', 'postgres://x'], 'either --redis URL, --postgres'],
    [[URL_WITH_SECRET], 'either --redis URL, --postgres URL or --mysql URL'],
    [['--redis', 'http://user:s3cr3t@x'], '"url" must begin with redis:// or rediss://'],
    [['--postgres', URL_WITH_SECRET], '"url" must begin with postgres://'],
    [['--redis', `${URL_WITH_SECRET}/shop`], 'must be an integer from 0'],
    [['--redis', URL_WITH_SECRET, '--key-prefix', 'a b'], '"keyPrefix" must be 1 to 64 printable'],
    [['--postgres', 'postgres://x', '--table', ''], '"table" must be a string of 1 to 50 bytes'],
    [['--redis', 'redis://user:s3c#r3t@127.0.0.1'], 'Encode special characters'],
    [['--redis', 'redis://user:1/s3cr3t@127.0.0.1'], 'Encode special characters'],
    [['--redis', 'redis://user:1?s3cr3t@127.0.0.1'], 'Encode special characters'],
    [['--redis', 'redis://user:s3c%r3t@127.0.0.1'], 'a % that begins no code'],
    [['--redis', 's3cr3t'], 'Write it as postgres://user:password@host:port/database, or redis://'],
    [['--postgres', ''], 'Write it as postgres://'],
    [['--postgres', 'localhost:5432'], 'Write it as postgres://'],
    [['--postgres', 'user:s3cr3t@localhost:5432/shop'], 'Write it as postgres://'],
    [['--postgres', 'host=localhost port=5432 password=s3cr3t'], 'Write it as postgres://'],
    [['--postgres', 'postgres://user:s3cr3t@host:99999/shop'], 'The port must be a number'],
    [['--postgres', 'postgres://user:s3cr3t@host:abc/shop'], 'The port must be a number'],
    [['--redis', 'redis://[::1]:99999'], 'The port must be a number'],
    [['--postgres', 'postgres://user:s3cr3t@my host/shop'], 'The host contains a space'],
    [['--postgres', 'postgres://user:s3c/r3t@host:5432/shop'], 'Encode special characters'],
  ])('%j without repeating a password', async (args, reason) => {
    const failure = await printed(...args).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Error);
    expect((failure as Error).message).toContain(reason);
    expect((failure as Error).message).not.toMatch(/s3c/);
  });
});

describe('The latency', () => {
  it.each([
    [[1, 1, 1, 9], 'ok', 'median 1.00 ms, worst 9.00 ms'],
    [[1, 1, 1, 600], 'warning', 'commandTimeout (500 ms)'],
    [[11, 11, 11, 12], 'warning', 'same zone'],
  ] as const)('of %j ms is %s', (took, verdict, words) => {
    const finding = evaluateLatency(took);
    expect(finding).toMatchObject({ check: 'latency', verdict });
    expect(finding.message).toContain(words);
  });
});

describe('The clock', () => {
  /** The server's clock at each reply, of which one comes every 100 ms after 2 ms. */
  const judged = (...server: number[]): Finding['verdict'] =>
    evaluateClock(
      server.map((now, i) => {
        const before = i * 100;
        return { server: now, wall: 1_000_000 + before, before, after: before + 2 };
      }),
    ).verdict;

  it.each([
    ['in step', [1_000_001, 1_000_101, 1_000_201], 'ok'],
    ['a minute ahead', [1_060_001, 1_060_101, 1_060_201], 'warning'],
    ['a minute behind', [940_001, 940_101, 940_201], 'warning'],
    ['set back', [1_000_001, 1_000_101, 1_000_051], 'error'],
    ['stopped', [1_000_001, 1_000_001, 1_000_101], 'error'],
    ['set ahead', [1_000_001, 1_000_101, 1_000_901], 'error'],
  ])('%s', (_, server, verdict) => {
    expect(judged(...server)).toBe(verdict);
  });
});
