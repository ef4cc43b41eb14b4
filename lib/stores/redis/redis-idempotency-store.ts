import type { Lease, RecordKey } from '../../core/record/record.js';
import { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type * as Store from '../../core/record/commands.js';
import type { Finding, StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import { nodeClock } from '../../core/util/clock.js';
import { StoreUnavailableError, type ValueNotStorableError } from '../../core/errors/errors.js';
import { diagnoseRedis } from './diagnosis/diagnose-redis.js';
import { journalOnCluster } from './diagnosis/start-checks.js';
import type { PublishCommand, RedisLink } from './link/redis-link.js';
import { Journal } from './redis-journal.js';
import { RedisSession, type SessionSettings } from './redis-session.js';
import { resolveCommonOptions, type CommonOptions } from './redis-store-options.js';
import { LARGEST_IN_SCRIPTS, loadScripts, type LuaScripts } from './scripts/lua-scripts.js';
import {
  parseAmendReply,
  parseBeginReply,
  parseCompleteReply,
  parseExtendReply,
  parseInspectReply,
  missedEntry,
  parseReleaseReply,
  type ScriptReply,
} from './scripts/replies.js';
import {
  amendArguments,
  beginArguments,
  completeArguments,
  extendArguments,
  inspectArguments,
  releaseArguments,
  type ScriptArguments,
} from './scripts/script-arguments.js';

interface StoreOptions extends CommonOptions {
  /** The function that the user called. @defaultValue 'redisStore' */
  readonly factory?: string;
  readonly scripts?: LuaScripts;
  /** In bytes: a longer record goes by SET and GET. */
  readonly largestInScripts?: number;
}

/** With a link from the beginning; a new one if the store is opened again. */
export interface LinkedStoreOptions extends StoreOptions {
  readonly link: () => RedisLink;
}

/** Without one: opens one each time the store is opened. */
export interface ConnectingStoreOptions extends StoreOptions {
  readonly link?: undefined;
  readonly connect: (warned: (warning: StoreWarning) => boolean) => Promise<RedisLink>;
}

/** Version of the key's format. The record contains the version of its own format. */
const KEY_VERSION = '1';

/** In the place of that version in the names of staged records. */
const STAGED_VERSION = '2';

/** What precedes the record key in a key. */
function keyStartOf(keyPrefix: string): string {
  return `${keyPrefix}:${KEY_VERSION}:`;
}

/** Stores each record in one Redis key; each step is one script, in one round trip. Created by {@link redisStore} and its like for other clients. */
export class RedisIdempotencyStore extends IdempotencyStore {
  private readonly settings: SessionSettings;
  private readonly openings = new Openings();
  private readonly journal: Journal | undefined;
  private readonly connect: () => Promise<RedisSession>;
  /** Undefined until connected. After close, it rejects every command. */
  private session: RedisSession | undefined;
  private starting: Promise<RedisSession> | undefined;
  /** Calls of open() in progress. They return their warnings themselves. */
  private scanning = 0;
  private isClosed = false;

  /** @internal */
  constructor(options: LinkedStoreOptions | ConnectingStoreOptions) {
    super();
    const { factory = 'redisStore' } = options;
    const { keyPrefix, push, waitReplicas, journal } = resolveCommonOptions(options, factory);
    if (journal !== false) this.journal = new Journal(factory, `${keyPrefix}:journal`, journal);
    const { scripts = loadScripts(undefined, journal === false ? undefined : journal.maxLength) } =
      options;
    const { largestInScripts = LARGEST_IN_SCRIPTS } = options;
    this.settings = {
      keyStart: keyStartOf(keyPrefix),
      stagedStart: `${keyPrefix}:${STAGED_VERSION}:`,
      scripts,
      largest: String(largestInScripts),
      push,
      waitReplicas,
      stream: this.journal?.stream,
      onMismatch: (error) => this.openings.replyMismatched(error),
    };
    const { link } = options;
    if (link === undefined) {
      const { connect } = options;
      const isReported = (warning: StoreWarning) =>
        this.scanning > 0 || this.openings.warned(warning);
      this.connect = async () => new RedisSession(await connect(isReported), this.settings);
      return;
    }
    if (this.journal !== undefined && link().isCluster) throw journalOnCluster();
    this.connect = () => Promise.resolve(new RedisSession(link(), this.settings));
    // Records the errors of the connection from now on.
    this.session = new RedisSession(link(), this.settings);
    this.starting = Promise.resolve(this.session);
  }

  override get system(): string {
    return 'redis';
  }

  override get missedEntries(): number | undefined {
    return this.journal?.missed;
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.openings.add(observer);
    this.isClosed = false;
    this.scanning += 1;
    try {
      this.journal?.checkService(observer?.service);
      const session = await this.start();
      return await session.check();
    } catch (error) {
      await this.close(observer);
      throw error;
    } finally {
      this.scanning -= 1;
    }
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    const args = beginArguments(command, this.settings.largest);
    return this.run('begin', command.recordKey, args, command, parseBeginReply, true);
  }

  override extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    const args = extendArguments(lease, command);
    return this.run('extend', lease.recordKey, args, command, parseExtendReply);
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const args = completeArguments(lease, command, this.publishFor(command));
    return this.run('complete', lease.recordKey, args, command, parseCompleteReply, true);
  }

  override release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    const args = releaseArguments(lease, command, this.publishFor(command));
    return this.run('release', lease.recordKey, args, command, parseReleaseReply);
  }

  override inspect(
    recordKey: RecordKey,
    command: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return this.run('inspect', recordKey, inspectArguments(), command, parseInspectReply);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: Store.Watch,
  ): Promise<Store.StopWatching | undefined> {
    const { subscriptions } = this.session ?? (await this.start());
    return subscriptions?.watch(this.settings.keyStart + recordKey, onEnd, timeoutMs);
  }

  override async abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage> {
    const { scan } = this.session ?? (await this.start());
    return scan.abandoned(command);
  }

  override async list(command: Store.List): Promise<Store.RecordPage> {
    const { scan } = this.session ?? (await this.start());
    return scan.list(command);
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply> {
    const args = amendArguments(command, this.publishFor(command));
    return this.run('amend', command.recordKey, args, command, parseAmendReply, true);
  }

  override diagnose(): AsyncIterable<Finding> {
    return diagnoseRedis(this, async () => this.session ?? (await this.start()));
  }

  /** As `ForgettingStore`. @internal */
  async forget(recordKey: RecordKey): Promise<undefined> {
    await this.session?.forget(this.settings.keyStart + recordKey);
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (!this.openings.remove(observer)) return;
    const { starting } = this;
    this.isClosed = true;
    this.starting = undefined;
    const session = await starting?.catch(() => undefined);
    await session?.close();
  }

  private publishFor({ notify }: Pick<Store.Complete, 'notify'>): PublishCommand | undefined {
    const { session, settings } = this;
    return notify === true && settings.push
      ? (session?.link.publishCommand ?? 'PUBLISH')
      : undefined;
  }

  /** @param isDurable - a step that `waitReplicas` protects from a failover. */
  private run<Result>(
    step: keyof LuaScripts,
    recordKey: RecordKey,
    args: ScriptArguments | ValueNotStorableError,
    { timeoutMs }: { readonly timeoutMs: number },
    read: (reply: ScriptReply) => Result,
    isDurable = false,
  ): Promise<Result> {
    const { session, settings } = this;
    const { scripts, keyStart, waitReplicas } = settings;
    if (session === undefined) {
      return this.startAndRun(step, recordKey, args, { timeoutMs }, read, isDurable);
    }
    const sender =
      isDurable && waitReplicas !== undefined ? session.durable(waitReplicas) : session.sender;
    const dueAt = nodeClock.now() + timeoutMs;
    const key = keyStart + recordKey;
    const { journal } = this;
    const last = journal?.argumentOf(step, recordKey);
    if (journal === undefined || last === undefined || args instanceof Error) {
      return sender.run(scripts[step], [key], args, dueAt, read);
    }
    args.push(last);
    const reading = this.notingMissed(journal, recordKey, read);
    return sender.run(scripts[step], [key, journal.stream], args, dueAt, reading);
  }

  /** Apart: its closure would cost each command the context of the whole method. */
  private async startAndRun<Result>(
    step: keyof LuaScripts,
    recordKey: RecordKey,
    args: ScriptArguments | ValueNotStorableError,
    command: { readonly timeoutMs: number },
    read: (reply: ScriptReply) => Result,
    isDurable: boolean,
  ): Promise<Result> {
    await this.start();
    return this.run(step, recordKey, args, command, read, isDurable);
  }

  /** Likewise. */
  private notingMissed<Result>(
    journal: Journal,
    recordKey: RecordKey,
    read: (reply: ScriptReply) => Result,
  ): (reply: ScriptReply) => Result {
    return (reply) => {
      const reason = missedEntry(reply);
      if (reason !== undefined) this.entryMissed(journal, recordKey, reason);
      return read(reply);
    };
  }

  private entryMissed(journal: Journal, recordKey: RecordKey, reason: string): void {
    journal.missed += 1;
    if (this.openings.entryMissed(recordKey, reason) || journal.missed > 1) return;
    process.emitWarning(
      `The journal lacks an entry of record ${recordKey} (${reason}). Later ones are only counted (missedEntries).`,
      { type: 'IdempotencyWarning', code: 'IDEMPOTENCY_JOURNAL_INCOMPLETE' },
    );
  }

  /** Called by the first command: without Nest, a store is used without being opened. */
  private start(): Promise<RedisSession> {
    if (this.starting !== undefined) return this.starting;
    if (this.isClosed) {
      return Promise.reject(
        new StoreUnavailableError('Redis did not execute the command: the connection is closed'),
      );
    }
    const starting = this.connect();
    this.starting = starting;
    starting.then(
      (session) => {
        if (this.starting === starting) this.session = session;
      },
      () => {
        if (this.starting === starting) this.starting = undefined;
      },
    );
    return starting;
  }
}
