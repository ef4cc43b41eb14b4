import { randomUUID } from 'node:crypto';
import {
  IdempotencyRecords,
  IdempotencyService,
  type ActionResult,
  type AuditEntry,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
  type OperatorAction,
  type RecordSheet,
} from 'nestjs-idempotency';
import type { BeginReply, IdempotencyRecord, RecordKey } from 'nestjs-idempotency/store';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { FaultyStore, type Fault } from '../../support/stores/faulty-store.js';
import { SERVICE } from '../../support/stores/named-for.js';
import type { Place } from './places.js';
import { INSTANTS, type End, type Instant, type Step } from './steps.js';

const OPERATION = 'settle';
const ACTOR = 'mia';
const KEPT = new Error('kept');
const NOT_KEPT = new Error('not kept');
const KEEP = ({ error }: { readonly error?: unknown }) => error === undefined || error === KEPT;

/** How many times each action met each state and instant, and how it ended. */
export type Coverage = Map<string, number>;

/** Two processes on one store: one whose attempt the test stops at each instant, and one with an operator and retries. */
export class Encounters {
  private constructor(
    private readonly place: Place,
    private readonly held: HeldStore,
    private readonly clock: StandingClock,
    private readonly owner: CallingApp,
    private readonly desk: CallingApp,
    private readonly audit: AuditEntry[],
    readonly coverage: Coverage,
  ) {}

  static async open(place: Place): Promise<Encounters> {
    const clock = new StandingClock();
    const held = new HeldStore(place.store, clock);
    const audit: AuditEntry[] = [];
    const options: Partial<IdempotencyModuleOptions> = {
      service: SERVICE,
      operator: { audit: async (entry) => Promise.resolve(void audit.push(entry)) },
      ...(place.unitOfWork && { unitOfWork: place.unitOfWork }),
    };
    const owner = await callingApp({}, { ...options, store: held }, clock);
    const desk = await callingApp({}, { ...options, store: place.store });
    return new Encounters(place, held, clock, owner, desk, audit, new Map());
  }

  async close(): Promise<void> {
    await this.owner.nest.close();
    await this.desk.nest.close();
    await this.place.close();
  }

  /** @returns what is wrong with one of them, for each of a list. */
  async check(encounters: readonly (readonly Step[])[]): Promise<(string | undefined)[]> {
    const failures: (string | undefined)[] = [];
    for (const steps of encounters) failures.push(await this.failureOf(steps));
    return failures;
  }

  async failureOf(steps: readonly Step[]): Promise<string | undefined> {
    const { place, held, clock, owner, desk, audit, coverage } = this;
    for (const list of [owner.events, desk.events, audit]) list.length = 0;
    const encounter = new Encounter(place, held, clock, owner, desk, audit, coverage, steps);
    try {
      await encounter.run();
      return undefined;
    } catch (error) {
      if (!(error instanceof Objection)) throw error;
      return `${error.message}\n${encounter.story.join('\n')}`;
    } finally {
      await encounter.finish();
    }
  }
}

class Objection extends Error {}

/** Holds the commands of the attempt at the instants of {@link INSTANTS}. */
class HeldStore extends FaultyStore {
  private readonly underWay = new Set<Promise<unknown>>();

  override extend(...args: Parameters<FaultyStore['extend']>) {
    const extending = super.extend(...args);
    this.underWay.add(extending);
    void extending.catch(() => undefined).finally(() => this.underWay.delete(extending));
    return extending;
  }

  /** Until each heartbeat has its reply, and what follows from it has happened. */
  async settled(): Promise<void> {
    while (this.underWay.size > 0) await Promise.allSettled(this.underWay);
    await new Promise(setImmediate);
  }
}

/** The way of an attempt, which stops at each instant. */
class Walk {
  at: Instant = 'before begin';
  private arrive: () => void = () => undefined;
  private pass: () => void = () => undefined;
  isFree = false;

  async stop(at: Instant): Promise<void> {
    if (this.isFree) return;
    const passage = new Promise<void>((resolve) => {
      this.pass = resolve;
    });
    this.reach(at);
    await passage;
  }

  reach(at: Instant): void {
    this.at = at;
    this.arrive();
  }

  /** To the next instant, or to the end. */
  async go(start: () => void): Promise<void> {
    if (this.at === 'ended') return;
    const arrival = new Promise<void>((resolve) => {
      this.arrive = resolve;
    });
    if (this.at === 'before begin') start();
    else this.pass();
    await arrival;
  }
}

type Seen = IdempotencyRecord | undefined;

class Encounter {
  readonly story: string[] = [];
  private readonly key = randomUUID();
  private readonly walk = new Walk();
  private readonly records: IdempotencyRecords;
  private end: End = 'value';
  private isTransactional = false;
  private running: Promise<unknown> = Promise.resolve();
  private signal: AbortSignal | undefined;
  private recordKey: RecordKey | undefined;
  private sheet: RecordSheet | undefined;
  /** Of the attempt, once it has the record. */
  private fence: number | undefined;
  /** Whether the operator has taken the record from it while it was under way. */
  private robbed = false;
  /** Executions that the operator has ordered, or that follow from a lease that was over. */
  private allowed = 1;
  private readonly results: ActionResult[] = [];

  constructor(
    private readonly place: Place,
    private readonly held: HeldStore,
    private readonly clock: StandingClock,
    private readonly owner: CallingApp,
    private readonly desk: CallingApp,
    private readonly audit: readonly AuditEntry[],
    private readonly coverage: Coverage,
    private readonly steps: readonly Step[],
  ) {
    this.records = desk.nest.get(IdempotencyRecords, { strict: false });
  }

  async run(): Promise<void> {
    for (const step of this.steps) await this.take(step);
    while (this.walk.at !== 'ended') await this.go();
    await this.held.settled();
    await this.checkEffects();
    this.checkOwner();
    this.checkAudit();
    // What remains has one meaning: after a retry that returned, none runs.
    if ((await this.retry()) !== 'in progress') {
      const before = await this.effects();
      await this.retry();
      this.expect(await this.effects(), before, 'effects after a retry that had returned');
    }
    await this.checkEffects();
  }

  /** Also after an objection: nothing is left for the next encounter. */
  async finish(): Promise<void> {
    this.walk.isFree = true;
    while (this.walk.at !== 'before begin' && this.walk.at !== 'ended') await this.go();
    await this.running.catch(() => undefined);
    await this.held.settled();
    this.held.heal();
  }

  private async take(step: Step): Promise<void> {
    switch (step.kind) {
      case 'owner':
        this.end = step.end;
        this.isTransactional = step.isTransactional;
        return;
      case 'go':
        return this.go();
      case 'pass':
        await this.place.pass(step.ms);
        await this.clock.advance(step.ms);
        return this.held.settled();
      case 'pause':
        return this.place.pass(step.ms);
      case 'look':
        return this.look();
      case 'act':
        return this.act(step);
      case 'retry':
        await this.retry();
        return;
    }
  }

  private async go(): Promise<void> {
    if (this.walk.at === 'before begin') {
      // The attempt may run though another one has ended, or has left its lease.
      this.allowTakeover(await this.inspect());
    }
    await this.walk.go(() => {
      this.running = this.attempt();
      this.running.then(
        () => this.walk.reach('ended'),
        () => this.walk.reach('ended'),
      );
    });
    this.story.push(`attempt: ${this.walk.at}`);
  }

  /** The attempt, which stops at each instant. */
  private attempt(): Promise<unknown> {
    const { held, walk } = this;
    const beginning: Fault = async (execute) => {
      const reply = await execute();
      const { kind, fence } = reply as BeginReply & { readonly fence?: number };
      // After a pause the store's clock is ahead of what its process knows: it asks again.
      if (kind === 'late') {
        held.next('begin', beginning);
        return reply;
      }
      if (kind === 'acquired' || kind === 'takeover') this.fence = fence;
      await walk.stop('begun without its reply');
      return reply;
    };
    held.next('begin', beginning);
    const ending: Fault = async (execute) => {
      await walk.stop('its outcome is on the way');
      const reply = await execute();
      await walk.stop('its outcome is stored without the reply');
      return reply;
    };
    held.always(ending, 'complete', 'release');
    const service = this.owner.nest.get(IdempotencyService, { strict: false });
    return service.run(this.call(this.isTransactional), async ({ signal }) => {
      this.signal = signal;
      await walk.stop('before its effect');
      await this.place.effect(this.key, this.isTransactional);
      await walk.stop('after its effect');
      if (this.end !== 'value') throw this.end === 'error' ? NOT_KEPT : KEPT;
      return 'by the first attempt';
    });
  }

  private get named() {
    return { operation: OPERATION, key: this.key, scope: 'alice' };
  }

  private call(isTransactional: boolean) {
    const call = { ...this.named, outcome: KEEP };
    return isTransactional ? { ...call, transaction: true as const } : call;
  }

  private async look(): Promise<void> {
    const [sheet] = await this.records.find(this.named);
    if (sheet === undefined) return;
    this.sheet = sheet;
    this.recordKey = sheet.recordKey;
    this.story.push(
      `operator: sees ${sheet.expected.state}, fence ${String(sheet.expected.fence)}`,
    );
  }

  private async act(step: Extract<Step, { kind: 'act' }>): Promise<void> {
    if (this.sheet === undefined) await this.look();
    const { sheet } = this;
    if (sheet === undefined) return;
    const { action, isForced, nothingHappened, races } = step;
    const before = await this.inspect();
    const at = this.walk.at;
    const acting = this.records.act(action, sheet, {
      actor: ACTOR,
      reason: 'for the test',
      evenIfRunning: isForced,
      ...((action === 'release' || action === 'reopen') && { nothingHappened }),
      // Long enough that it is over only after a pause.
      ...(action === 'retain' && { retention: '5s' }),
    });
    if (races) await this.go();
    const result = await acting;
    const after = await this.inspect();
    this.results.push(result);
    const { kind } = result;
    this.story.push(
      `operator: ${action}${isForced ? ', forced' : ''}${races ? ', racing' : ''}: ${kind}; ${before?.state ?? 'absent'} -> ${after?.state ?? 'absent'}`,
    );
    const state = before?.state ?? 'absent';
    for (const covered of [`${action} ${state} ${kind}`, `${action} ${at}`, `${kind} ${at}`]) {
      this.coverage.set(covered, (this.coverage.get(covered) ?? 0) + 1);
    }
    const isDone = kind === 'ok';
    if (isDone && ORDERS.has(action)) this.allowed += 1;
    const isOwners = sheet.expected.fence === this.fence;
    if (isDone && TAKES.has(action) && isOwners && isUnderWay(at)) this.robbed = true;
    if (races) return;
    if (isDone) this.checkDone(action, before, after);
    else this.expect(after, before, `a record whose act was refused as ${kind}`);
    this.checkRefusal(step, sheet, before, kind);
  }

  private checkDone(action: OperatorAction, before: Seen, after: Seen): void {
    if (before === undefined) throw new Objection(`${action} was done to no record`);
    if (action === 'delete') {
      if (after !== undefined) throw new Objection('a deleted record is there');
      return;
    }
    const states = { release: 'released', reopen: 'released', complete: 'completed' } as const;
    const isKept = action === 'redact' || action === 'retain';
    this.expect(after?.state, isKept ? before.state : states[action], `the state after ${action}`);
    this.expect(after?.fence, before.fence + (isKept ? 0 : 1), `the fence after ${action}`);
    const { header: had = '' } = before.outcome ?? {};
    const { header: has = '' } = after?.outcome ?? {};
    if (action === 'retain') this.expect(has, had, 'the outcome after retain');
    if (action === 'redact' || action === 'complete') {
      this.expect(has, NO_RESPONSE, `the outcome after ${action}`);
    }
  }

  /** What must not have been done, and what must. */
  private checkRefusal(
    { action, isForced }: Extract<Step, { kind: 'act' }>,
    { expected }: RecordSheet,
    before: Seen,
    kind: ActionResult['kind'],
  ): void {
    const isAsSeen = before?.state === expected.state && before.fence === expected.fence;
    const isAllowed = ALLOWED[action].includes(expected.state);
    const isRunning = (before?.leaseLeftMs ?? 0) > 0;
    // The transaction has locked the row until its end.
    const isLocked =
      this.isTransactional && ['before its effect', 'after its effect'].includes(this.walk.at);
    const beganAt = expected.fence / 1_000;
    const isFresh = this.place.now() < Math.floor(beganAt) + 300_000 + 60_000;
    const wanted = !isAllowed
      ? 'not_applicable'
      : !isAsSeen
        ? 'changed'
        : isLocked || (isRunning && !isForced)
          ? 'running'
          : isFresh && !isForced && DROPS.has(action)
            ? 'too_fresh'
            : 'ok';
    this.expect(kind, wanted, `the result of ${action}`);
  }

  /** @returns whether the key was in progress. */
  private async retry(): Promise<'in progress' | 'returned'> {
    const before = await this.inspect();
    const isLocked =
      this.isTransactional && ['before its effect', 'after its effect'].includes(this.walk.at);
    const isInProgress = before?.state === 'in_progress';
    // A takeover would wait for the end of the transaction.
    if (isLocked && isInProgress && (before.leaseLeftMs ?? 0) <= 0) return 'in progress';
    const mayRun = this.allowTakeover(before);
    const was = await this.effects();
    const service = this.desk.nest.get(IdempotencyService, { strict: false });
    const how = await service
      .run(this.call(false), async () => {
        await this.place.effect(this.key, false);
        return 'by a retry';
      })
      .then(
        () => 'a value',
        (error: unknown) => (error as { code?: string }).code ?? String(error),
      );
    const ran = (await this.effects()) - was;
    this.story.push(`retry: ${how}, ran ${String(ran)} times`);
    this.expect(ran, mayRun ? 1 : 0, `executions by a retry of ${before?.state ?? 'no record'}`);
    return how === 'idempotency_in_progress' ? 'in progress' : 'returned';
  }

  /** @returns whether a request would run the operation. */
  private allowTakeover(before: Seen): boolean {
    switch (before?.state) {
      case undefined:
        // Before the first attempt, or after an order of the operator: an outcome that he kept for a moment, too.
        if (this.results.some(({ action, kind }) => action === 'retain' && kind === 'ok')) {
          this.allowed += 1;
        }
        return true;
      case 'released':
        // By an attempt that failed, or by the operator, whose order counts.
        if (this.end === 'error') this.allowed += 1;
        return true;
      case 'in_progress': {
        const isOver = (before.leaseLeftMs ?? 0) <= 0;
        if (isOver) this.allowed += 1;
        return isOver;
      }
      default:
        return false;
    }
  }

  private async checkEffects(): Promise<void> {
    const effects = await this.effects();
    if (effects > this.allowed) {
      throw new Objection(
        `${String(effects)} effects, of which ${String(this.allowed)} were ordered`,
      );
    }
  }

  /** An attempt that has lost its record while it was under way is told so, or its success stands. */
  private checkOwner(): void {
    if (!this.robbed) return;
    const told = this.owner.events.filter(tells).map(({ type }) => type);
    if (told.length === 0 && this.signal?.aborted !== true) {
      const types = this.owner.events.map(({ type }) => type).join(', ');
      throw new Objection(`the attempt lost its record in silence: ${types}`);
    }
    for (const type of new Set(told)) {
      this.coverage.set(`told ${type}`, (this.coverage.get(`told ${type}`) ?? 0) + 1);
    }
  }

  /** An intent and a result for each act, and its event. */
  private checkAudit(): void {
    const told = this.audit.map(({ phase, action, actor, result }) => [
      phase,
      action,
      actor,
      result,
    ]);
    const wanted = this.results.flatMap(({ action, kind }) => [
      ['intent', action, ACTOR, undefined],
      ['result', action, ACTOR, kind],
    ]);
    this.expect(told, wanted, 'the audit');
    const events = this.desk.events.filter(({ type }) => type === 'operator_action');
    this.expect(
      events.map((event) => 'action' in event && `${event.action} ${event.result}`),
      this.results.map(({ action, kind }) => `${action} ${kind}`),
      'the events',
    );
  }

  private effects(): Promise<number> {
    return this.place.effects(this.key);
  }

  private async inspect(): Promise<Seen> {
    if (this.recordKey === undefined) {
      const [sheet] = await this.records.find(this.named);
      if (sheet === undefined) return undefined;
      this.recordKey = sheet.recordKey;
    }
    return this.place.store.inspect(this.recordKey, { timeoutMs: 10_000 });
  }

  private expect(is: unknown, wanted: unknown, what: string): void {
    const [one, other] = [is, wanted].map((each) => JSON.stringify(each, bytesAsText));
    if (one !== other) {
      throw new Objection(`${what}: ${String(one)} in place of ${String(other)}`);
    }
  }
}

/** After these the operation runs again: each is an order for one more effect. */
const ORDERS: ReadonlySet<OperatorAction> = new Set(['release', 'reopen', 'delete']);
/** These take the record from an attempt that is under way. */
const TAKES: ReadonlySet<OperatorAction> = new Set(['release', 'complete']);
const DROPS: ReadonlySet<OperatorAction> = new Set(['reopen', 'delete']);
const NO_RESPONSE = '-';

const ALLOWED: Readonly<Record<OperatorAction, readonly string[]>> = {
  release: ['in_progress'],
  complete: ['in_progress', 'released'],
  reopen: ['completed', 'failed'],
  redact: ['completed', 'failed'],
  retain: ['completed', 'failed'],
  delete: ['completed', 'failed', 'released'],
};

/** Its outcome is not stored yet. */
function isUnderWay(at: Instant): boolean {
  const index = INSTANTS.indexOf(at);
  return index >= 1 && index <= INSTANTS.indexOf('its outcome is on the way');
}

function tells(event: IdempotencyEvent): boolean {
  switch (event.type) {
    case 'lease_lost':
    case 'superseded':
    case 'outcome_diverged':
    case 'record_lost':
    case 'release_failed':
    case 'rolled_back':
    case 'conflicted':
    case 'save_failed':
      return true;
    case 'completed':
      return event.late;
    default:
      return false;
  }
}

function bytesAsText(_: string, value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value;
}
