import type { ExecutorKind, PostgresExecutor } from 'nestjs-idempotency/postgres';
import { Gate } from '../../../support/waiting/gate.js';
import { adapterOf, type AdapterName } from './index.js';

/** An executor, and the application around it. */
export interface ExecutorUnderTest {
  readonly name: AdapterName;
  readonly kind: ExecutorKind;
  readonly open: (url: string, connections: number) => Promise<OpenedExecutor>;
}

interface OpenedExecutor {
  readonly executor: PostgresExecutor;
  /** Takes one of its connections. @returns what gives it back. */
  readonly hold: () => Promise<() => Promise<unknown>>;
  readonly close: () => Promise<unknown>;
}

const KINDS = {
  pg: 'driver',
  typeorm: 'driver',
  prisma: 'statement',
  kysely: 'held',
  drizzle: 'driver',
  knex: 'driver',
} satisfies Partial<Record<AdapterName, ExecutorKind>>;

/** The libraries that have one. */
export const executorNames = Object.keys(KINDS) as (keyof typeof KINDS)[];

export const executors = executorNames.map((name): ExecutorUnderTest => ({
  name,
  kind: KINDS[name],
  async open(url, connections) {
    const opened = await adapterOf(name).open(url, connections);
    const { executor, unitOfWork } = opened;
    if (executor === undefined) throw new Error(`${name} has no executor`);
    const hold = async () => {
      const [taken, given] = [Gate.closed(), Gate.closed()];
      const options = { isolation: undefined, timeoutMs: 60_000 };
      const isDone = unitOfWork.run(options, () => {
        taken.open();
        return given.pass();
      });
      await Promise.race([taken.pass(), isDone]);
      return () => {
        given.open();
        return isDone;
      };
    };
    return { executor, hold, close: () => opened.close() };
  },
}));
