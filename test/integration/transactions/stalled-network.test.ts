import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { adapterOf } from './adapters/index.js';
import type { OpenedUnitOfWork } from './unit-of-work-suite.js';

const TIMEOUT_MS = 300_000;
const SHORT_TIMEOUT_MS = 300;
const LONG_WAIT_MS = 60_000;

describe.each(['pg', 'drizzle', 'typeorm'] as const)('%s, when BEGIN is not answered', (name) => {
  const server = usePostgres();
  let observer: Pool;
  let relay: TcpRelay;
  let opened: OpenedUnitOfWork<never>;

  beforeEach(async () => {
    const url = await server.newDatabase();
    observer = openPostgresPool(url);
    await observer.query('CREATE TABLE effects (id text PRIMARY KEY)');
    relay = await TcpRelay.start(server.port);
    opened = await adapterOf(name).open(relay.through(url), 1);
    await insert('before');
    relay.stallDetector();
  });
  afterEach(async () => {
    await opened.close();
    await relay.stop();
    await observer.end();
  });

  function insert(id: string, timeoutMs = TIMEOUT_MS): Promise<unknown> {
    return opened.unitOfWork.run({ isolation: 'serializable', timeoutMs }, ({ handle }) =>
      opened.insert(handle, id),
    );
  }

  async function expectTheNextToBeWritten(): Promise<void> {
    await insert('after');
    const { rows } = await observer.query('SELECT id FROM effects ORDER BY id');
    expect(rows).toEqual([{ id: 'after' }, { id: 'before' }]);
  }

  it('fails at the timeout, and frees its place in the pool', async () => {
    const error: unknown = await insert('lost', SHORT_TIMEOUT_MS).catch(
      (thrown: unknown) => thrown,
    );
    expect(root(error)).toMatchObject({
      message: `The database did not reply to BEGIN within ${SHORT_TIMEOUT_MS} ms.`,
    });
    await expectTheNextToBeWritten();
  });

  it('fails long before the timeout of a slow handler', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'Date'] });
    try {
      const failure = insert('lost').catch((thrown: unknown) => thrown);
      await until(() => relay.lost > 0);
      jest.advanceTimersByTime(LONG_WAIT_MS);
      expect(root(await failure)).toMatchObject({
        message: expect.stringContaining('did not reply to BEGIN'),
      });
    } finally {
      jest.useRealTimers();
    }
    await expectTheNextToBeWritten();
  });
});

/** Drizzle wraps the error of a statement. */
function root(error: unknown): unknown {
  return (error as Error).cause ?? error;
}
