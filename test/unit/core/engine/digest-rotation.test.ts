import { describe, expect, it } from '@jest/globals';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import { protectedBy, received } from '../../../support/engine/digest-protection.js';
import { success, Worker } from '../../../support/engine/worker.js';
import { Schedule, schedules } from './support/interleavings.js';
import type { Decision, OperationRequest } from '../../../support/internals/core.js';
import { MemoryIdempotencyStore } from '../../../support/internals/memory.js';
import { isTestAll } from '../../../support/jest/test-all.js';
import { DelegatingStore, type RecordKey } from 'nestjs-idempotency/store';

type Order = readonly (number | 'none')[];

const OLD = 1;
const NEW = 2;
/** The two orders that serve side by side while the list is swapped. */
const READS_NEW: Order = [OLD, NEW];
const WRITES_NEW: Order = [NEW, OLD];

const LEASE_MS = 10_000;
const OPTIONS = { lease: { duration: LEASE_MS } };

/** What a process does wrong, for the sake of this test. */
type Mistake =
  'looks before it writes' | 'looks nowhere' | 'keeps its own record' | 'compares by one key';

/** Between a process and the store: each command waits for its turn. */
class TurnStore extends DelegatingStore {
  private early: ReturnType<DelegatingStore['inspect']> | undefined;

  constructor(
    store: MemoryIdempotencyStore,
    private readonly schedule: Schedule,
    private readonly name: string,
    private readonly other: RecordKey | undefined,
    private readonly mistake?: Mistake,
  ) {
    super(store);
  }

  override async begin(...args: Parameters<DelegatingStore['begin']>) {
    const { other } = this;
    if (this.mistake === 'looks before it writes' && other !== undefined) {
      await this.schedule.turn(this.name);
      this.early = super.inspect(other, args[0]);
    }
    await this.schedule.turn(this.name);
    return super.begin(...args);
  }

  override async inspect(...args: Parameters<DelegatingStore['inspect']>) {
    if (this.early !== undefined) return this.early;
    await this.schedule.turn(this.name);
    return super.inspect(...args);
  }

  override async release(...args: Parameters<DelegatingStore['release']>) {
    await this.schedule.turn(this.name);
    return this.mistake === 'keeps its own record'
      ? ({ kind: 'ok' } as const)
      : super.release(...args);
  }

  override async complete(...args: Parameters<DelegatingStore['complete']>) {
    await this.schedule.turn(this.name);
    return super.complete(...args);
  }
}

/** One store, and what has happened to the operation. */
class World {
  readonly clock = new StandingClock();
  readonly store = new MemoryIdempotencyStore({ now: () => this.clock.wallTime() });
  readonly effects: string[] = [];
  running = 0;

  constructor(readonly schedule: Schedule) {}

  process(name: string, order: Order, mistake?: Mistake): Process {
    return new Process(this, name, order, mistake);
  }

  /** Whoever comes last finds it as a single process would have left it. */
  async found(order: Order, content?: string): Promise<Decision> {
    const last = new Worker(this.store, {}, this.clock, undefined, protectedBy(order));
    return last.begin(
      last.engine.requestOf(received({ options: OPTIONS, ...(content && { content }) })),
    );
  }
}

class Process {
  readonly decisions: Decision[] = [];
  private readonly worker: Worker;
  private readonly request: OperationRequest;

  constructor(
    private readonly world: World,
    private readonly name: string,
    order: Order,
    mistake?: Mistake,
  ) {
    const protection = protectedBy(order);
    const { engine } = new Worker(world.store, {}, world.clock, undefined, protection);
    const { otherNames = [], ...request } = engine.requestOf(received({ options: OPTIONS }));
    const other = otherNames[0]?.recordKey;
    const store = new TurnStore(world.store, world.schedule, name, other, mistake);
    this.worker = new Worker(store, {}, world.clock, undefined, protection);
    const { fingerprint } = request;
    this.request =
      mistake === 'looks nowhere'
        ? request
        : mistake === 'compares by one key'
          ? { ...request, otherNames: otherNames.map((each) => ({ ...each, fingerprint })) }
          : { ...request, otherNames };
  }

  /** @param asks - after so many rejections, the client gives up. */
  async serve(asks = 1): Promise<void> {
    const { world, name } = this;
    let decision = await this.worker.begin(this.request);
    for (let rest = asks - 1; rest > 0 && decision.kind === 'reject'; rest -= 1) {
      await world.schedule.turn(name);
      decision = await this.worker.begin(this.request);
    }
    this.decisions.push(decision);
    if (decision.kind !== 'run') return;
    world.running += 1;
    expect(world.running).toBe(1);
    world.effects.push(name);
    // The operation takes as long as other processes need for a step.
    await world.schedule.turn(name);
    world.running -= 1;
    await decision.attempt.complete(success(name));
  }
}

/** What is in the store before, as a single process has left it. */
const PASTS: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  nothing: () => Promise.resolve(),
  'an outcome under the old name': (world) => left(world, [OLD], 'completed'),
  'an outcome under the new name': (world) => left(world, [NEW], 'completed'),
  'a released record under the old name': (world) => left(world, [OLD], 'released'),
  'an attempt in progress under the old name': (world) => left(world, [OLD], 'in progress'),
  'an attempt that died under the old name': (world) => left(world, [OLD], 'died'),
  'an attempt that died under the new name before it looked up the outcome': async (world) => {
    await left(world, [NEW], 'died');
    await left(world, [OLD], 'completed');
  },
};

async function left(
  world: World,
  order: Order,
  state: 'completed' | 'released' | 'in progress' | 'died',
): Promise<void> {
  const before = new Worker(world.store, {}, world.clock, undefined, protectedBy(order));
  const attempt = await before.run(before.engine.requestOf(received({ options: OPTIONS })));
  if (state === 'completed') {
    world.effects.push('before');
    await attempt.complete(success('before'));
  }
  if (state === 'released') await attempt.release();
  // Its heartbeat has stopped.
  if (state === 'died') world.clock.block(LEASE_MS + 1);
}

/** At most one effect, and the same outcome for all who come later, by whichever name. */
async function check(
  world: World,
  processes: readonly Process[],
  orders: readonly Order[],
  isHeld = false,
): Promise<void> {
  expect(world.effects.length).toBeLessThanOrEqual(1);
  const decisions = processes.flatMap((process) => process.decisions);
  expect(decisions).toHaveLength(processes.length);
  for (const decision of decisions) {
    if (decision.kind === 'reject') expect(decision.reason).toBe('in_progress');
    if (decision.kind === 'replay') expect(textOf(decision)).toBe(world.effects[0]);
  }
  if (isHeld) return;
  const [outcome] = world.effects;
  for (const order of orders) {
    const decision = await world.found(order);
    if (outcome !== undefined) {
      expect(textOf(decision)).toBe(outcome);
      expect(await world.found(order, 'other content')).toMatchObject({ reason: 'mismatch' });
    } else {
      // None has run, and none is in the way.
      expect(decision.kind).toBe('run');
      if (decision.kind === 'run') await decision.attempt.release();
    }
  }
}

const textOf = (decision: Decision) =>
  decision.kind === 'replay' ? Buffer.from(decision.outcome.body).toString() : decision.kind;

/** All orders of the steps of two processes. @returns how many there are. */
async function explored(
  past: string,
  orders: readonly Order[],
  mistake?: Mistake,
): Promise<number> {
  let count = 0;
  for (const schedule of schedules()) {
    const world = new World(schedule);
    await PASTS[past]!(world);
    const processes = orders.map((order, index) =>
      world.process(`process ${index}`, order, mistake),
    );
    await schedule.run(() => processes.map((each) => each.serve()));
    await check(world, processes, orders, past === 'an attempt in progress under the old name');
    count += 1;
  }
  return count;
}

describe('Two processes with digest keys in another order', () => {
  it.each(Object.keys(PASTS))(
    'run an operation once, in every order of their steps: after %s',
    async (past) => {
      expect(await explored(past, [READS_NEW, WRITES_NEW])).toBeGreaterThanOrEqual(5);
    },
    120_000,
  );

  it('run it once while protection is turned on, in every order of their steps', async () => {
    expect(
      await explored('nothing', [
        ['none', NEW],
        [NEW, 'none'],
      ]),
    ).toBeGreaterThan(50);
  }, 120_000);

  it.each([[[OLD], READS_NEW] as const, [WRITES_NEW, [NEW]] as const])(
    'run it once beside one that has the step before, or after: %j %j',
    async (...orders) => {
      expect(await explored('nothing', orders)).toBeGreaterThanOrEqual(5);
    },
    120_000,
  );

  it.each<[Mistake, string]>([
    ['looks before it writes', 'nothing'],
    ['looks nowhere', 'nothing'],
    ['keeps its own record', 'an outcome under the old name'],
    ['compares by one key', 'an outcome under the old name'],
  ])(
    'would fail this test if one %s',
    async (mistake, past) => {
      await expect(explored(past, [READS_NEW, WRITES_NEW], mistake)).rejects.toThrow();
    },
    120_000,
  );
});

const SEEDS = isTestAll ? 3_000 : 150;

/** Numbers from 0 up to 2^32, the same for a seed. */
function* random(seed: number): Generator<number, never> {
  for (let state = seed + 1; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state >>> 8;
  }
}

describe('Processes with three digest keys in any order', () => {
  const THREE: readonly Order[] = [
    [OLD, NEW, 'none'],
    [NEW, OLD, 'none'],
    ['none', NEW, OLD],
  ];

  it(`run an operation once, each with a client that asks again: ${SEEDS} random orders of the steps of four processes, one of which may die`, async () => {
    let effects = 0;
    for (let seed = 0; seed < SEEDS; seed += 1) {
      const numbers = random(seed);
      const pick = (count: number) => numbers.next().value % count;
      const choices = Array.from({ length: 400 }, () => pick(12));
      const world = new World(new Schedule(choices));
      const processes = Array.from({ length: 4 }, (_, index) =>
        world.process(`process ${index}`, THREE[pick(THREE.length)]!),
      );
      // One that died between its begin and its look-up, or its release.
      const dead = pick(2) === 0 ? undefined : THREE[pick(THREE.length)]!;
      if (dead !== undefined) await left(world, dead.slice(0, 1), 'died');
      await world.schedule.run(() => processes.map((each) => each.serve(12)));
      await check(world, processes, THREE);
      effects += world.effects.length;
    }
    // Hardly any client asks so often in vain.
    expect(effects).toBeGreaterThan(SEEDS * 0.98);
  }, 240_000);
});
