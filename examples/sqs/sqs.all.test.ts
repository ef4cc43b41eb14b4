import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { IdempotencyService, requireIdempotencyContext } from 'nestjs-idempotency';
import { recordKey } from 'nestjs-idempotency/store';
import { FaultyStore, lostRequest, type Step } from '../../test/support/stores/faulty-store.js';
import { PromptStore } from '../../test/support/stores/prompt-store.js';
import { callingApp, type CallingApp } from '../../test/support/nest/calling-app.js';
import { InProcessSqs } from './in-process-sqs.js';
import { OrdersConsumer } from './orders-consumer.js';
import type { Sqs } from './sqs.js';

const MAX_RECEIVES = 4;
const VISIBILITY_MS = 30_000;
const STEPS: readonly Step[] = ['begin', 'extend', 'complete', 'release'];

/** The connection of one process to SQS, which can be cut. */
class Connection implements Sqs {
  isCut = false;

  constructor(private readonly sqs: InProcessSqs) {}

  receiveMessage(...input: Parameters<Sqs['receiveMessage']>): ReturnType<Sqs['receiveMessage']> {
    return this.isCut ? this.reject() : this.sqs.receiveMessage(...input);
  }

  changeMessageVisibility(...input: Parameters<Sqs['changeMessageVisibility']>): Promise<void> {
    return this.isCut ? this.reject() : this.sqs.changeMessageVisibility(...input);
  }

  deleteMessage(...input: Parameters<Sqs['deleteMessage']>): Promise<void> {
    return this.isCut ? this.reject() : this.sqs.deleteMessage(...input);
  }

  private reject(): Promise<never> {
    return Promise.reject(new Error('planned: cut'));
  }
}

/** A process with a consumer that polls once a second. */
class ConsumerProcess {
  private constructor(
    private readonly app: CallingApp,
    private readonly store: FaultyStore,
    private readonly connection: Connection,
    private readonly polls: NodeJS.Timeout,
  ) {}

  static async start(
    sqs: InProcessSqs,
    records: PromptStore,
    handle: (body: any, signal: AbortSignal) => Promise<void>,
  ): Promise<ConsumerProcess> {
    const store = new FaultyStore(records);
    const app = await callingApp(
      {},
      { store, storeErrors: { commandTimeout: '500ms', saveTimeout: '1s' } },
    );
    const service = app.nest.get(IdempotencyService, { strict: false });
    const connection = new Connection(sqs);
    const consumer = new OrdersConsumer(connection, sqs.url, service, handle);
    const polls = setInterval(() => {
      consumer.poll().catch(() => undefined);
    }, 1_000);
    return new ConsumerProcess(app, store, connection, polls);
  }

  /** Cuts the process off from SQS and from the store, or only fails the given steps of the store. */
  cut(...steps: Step[]): void {
    this.connection.isCut = steps.length === 0;
    this.store.always(lostRequest, ...(this.connection.isCut ? STEPS : steps));
  }

  heal(): void {
    this.connection.isCut = false;
    this.store.heal();
  }

  events(): string[] {
    return this.app.events.map(({ type }) => type);
  }

  async close(): Promise<void> {
    clearInterval(this.polls);
    const closing = this.app.nest.close();
    await jest.advanceTimersByTimeAsync(20_000);
    await closing;
  }
}

let sqs: InProcessSqs;
let records: PromptStore;
let processes: ConsumerProcess[];
/** The orders that were handled. */
let placed: string[];

beforeEach(() => {
  // Drives the timers and the clocks of the store and of SQS.
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  sqs = new InProcessSqs(() => Date.now(), MAX_RECEIVES);
  records = new PromptStore({ now: () => Date.now() });
  processes = [];
  placed = [];
});
afterEach(async () => {
  for (const each of processes) await each.close();
  jest.useRealTimers();
});

const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);
const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function consume(...handles: ((order: any, signal: AbortSignal) => Promise<void>)[]) {
  for (const handle of handles) processes.push(await ConsumerProcess.start(sqs, records, handle));
  return processes;
}

const place = async ({ order }: { order: string }) => {
  placed.push(order);
  return Promise.resolve();
};

describe('an SQS message', () => {
  it('is handled once, and deleted when its outcome is stored', async () => {
    const id = sqs.sendMessage({ order: 'a' });
    const request = { scope: ['orders-consumer'], operation: 'orders.place', key: id };
    const deleted = jest.spyOn(sqs, 'deleteMessage').mockImplementationOnce(async (input) => {
      expect(await records.inspect(recordKey(request))).toMatchObject({ state: 'completed' });
      return sqs.deleteMessage(input);
    });
    await consume(place, place);
    await pass(5_000);
    expect([placed, sqs.length, deleted.mock.calls.length]).toEqual([['a'], 0, 2]);
  });

  it('stays hidden for as long as a slow handler runs', async () => {
    const id = sqs.sendMessage({ order: 'slow' });
    const slowly = async (body: { order: string }) => {
      await after(10 * VISIBILITY_MS - 5_000);
      await place(body);
    };
    await consume(slowly, slowly);
    await pass(10 * VISIBILITY_MS - 10_000);
    expect([placed, sqs.receivesOf(id)]).toEqual([[], 1]);
    await pass(10_000);
    expect([placed, sqs.length]).toEqual([['slow'], 0]);
  });

  it('that is delivered twice is skipped while it is in progress elsewhere, and deleted when it reappears', async () => {
    const id = sqs.sendMessage({ order: 'twice' });
    const slowly = async (body: { order: string }) => {
      await after(10_000);
      await place(body);
    };
    const [one, two] = await consume(slowly, slowly);
    await pass(2_000);
    sqs.deliverAgain(id);
    await pass(2_000);
    expect(sqs.receivesOf(id)).toBe(2);
    expect([...one!.events(), ...two!.events()].sort()).toEqual(['acquired', 'rejected']);
    await pass(10_000);
    // Its first consumer has the handle of an earlier receive, which deletes nothing.
    expect([placed, sqs.length]).toEqual([['twice'], 1]);
    await pass(VISIBILITY_MS);
    expect([placed, sqs.length]).toEqual([['twice'], 0]);
    expect([...one!.events(), ...two!.events()]).toContain('replayed');
  });

  it('whose deletion is lost reappears, and is deleted without being handled again', async () => {
    sqs.sendMessage({ order: 'lost' });
    jest.spyOn(sqs, 'deleteMessage').mockRejectedValueOnce(new Error('planned: lost'));
    await consume(place);
    await pass(5_000);
    expect([placed, sqs.length]).toEqual([['lost'], 1]);
    await pass(VISIBILITY_MS);
    expect([placed, sqs.length]).toEqual([['lost'], 0]);
  });

  it('is taken over from a consumer that is cut off, whose signal is aborted', async () => {
    sqs.sendMessage({ order: 'cut' });
    const reasons: unknown[] = [];
    const attempts: unknown[] = [];
    const stuck = async (body: { order: string }, signal: AbortSignal) => {
      const { attempt, isTakeover } = requireIdempotencyContext();
      attempts.push({ attempt, isTakeover });
      if (attempt > 1) return place(body);
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
      });
      reasons.push(signal.reason);
      throw new Error('planned: stopped');
    };
    const [victim] = await consume(stuck);
    await pass(2_000);
    expect(attempts).toHaveLength(1);
    victim!.cut();
    await consume(stuck);
    await pass(2 * VISIBILITY_MS);
    expect(attempts).toEqual([
      { attempt: 1, isTakeover: false },
      { attempt: 2, isTakeover: true },
    ]);
    expect([placed, sqs.length, reasons]).toEqual([['cut'], 0, ['expired']]);
    victim!.heal();
    await pass(2 * VISIBILITY_MS);
    expect(placed).toEqual(['cut']);
  });

  it('that fails is handled again when it reappears, and ends in the dead-letter queue', async () => {
    const [flaky, broken] = ['flaky', 'broken'].map((order) => sqs.sendMessage({ order }));
    let failures = 0;
    await consume(async ({ order }: { order: string }) => {
      placed.push(order);
      if (order === 'broken' || failures++ < 2) throw new Error('planned');
      return Promise.resolve();
    });
    await pass(6 * VISIBILITY_MS);
    expect(placed.filter((order) => order === 'flaky')).toHaveLength(3);
    expect(placed.filter((order) => order === 'broken')).toHaveLength(MAX_RECEIVES);
    expect([sqs.deadLetters, sqs.length]).toEqual([[broken], 0]);
    expect(sqs.deadLetters).not.toContain(flaky);
  });

  it('is not deleted before its outcome is stored', async () => {
    sqs.sendMessage({ order: 'unsaved' });
    const [consumer] = await consume(place);
    consumer!.cut('complete');
    await pass(5_000);
    expect([placed, sqs.length]).toEqual([['unsaved'], 1]);
    consumer!.heal();
    await pass(VISIBILITY_MS);
    expect([placed, sqs.length]).toEqual([['unsaved'], 0]);
  });

  it('is neither handled nor deleted while the store is unavailable', async () => {
    const id = sqs.sendMessage({ order: 'later' });
    const [consumer] = await consume(place);
    consumer!.cut('begin');
    await pass(5_000);
    expect([placed, sqs.receivesOf(id)]).toEqual([[], 1]);
    consumer!.heal();
    await pass(VISIBILITY_MS);
    expect([placed, sqs.length]).toEqual([['later'], 0]);
  });
});
