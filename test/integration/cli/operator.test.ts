import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import {
  IdempotencyService,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { postgresAudit, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import { abandon, recordOf } from '../../support/engine/abandon.js';
import { ServerFailure, sqlOf, UsageError } from '../../support/internals/cli.js';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { SERVICE } from '../../support/stores/named-for.js';
import { untilSettled } from '../../support/waiting/until.js';
import { userPool } from '../postgres/support/fixture.js';
import { as } from './support/diagnosis.js';
import { OperatorTerminal } from './support/operator-terminal.js';

const WHO = ['--actor', 'mia', '--reason', 'the provider has it'];
const SEEN = [`--record=${'A'.repeat(43)}`, '--expect', 'released:1', ...WHO];
const OF_ALICE = ['--service', SERVICE, '--scope', 'alice'];
/** Over before the next command can be there. */
const SHORT_LEASE_MS = 1;

const redis = useRedis();
const postgres = usePostgres();
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

interface Place {
  readonly url: string;
  readonly store: IdempotencyStore;
}

const PLACES: readonly (readonly [string, () => Promise<Place>])[] = [
  ['a Redis', () => Promise.resolve({ url: redis.url, store: redisStore({ url: redis.url }) })],
  [
    'a cluster',
    () => {
      const client = new Cluster(cluster.addresses);
      afterTest(() => client.disconnect());
      // Of any of its servers.
      return Promise.resolve({ url: cluster.nodes[1]!.url, store: redisStore({ client }) });
    },
  ],
  [
    'PostgreSQL',
    async () => {
      const url = await postgres.newDatabase();
      const store = postgresStore({ url });
      await store.migrate();
      return { url, store };
    },
  ],
];

/** An application, whose calls count their executions, and a terminal beside it. */
async function beside(
  { url, store }: Place,
  options: Partial<IdempotencyModuleOptions> = {},
  environment: Readonly<Record<string, string>> = {},
) {
  const { nest } = await callingApp({}, { store, ...options });
  afterTest(() => nest.close());
  const service = nest.get(IdempotencyService, { strict: false });
  const ran: string[] = [];
  const call = (key: string, scope: string | number = 'alice') =>
    service.run({ operation: 'settle', key, scope }, () => {
      ran.push(key);
      return Promise.resolve(`${key} is done`);
    });
  return { ran, call, terminal: new OperatorTerminal(url, environment) };
}

describe.each(PLACES)('On %s, an operator at a terminal', (_, open) => {
  it('finds an unknown outcome by its key alone, and settles it: no retry runs it', async () => {
    const place = await open();
    const { call, ran, terminal } = await beside(place);
    const dead = await abandon(place.store, 'settle', randomUUID(), SHORT_LEASE_MS);
    const find = () =>
      terminal.run('find', [...OF_ALICE, '--operation', 'settle', '--key', '-'], `${dead.key}\n`);
    await untilSettled(async () => (await find()).text.includes('ended'));
    const found = await find();
    expect(found).toMatchObject({ code: 0, notes: '' });
    expect(found.text).toContain('without an outcome');
    expect(found.text).not.toContain(dead.key);
    const [, ref = ''] = /to act +(.+)/.exec(found.text) ?? [];
    const completed = await terminal.run('complete', [...ref.split(' '), ...WHO]);
    expect(completed).toMatchObject({ code: 0, text: 'complete: ok. Done.\n' });
    expect(completed.notes.match(/"phase":"(intent|result)"/g)).toHaveLength(2);
    expect(completed.notes).not.toContain(dead.key);
    expect(await rejection(call(dead.key))).toMatchObject({
      code: 'idempotency_response_not_kept',
    });
    const again = await terminal.run('release', [...ref.split(' '), ...WHO, '--json']);
    expect(again.code).toBe(1);
    expect(again.objects()).toMatchObject([{ action: 'release', kind: 'changed' }]);
    expect(ran).toEqual([]);
  });

  it('completes it with the value that a retry gets, from the input', async () => {
    const place = await open();
    const { call, ran, terminal } = await beside(place);
    const { key, lease } = await abandon(place.store, 'settle', randomUUID(), SHORT_LEASE_MS);
    const complete = (...more: string[]) =>
      terminal.run(
        'complete',
        [
          `--record=${lease.recordKey}`,
          '--expect',
          `in_progress:${String(lease.fence)}`,
          ...WHO,
          ...more,
        ],
        JSON.stringify({ charge: 'of-alice' }),
      );
    expect((await rejection(complete('--value', '-'))).message).toContain('give "operation"');
    let shown = '';
    await untilSettled(async () => {
      const { code, text, notes } = await complete('--value', '-', '--operation', 'settle');
      shown += text + notes;
      return code === 0;
    });
    expect(shown).not.toContain('of-alice');
    expect(shown).toContain('"given":"value"');
    expect(await call(key)).toEqual({ charge: 'of-alice' });
    expect(ran).toEqual([]);
  });

  it('finds the key of an unknown caller by its tag, and lists the records of an operation', async () => {
    const secret = randomUUID();
    const annotate = { holder: 'pod-1', tags: { secret } };
    const environment = { IDEMPOTENCY_TAG_SECRETS: `${'n'.repeat(32)},${secret}` };
    const { call, terminal } = await beside(await open(), { annotate }, environment);
    const [key, other] = [randomUUID(), randomUUID()];
    await call(key);
    await call(other);
    const find = (...more: string[]) =>
      terminal.run('find', ['--service', SERVICE, '--key', '-', ...more], `${key}\n`);
    const found = await find();
    expect(found.code).toBe(0);
    expect(found.text).toMatch(/^ {2}operation settle$/m);
    expect(found.text).toMatch(/began .* ago in pod-1 and succeeded after /);
    expect(found.text).not.toContain(key);
    const [sheet, ...others] = (await find('--operation', 'settle', '--json')).objects();
    expect(others).toEqual([]);
    expect(sheet).toMatchObject({ operation: 'settle', holder: 'pod-1', earlier: [] });
    expect(await find('--operation', 'refund')).toMatchObject({ code: 1, text: '' });
    const list = (operation: string) => terminal.run('list', ['--operation', operation, '--json']);
    const listed = (await list('settle')).objects().map(({ recordKey }) => recordKey);
    expect(listed).toContain(sheet!.recordKey);
    expect((await list('sett')).text).toBe('');
    const without = new OperatorTerminal(terminal.storeUrl);
    const missed = await without.run('find', ['--service', SERVICE, '--key', key]);
    expect(missed).toMatchObject({ code: 1, text: '' });
    expect(missed.notes).toContain('IDEMPOTENCY_TAG_SECRETS');
  });

  it('lists what is abandoned, and releases it: one retry runs it', async () => {
    const place = await open();
    const { call, ran, terminal } = await beside(place);
    const dead = await abandon(place.store, 'settle', randomUUID(), SHORT_LEASE_MS);
    const { recordKey } = dead.lease;
    const mine = async () => {
      const { objects, code } = await terminal.run('list', [
        '--lease',
        'over',
        '--json',
        '--limit',
        '100000',
      ]);
      return code === 0 ? objects().find((each) => each.recordKey === recordKey) : undefined;
    };
    await untilSettled(async () => (await mine()) !== undefined);
    const { expected } = (await mine())!;
    const ref = [`--record=${recordKey}`, `--expect=${expected.state}:${String(expected.fence)}`];
    expect(await terminal.run('release', [...ref, ...WHO])).toMatchObject({ code: 0 });
    expect(await call(dead.key)).toBe(`${dead.key} is done`);
    await call(dead.key);
    expect(ran).toEqual([dead.key]);
    const shown = await terminal.run('show', [`--record=${recordKey}`]);
    expect(shown.text).toContain('Attempt 2 began');
  });

  it('reopens, redacts and deletes outcomes, and only what he has seen', async () => {
    const { call, ran, terminal } = await beside(await open());
    const key = randomUUID();
    const find = async () => {
      const { objects } = await terminal.run('find', [
        ...OF_ALICE,
        '--operation',
        'settle',
        '--key',
        key,
        '--json',
      ]);
      const [{ recordKey, expected }] = objects() as [ReturnType<typeof objects>[0]];
      return [`--record=${recordKey}`, `--expect=${expected.state}:${String(expected.fence)}`];
    };
    await call(key);
    const first = await find();
    // Its outcome was stored just now.
    expect((await terminal.run('reopen', [...first, ...WHO])).code).toBe(1);
    expect((await terminal.run('reopen', [...first, ...WHO, '--even-if-running'])).code).toBe(0);
    await call(key);
    expect((await terminal.run('redact', [...first, ...WHO])).text).toContain('redact: changed.');
    expect((await terminal.run('redact', [...(await find()), ...WHO])).code).toBe(0);
    expect(await rejection(call(key))).toMatchObject({ code: 'idempotency_response_not_kept' });
    const dropped = await terminal.run('delete', [...(await find()), ...WHO, '--even-if-running']);
    expect(dropped.code).toBe(0);
    await call(key);
    expect(ran).toEqual([key, key, key]);
  });

  it('leaves a running attempt its record, and takes it if told to', async () => {
    const place = await open();
    const { terminal } = await beside(place);
    const live = await abandon(place.store, 'settle');
    const { fence } = (await recordOf(place.store, live))!;
    const ref = [`--record=${live.lease.recordKey}`, `--expect=in_progress:${String(fence)}`];
    expect((await terminal.run('release', [...ref, ...WHO])).text).toContain('release: running.');
    expect(await recordOf(place.store, live)).toMatchObject({ state: 'in_progress', fence });
    expect((await terminal.run('release', [...ref, ...WHO, '--even-if-running'])).code).toBe(0);
  });
});

describe('A command for operators', () => {
  it('says what it looked up, where it finds nothing', async () => {
    const terminal = new OperatorTerminal(redis.url);
    const { code, text, notes } = await terminal.run('find', [...OF_ALICE, '--key', 'k-none']);
    expect([code, text]).toEqual([1, '']);
    expect(notes).toContain('--operation was not given');
    expect(notes).toContain('IDEMPOTENCY_DIGEST_KEYS is not set');
    expect(notes).not.toContain('k-none');
    expect((await terminal.run('show', [`--record=${'A'.repeat(43)}`])).code).toBe(1);
  });

  it('prints a table that stops at the limit, and says so', async () => {
    const url = await postgres.newDatabase();
    const store = postgresStore({ url });
    await store.migrate();
    const { call, terminal } = await beside({ url, store });
    for (const key of ['1', '2', '3']) await call(key);
    const { text, notes } = await terminal.run('list', ['--state', 'completed', '--limit', '2']);
    expect(text.split('\n').slice(0, -1)).toEqual([
      expect.stringMatching(
        /^RECORD {39}STATE {8}ATTEMPT {2}BEGAN {7}LEASE {11}KEPT FOR {4}OPERATION$/,
      ),
      ...Array<unknown>(2).fill(
        expect.stringMatching(/^[-\w]{43} {2}completed {4}1 +\d+ \w+ ago +- +\d+ \w+ +-$/),
      ),
    ]);
    expect(notes).toContain('more than 2');
    await terminal.run('list', ['--lease', 'over']);
    expect(terminal.progress).toContainEqual(expect.stringMatching(/^looked at \d+, found 0$/));
  });

  it.each<[Parameters<OperatorTerminal['run']>[0], string[], string]>([
    ['find', ['--key', 'secret-key'], 'Pass --service'],
    ['find', ['--service', 'shop'], 'Pass --key'],
    ['find', ['--service', 'shop', 'secret-key'], 'Pass a record as'],
    ['list', ['--state', 'done'], '--state must be in_progress or'],
    ['list', ['--limit', '0'], '--limit must be'],
    ['list', ['--redis', 'redis://h', '--postgres', 'postgres://h'], 'either --redis'],
    ['list', ['--redis', 'http://u:secret-key@h'], '--redis must begin'],
    ['list', ['--scope', 'alice', '--service', 'shop'], 'Set IDEMPOTENCY_DIGEST_KEYS'],
    ['erase', ['--scope', 'alice', '--service', 'shop'], 'Set IDEMPOTENCY_DIGEST_KEYS'],
    ['show', ['--record', 'secret-key'], '--record must be 43'],
    ['release', [`--record=${'A'.repeat(43)}`, ...WHO], 'Pass --expect'],
    [
      'release',
      [`--record=${'A'.repeat(43)}`, '--expect', 'secret-key', ...WHO],
      '--expect must be',
    ],
    [
      'delete',
      [`--record=${'A'.repeat(43)}`, '--expect', 'released:1', '--actor', 'mia'],
      'Pass --reason',
    ],
    [
      'retain',
      [`--record=${'A'.repeat(43)}`, '--expect', 'completed:1', ...WHO],
      'Pass --retention',
    ],
    ['complete', [...SEEN, '--value', '/nothing/secret-key'], '--value: the file cannot be read'],
    ['complete', [...SEEN, '--value', '-'], '--value: what was read is not JSON'],
    ['complete', [...SEEN, '--value', '-', '--answer', '-'], 'Pass either --value or'],
  ])('refuses %s %j, and shows none of it', async (command, args, message) => {
    const error = await rejection(new OperatorTerminal(redis.url).run(command, args));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('secret-key');
  });

  it.each(['AAAA', `${Buffer.alloc(32).toString('base64')},AAAA`])(
    'refuses digest keys that are none: %s',
    async (keys) => {
      const terminal = new OperatorTerminal(redis.url, { IDEMPOTENCY_DIGEST_KEYS: keys });
      const error = await rejection(terminal.run('list'));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(/^IDEMPOTENCY_DIGEST_KEYS: .* is not a key of 32 bytes/);
      expect(error.message).not.toContain('AAAA');
    },
  );

  it.each(['redis', 'postgres'])(
    'tells a %s server that does not reply from a record that is not there',
    async (scheme) => {
      const url = as(`${scheme}://127.0.0.1:${String(await freePort())}/0`, 'app', 's3cr3t-word');
      const error = await rejection(
        new OperatorTerminal(url).run('show', [`--record=${'A'.repeat(43)}`]),
      );
      expect(error).toBeInstanceOf(ServerFailure);
      expect(error).toMatchObject({ exitCode: 3 });
      expect(error.message).not.toContain('s3cr3t');
    },
  );
});

describe('The audit of acts at a terminal', () => {
  const client = useRedisClient(redis);

  /** An act on a record that was left behind. */
  async function act(auditUrl: string) {
    const store = redisStore({ url: redis.url });
    const dead = await abandon(store, 'settle');
    const { fence } = (await recordOf(store, dead))!;
    const { recordKey } = dead.lease;
    const ref = [`--record=${recordKey}`, `--expect=in_progress:${String(fence)}`];
    const terminal = new OperatorTerminal(redis.url, { IDEMPOTENCY_AUDIT_URL: auditUrl });
    afterTest(() => store.close());
    const state = async () => (await recordOf(store, dead))?.state;
    const acting = terminal.run('complete', [...ref, ...WHO, '--even-if-running']);
    return { acting, recordKey, state };
  }

  it.each(['redis', 'cluster'])('is a stream of Redis: %s', async (place) => {
    const url = place === 'redis' ? redis.url : cluster.nodes[0]!.url;
    const { acting, recordKey } = await act(url);
    expect(await acting).toMatchObject({ code: 0, notes: '' });
    const reader = place === 'redis' ? client : new Cluster(cluster.addresses);
    if (reader !== client) afterTest(() => reader.disconnect());
    const entries = await reader.xrange('idempotency:audit', '-', '+');
    const parsed = entries.map(([, [, entry = '']]) => JSON.parse(entry) as object);
    expect(parsed).toMatchObject([
      { phase: 'intent', action: 'complete', recordKey, actor: 'mia' },
      { phase: 'result', action: 'complete', recordKey, actor: 'mia', result: 'ok' },
    ]);
  });

  it('is a table of PostgreSQL, whose user may only insert', async () => {
    const url = await postgres.newDatabase();
    const pool = userPool(url);
    await pool.query(await sqlOf(['--audit']));
    const audit = postgresAudit({ url });
    expect(await audit.migrate()).toEqual([]);
    await audit.close();
    await pool.query(`CREATE ROLE clerk LOGIN PASSWORD 'clerk'`);
    await pool.query('GRANT INSERT ON idempotency_audit TO clerk');
    const { acting, recordKey } = await act(as(url, 'clerk', 'clerk'));
    expect(await acting).toMatchObject({ code: 0, notes: '' });
    const { rows } = await pool.query(
      `SELECT phase, action, record_key, actor, reason, entry ->> 'result' AS result FROM idempotency_audit ORDER BY noted_at`,
    );
    const [, actor, , reason] = WHO;
    const entry = { action: 'complete', record_key: recordKey, actor, reason };
    expect(rows).toEqual([
      { phase: 'intent', ...entry, result: null },
      { phase: 'result', ...entry, result: 'ok' },
    ]);
    const asked = await pool.query(documentedSql('FROM idempotency_audit', 'docs/guides/audit.md'));
    expect(asked.rows).toMatchObject([{ actor, reason, action: 'complete', result: 'ok' }]);
  });

  it('is required: nothing is done where there is no table', async () => {
    const { acting, state } = await act(await postgres.newDatabase());
    const error = await rejection(acting);
    expect(error).toMatchObject({ exitCode: 3 });
    expect(error.message).toContain('npx nestjs-idempotency migrate --audit --schema public');
    expect(error.message).toContain('[idempotency_audit_unavailable]');
    expect(await state()).toBe('in_progress');
  });

  it('is required: nothing is done where the server does not reply', async () => {
    const url = as(`redis://127.0.0.1:${String(await freePort())}`, 'app', 's3cr3t-word');
    const { acting, state } = await act(url);
    const error = await rejection(acting);
    expect(error).toMatchObject({ exitCode: 3 });
    expect(error.message).not.toContain('s3cr3t');
    expect(await state()).toBe('in_progress');
  });
});
