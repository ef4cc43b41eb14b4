import type { OwnRedisClient, ScriptArgument } from '../ioredis/client-types.js';
import type { ConnectionState } from '../ioredis/connection-state.js';
import { classifyFailure, isErrorReply, NotSentError } from '../ioredis/error-classification.js';
import type { LuaScript, LuaScripts } from './lua-scripts.js';
import { kindOf, largeReplyOf, type LargeReply, type ScriptReply } from './replies.js';
import { stagedRecord, type StagedRecord } from './script-arguments.js';
import type { ScriptLinks } from './script-links.js';
import { ScriptCommand, ScriptRunner, type ScriptForm } from './script-runner.js';
import type { Sending } from './send-until-deadline.js';

/**
 * Runs scripts on a connection that the store opened to one server. It stores and reads large records by SET and GET:
 * a script would copy the body several times. Both require two commands in order on one connection.
 */
export class LargeRecordRunner extends ScriptRunner {
  private canStage = true;

  constructor(
    readonly client: OwnRedisClient,
    links: ScriptLinks,
    watch: ConnectionState,
    form: ScriptForm,
    readonly scripts: LuaScripts,
  ) {
    super(links, watch, form);
  }

  /** Stages no further record after an error that every other would meet, as of a user who may not RENAME. */
  rejected(error: unknown): void {
    const failure = isErrorReply(error) ? classifyFailure(error) : undefined;
    if (failure === 'misconfigured' || failure === 'unknown') this.canStage = false;
  }

  protected override command(
    script: LuaScript,
    key: string,
    args: readonly ScriptArgument[],
    timeoutMs: number,
  ): ScriptCommand {
    const { scripts, links, form } = this;
    if (script === scripts.begin) return new LargeBegin(this, links, form, key, args);
    const { largestInScripts = Infinity } = scripts.begin.large ?? {};
    const isStaged = script === scripts.complete && this.canStage;
    const staged = isStaged ? stagedRecord(key, args, largestInScripts, timeoutMs) : undefined;
    return staged === undefined
      ? super.command(script, key, args, timeoutMs)
      : new LargeComplete(this, links, form, key, args, staged);
  }
}

/** Sends lua/begin.lua, and GET if the record is finished and large. */
class LargeBegin extends ScriptCommand {
  private found: LargeReply | undefined;

  constructor(
    private readonly runner: LargeRecordRunner,
    links: ScriptLinks,
    form: ScriptForm,
    key: string,
    args: readonly ScriptArgument[],
  ) {
    super(links, form, runner.scripts.begin.large ?? runner.scripts.begin, key, args);
  }

  override send(sending: Sending): Promise<unknown> | undefined {
    const { found } = this;
    return found === undefined ? super.send(sending) : this.read(found, sending);
  }

  continues(reply: ScriptReply): boolean {
    this.found = largeReplyOf(reply);
    return this.found !== undefined;
  }

  private async read([head, leftMs, [lines]]: LargeReply, sending: Sending): Promise<unknown> {
    const { runner, key } = this;
    this.link?.corkedWrites?.cork();
    const record = await runner.client.getBuffer(key);
    // A reply of GET has no nonce, but these lines name the attempt that owns the record.
    if (Buffer.isBuffer(record) && record.indexOf(lines) === 0) return [head, leftMs, record];
    if (!sending.isInFlight) throw new NotSentError();
    this.script = runner.scripts.begin;
    return this.sendByClient();
  }
}

/** Of the SET: whether the record is there, the script finds out. */
const IGNORED = { onReply: () => undefined, onError: () => undefined };

/** Sends SET of the finished record and lua/complete-large.lua together, and lua/complete.lua if that one cannot decide. */
class LargeComplete extends ScriptCommand {
  constructor(
    private readonly runner: LargeRecordRunner,
    links: ScriptLinks,
    form: ScriptForm,
    key: string,
    args: readonly ScriptArgument[],
    private staged: StagedRecord | undefined,
  ) {
    super(links, form, runner.scripts.complete, key, args);
  }

  override send(sending: Sending): Promise<unknown> | undefined {
    const { staged } = this;
    return staged === undefined ? super.send(sending) : this.stage(staged);
  }

  continues(reply: ScriptReply): boolean {
    if (this.staged === undefined || kindOf(reply) !== 'other') return false;
    this.staged = undefined;
    return true;
  }

  override sendAgain(failure: unknown): Promise<unknown> | undefined {
    const { staged } = this;
    if (staged === undefined) return super.sendAgain(failure);
    if (classifyFailure(failure) !== 'script_missing') return this.sendWithout(failure);
    const { client, scripts } = this.runner;
    return client
      .evalBuffer(scripts['complete-large'].text, 2, ...this.argumentsOf(staged))
      .catch((error: unknown) => this.sendWithout(error) ?? Promise.reject(error as Error));
  }

  private stage(staged: StagedRecord): Promise<unknown> {
    const { runner } = this;
    const { client, scripts } = runner;
    const args = this.argumentsOf(staged);
    const { corkedWrites, ownCommands } = this.link ?? {};
    const { key, parts, expiryMs } = staged;
    corkedWrites?.cork();
    if (ownCommands?.set(key, parts, expiryMs, IGNORED) !== true) {
      client.set(key, Buffer.concat(parts), 'PX', expiryMs).catch(() => undefined);
    }
    return client.evalshaBuffer(scripts['complete-large'].sha1, 2, ...args);
  }

  /** Undefined if the same commands again may succeed. */
  private sendWithout(failure: unknown): Promise<unknown> | undefined {
    if (!isErrorReply(failure) || classifyFailure(failure) === 'not_executed') return undefined;
    this.runner.rejected(failure);
    this.staged = undefined;
    return this.sendByClient();
  }

  private argumentsOf(staged: StagedRecord): readonly string[] {
    this.takeLink();
    return [this.key, staged.key, this.nonce, ...staged.args];
  }
}
