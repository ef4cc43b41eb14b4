import { newProbeKey } from '../../core/record/record-key.js';
import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { RecordScan } from './record-scan.js';
import type { RedisLink, RequiredReplicas } from './link/redis-link.js';
import type { MismatchListener } from './link/reply-order.js';
import { LargeRecords } from './scripts/large-records.js';
import { scriptOf, type LuaScripts } from './scripts/lua-scripts.js';
import { inspectArguments } from './scripts/script-arguments.js';
import { ScriptSender, type ScriptForm } from './scripts/script-sender.js';
import { checkServer, START_CHECK_TIMEOUT_MS } from './diagnosis/start-checks.js';
import { checkRights } from './diagnosis/start-rights.js';
import { Subscriptions } from './subscriptions.js';

export interface SessionSettings {
  /** What precedes the record key in a key. */
  readonly keyStart: string;
  /** What precedes a staged record's name. */
  readonly stagedStart: string;
  readonly scripts: LuaScripts;
  /** In bytes: a longer record is large. */
  readonly largest: string;
  readonly push: boolean;
  readonly waitReplicas: RequiredReplicas | undefined;
  /** The key of the journal, if it is on. */
  readonly stream: string | undefined;
  readonly onMismatch: MismatchListener;
}

/** By a right that every user of the store has. */
const FORGET = scriptOf("redis.call('PEXPIREAT', KEYS[1], 1) return ARGV[1] .. ' ok'");

/** Everything that uses the links of a store, from open to close. */
export class RedisSession {
  readonly sender: ScriptSender;
  readonly scan: RecordScan;
  readonly subscriptions: Subscriptions | undefined;
  private readonly form: ScriptForm = { hasFlags: false };
  private replicated: ScriptSender | undefined;
  private isClosed = false;

  constructor(
    readonly link: RedisLink,
    readonly settings: SessionSettings,
  ) {
    const { push, scripts, keyStart } = settings;
    this.sender = this.senderOn(link);
    this.subscriptions = push ? new Subscriptions(link) : undefined;
    this.scan = new RecordScan(this.sender, scripts, keyStart);
  }

  /** For steps that `waitReplicas` protects. */
  durable(required: RequiredReplicas): ScriptSender {
    // A connection opened now would never be closed.
    if (this.isClosed) return this.replicated ?? this.sender;
    return (this.replicated ??= this.senderOn(this.link.wait(required)));
  }

  async check(): Promise<readonly StoreWarning[]> {
    const { sender, settings, form } = this;
    const { keyStart, push, waitReplicas, stream } = settings;
    const checked = checkServer(sender, waitReplicas?.count, stream !== undefined);
    // Connects before the first request.
    if (waitReplicas !== undefined) this.durable(waitReplicas);
    const { warnings, hasScriptFlags } = await checked;
    form.hasFlags = hasScriptFlags;
    if (warnings.some(({ isOutage }) => isOutage)) return warnings;
    const denied = await checkRights(sender, keyStart + newProbeKey(nodeClock), push, stream);
    return [...warnings, ...denied];
  }

  async forget(key: string): Promise<void> {
    const dueAt = nodeClock.now() + START_CHECK_TIMEOUT_MS;
    await this.sender.run(FORGET, [key], inspectArguments(), dueAt, () => undefined);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.subscriptions?.close();
    await Promise.all([this.link.close(), this.replicated?.link.close()]);
  }

  private senderOn(link: RedisLink): ScriptSender {
    const { scripts, stagedStart, largest, onMismatch } = this.settings;
    link.onState((event) => {
      if (event.kind === 'out_of_step') onMismatch(event.error);
    });
    const large = new LargeRecords(link, scripts, stagedStart, Number(largest));
    return new ScriptSender(link, this.form, scripts, large);
  }
}
