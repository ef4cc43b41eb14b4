import { describe, expect, it } from '@jest/globals';
import { requireIdempotencyTransaction } from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { Client } from 'pg';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Scenario } from '../../support/http/scenario.js';
import { formsOf, sendingController } from '../../support/http/sent-by-handlers.js';
import { startApp } from '../../support/http/start-app.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { adapterOf, type AdapterName } from '../../integration/transactions/adapters/index.js';

const adapters: readonly AdapterName[] = isTestAll
  ? ['pg', 'typeorm', 'prisma', 'kysely', 'drizzle', 'knex']
  : ['pg', 'typeorm', 'prisma'];
const CONNECTIONS = 5;

const targets = platforms.flatMap((platform) => adapters.map((adapter) => ({ platform, adapter })));
const server = usePostgres();

describe.each(targets)(
  'a response that a transactional handler sends itself on $platform with $adapter',
  ({ platform, adapter }) => {
    const bank = useServer(async () => {
      const url = await server.newDatabase();
      await migrate({ url });
      const observer = new Client(url);
      await observer.connect();
      await observer.query('CREATE TABLE effects (id text PRIMARY KEY)');
      const opened = await adapterOf(adapter).open(url, CONNECTIONS);
      const act = ({ key }: Scenario, execution: number) =>
        opened.insert(requireIdempotencyTransaction<never>(), `${key} ${execution}`);
      const app = await startApp({
        platform,
        store: postgresStore({ url }),
        controllers: [sendingController(platform, { transaction: true }, act)],
        options: { unitOfWork: opened.unitOfWork },
      });
      return {
        app,
        /** The executions that another connection sees. */
        async committed({ key }: Scenario): Promise<string[]> {
          const text = 'SELECT id FROM effects WHERE id LIKE $1 ORDER BY id';
          const { rows } = await observer.query(text, [`${key} %`]);
          return rows.map(({ id }) => String(id).split(' ')[1]!);
        },
        async close() {
          await app.close();
          await opened.close();
          await observer.end();
        },
      };
    });

    describe.each(formsOf(platform))('by %s', (form) => {
      const path = (end: string) => `/${encodeURIComponent(form)}/${end}`;

      it('arrives when its writes are committed', async () => {
        const scenario = bank.app.scenario();
        const first = await scenario.post(path('returns'));
        expect(await bank.committed(scenario)).toEqual(['1']);
        expect(first.status).toBeLessThan(400);
        expectReplay(await scenario.post(path('returns')), first);
        expect(scenario.executions).toBe(1);
      });

      it('never arrives if it throws after it', async () => {
        const scenario = bank.app.scenario();
        const first = await scenario.post(path('throws'));
        expect({ status: first.status, text: first.text }).toMatchObject({ status: 500 });
        expect(first.text).not.toContain('execution');
        expect(first.header('location') ?? first.header('x-own')).toBeUndefined();
        expect(await bank.committed(scenario)).toEqual([]);
        const second = await scenario.post(path('throws'));
        expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
        expect(await bank.committed(scenario)).toEqual(['2']);
        expectReplay(await scenario.post(path('throws')), second);
      });

      it('waits for what it awaits after it', async () => {
        const scenario = bank.app.scenario();
        scenario.gate.close();
        const pending = scenario.start('POST', path('awaits'));
        await scenario.started.reached(1);
        expectProblem(await scenario.post(path('awaits')), 'in-progress');
        expect(pending.receivedBytes).toBe(0);
        expect(await bank.committed(scenario)).toEqual([]);
        scenario.gate.open();
        const first = await pending.response;
        expect(await bank.committed(scenario)).toEqual(['1']);
        expect(first.status).toBeLessThan(400);
        expectReplay(await scenario.post(path('awaits')), first);
        expect(scenario.executions).toBe(1);
      });
    });
  },
);
