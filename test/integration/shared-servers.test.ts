import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { afterTest } from '../support/jest/after-test.js';
import { isRunning } from '../support/processes/processes.js';
import { newDatabase } from '../support/postgres/new-database.js';
import { Keeper } from '../support/servers/shared/keeper.js';
import type { SharedKind, SharedServer } from '../support/servers/shared/kinds.js';
import { START_HOOK_MS } from '../support/servers/start-server.js';
import { until } from '../support/waiting/until.js';

const SET_UP = new URL('../support/servers/shared/set-up.mjs', import.meta.url).href;

/** Requests a server like a test file of `worker`. */
async function provide(kind: SharedKind, worker: string): Promise<SharedServer> {
  const response = await fetch(`${process.env.SHARED_SERVERS_URL!}/${kind}/${worker}`);
  return (await response.json()) as SharedServer;
}

function clientOf({ url }: SharedServer): Redis {
  const client = new Redis(url, { retryStrategy: () => null });
  afterTest(() => client.disconnect());
  return client;
}

async function pidOf(client: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1]);
}

describe('A server that test files share', () => {
  it(
    'is one for all concurrent requests, and another one for another worker',
    async () => {
      const [first, second, other] = await Promise.all(
        ['one', 'one', 'two'].map((worker) => provide('redis', worker)),
      );
      expect(second).toEqual(first);
      expect(other!.port).not.toBe(first!.port);
    },
    START_HOOK_MS,
  );

  it(
    'is an empty redis-server, without scripts and clients',
    async () => {
      const left = clientOf(await provide('redis', 'one'));
      const script = String(await left.script('LOAD', 'return 1'));
      await left.set('key', 'value');
      const found = clientOf(await provide('redis', 'one'));
      await until(() => left.status === 'end');
      expect(await found.dbsize()).toBe(0);
      expect(await found.script('EXISTS', script)).toEqual([0]);
      expect(await found.info('commandstats')).not.toContain('cmdstat_set:');
    },
    START_HOOK_MS,
  );

  it(
    'is a PostgreSQL without the databases, connections and roles of the previous file',
    async () => {
      // This file's own worker, whose server already runs.
      const worker = process.env.JEST_WORKER_ID!;
      const { url } = await provide('postgres-embedded', worker);
      const client = new Client(await newDatabase(url, { lock_timeout: '7s' }));
      client.on('error', () => undefined);
      const ended = new Promise((resolve) => client.once('end', resolve));
      await client.connect();
      expect((await client.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '7s' }]);
      await client.query('CREATE TABLE left_behind (); CREATE ROLE "left Behind" LOGIN');
      await client.query('GRANT ALL ON left_behind TO "left Behind"');
      expect(await provide('postgres-embedded', worker)).toMatchObject({ url });
      await ended;
      const found = new Client(url);
      await found.connect();
      afterTest(() => found.end());
      const databases = 'SELECT datname FROM pg_database ORDER BY datname';
      expect((await found.query(databases)).rows.map(({ datname }) => datname as string)).toEqual([
        'postgres',
        'template0',
        'template1',
      ]);
      const roles = `SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'`;
      expect((await found.query(roles)).rows).toEqual([{ rolname: 'postgres' }]);
    },
    START_HOOK_MS,
  );

  it(
    'is a new one after a file has killed it, and the log of the old one is printed',
    async () => {
      const printed = jest.spyOn(console, 'error').mockReturnValue(undefined);
      afterTest(() => printed.mockRestore());
      const keeper = new Keeper();
      afterTest(() => keeper.stop());
      const pid = await pidOf(clientOf(await keeper.provide('redis', 'one')));
      process.kill(pid, 'SIGKILL');
      await until(() => !isRunning(pid));
      expect(await pidOf(clientOf(await keeper.provide('redis', 'one')))).not.toBe(pid);
      expect(printed.mock.calls).toEqual([
        [expect.stringContaining('Ready to accept connections')],
      ]);
    },
    START_HOOK_MS,
  );

  it(
    'reports why it does not start, and is started again',
    async () => {
      const keeper = new Keeper();
      afterTest(() => keeper.stop());
      const program = process.env.REDIS_SERVER_BIN;
      process.env.REDIS_SERVER_BIN = '/bin/false';
      const asked = keeper.provide('redis', 'one');
      await expect(asked).rejects.toThrow('redis-server did not start: Error: it ended with code');
      if (program === undefined) delete process.env.REDIS_SERVER_BIN;
      else process.env.REDIS_SERVER_BIN = program;
      expect(await keeper.provide('redis', 'one')).toMatchObject({ port: expect.any(Number) });
    },
    START_HOOK_MS,
  );

  it(
    'ends with Jest, even after SIGKILL',
    async () => {
      const program = `
        import setUp from ${JSON.stringify(SET_UP)};
        await setUp();
        const server = await (await fetch(process.env.SHARED_SERVERS_URL + '/redis/one')).json();
        console.log(server.url);`;
      const runner = spawn(process.execPath, ['--input-type=module', '-e', program], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [url] = (await once(runner.stdout, 'data')) as [Buffer];
      const client = clientOf({ url: String(url).trim(), port: 0 });
      await client.ping();
      const gone = once(client, 'close');
      runner.kill('SIGKILL');
      await gone;
    },
    START_HOOK_MS,
  );
});
