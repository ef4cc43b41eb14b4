import { MAX_NOTE } from '../../../core/store/record-transitions.js';
import { nodeClock } from '../../../core/util/clock.js';
import type { RedisLink, ReplyReceiver } from '../link/redis-link.js';
import type { LinkFailure } from '../link/send-failure.js';
import type { LuaScript, LuaScripts } from './lua-scripts.js';
import type { Asked, Question } from './question.js';
import { kindOf, type LargeReply, type ScriptReply } from './replies.js';
import { LARGEST, type CompleteArguments, type ScriptArguments } from './script-arguments.js';

/** The key of a record, and others that its script has. */
export type RecordKeys = readonly [record: string, ...others: string[]];

/** A finished record before it replaces the one in progress. */
interface StagedRecord {
  readonly token: string;
  readonly parts: readonly Buffer[];
  /** Of lua/complete-large.lua, after the nonce. */
  readonly args: readonly string[];
}

/** More than the first two lines of most records have: saves the count for small ones. */
const LONGEST_START = 256;

/** As long as an instant in ms is until the year 2286. */
const NO_INSTANT = '0'.repeat(13);

/** What the script writes the note over, which only the record in progress has in full. */
const ROOM_FOR_NOTE = ` ${'\x7f'.repeat(MAX_NOTE)}`;

/**
 * Stores and reads large records by SET and GET: a script would copy the body several times. Both require two commands
 * in order on one connection.
 */
export class LargeRecords {
  private readonly script: LuaScript;
  private canStage = true;

  /**
   * @param stagedStart - what the names of staged records begin with: an ACL permits it as the keys of records.
   * @param largest - in bytes: a longer record is large.
   */
  constructor(
    private readonly link: RedisLink,
    scripts: LuaScripts,
    private readonly stagedStart: string,
    private readonly largest: number,
  ) {
    this.script = scripts['complete-large'];
  }

  /**
   * @param args - of lua/complete.lua.
   * @param dueAt - monotonic.
   * @returns undefined if that one stores the record.
   */
  staged(keys: RecordKeys, args: ScriptArguments, dueAt: number): Question | undefined {
    const { link, script, largest } = this;
    const record = this.canStage ? stagedRecord(args, keys.length > 1, largest) : undefined;
    if (record === undefined) return undefined;
    const [key, ...others] = keys;
    const name = stagedName(this.stagedStart, link.keyPrefix, key, record.token);
    if (name === undefined) return undefined;
    // Nothing is left of it then, if the process ends between both commands.
    const expiryMs = Math.max(1, Math.ceil(dueAt - nodeClock.now()));
    return new StagedComplete(link, script, [key, name, ...others], record, expiryMs, (failure) =>
      this.rejected(failure),
    );
  }

  /** Reads the record of which lua/begin.lua has replied the first two lines. */
  reading(key: string, found: LargeReply): Question {
    return new LargeRead(this.link, key, found);
  }

  /** Stages no further record after an error that every other would meet, as of a user who may not RENAME. */
  private rejected({ kind }: LinkFailure): void {
    if (kind === 'misconfigured' || kind === 'unknown') this.canStage = false;
  }
}

/**
 * The record that lua/complete.lua would write for a first attempt, with zeros for the instant of its expiry. With room
 * for a note if the command gives one: else for a record without a note.
 * @param args - of that script.
 * @param hasJournal - then the last of them is for the journal.
 * @returns undefined if it has at most `largest` bytes.
 */
function stagedRecord(
  args: ScriptArguments,
  hasJournal: boolean,
  largest: number,
): StagedRecord | undefined {
  // Before anything is made: nearly all are small.
  const { 5: header, 6: body } = args as CompleteArguments;
  if (header.length + body.length + LONGEST_START < largest) return undefined;
  const [, start, letter, retention, content, , , ...last] = args as CompleteArguments;
  const [, note] = hasJournal ? last.slice(0, -1) : last;
  const [fence = '', token = ''] = start.slice(2).split(' ');
  const [fingerprint = ''] = content.split(' ', 1);
  const head = Buffer.from(
    `2${letter}${fence} ${token} 1 0 ${fingerprint}${note === undefined ? '' : ROOM_FOR_NOTE}\n${NO_INSTANT}\n${header}\n`,
  );
  if (head.length + body.length <= largest) return undefined;
  const parts = [head, typeof body === 'string' ? Buffer.from(body) : body];
  return { token, parts, args: [retention, ...last] };
}

/**
 * A name in the slot of the record, which is that of the first text in braces, or of the whole name without one.
 * @param prefix - which the client adds to both.
 * @returns undefined where no name is sure to be in it: with a brace that is not of such a text.
 */
function stagedName(start: string, prefix: string, key: string, token: string): string | undefined {
  const name = prefix + key;
  if (!/[{}]/.test(name)) return `${start}{${name}}:${token}`;
  return /^[^{]*\{[^}]+\}/.test(name) ? `${key}:${token}` : undefined;
}

/** SET of the finished record and lua/complete-large.lua, together; and lua/complete.lua if that one cannot decide. */
class StagedComplete implements Question {
  private isText = false;

  constructor(
    private readonly link: RedisLink,
    private readonly script: LuaScript,
    private readonly keys: readonly [record: string, staged: string, ...others: string[]],
    private readonly record: StagedRecord,
    private readonly expiryMs: number,
    private readonly rejected: (failure: LinkFailure) => void,
  ) {}

  send(asked: Asked): void {
    const { link, script, keys, record, expiryMs } = this;
    this.isText = false;
    link.set(keys[1], record.parts, expiryMs);
    link.evalsha(script.sha1, keys, [asked.newNonce(), ...record.args], asked);
  }

  isOpen(reply: unknown): boolean {
    return kindOf(reply as ScriptReply) === 'other';
  }

  sendAgain(failure: LinkFailure, asked: Asked): boolean {
    const { link, script, keys, record } = this;
    if (!failure.isReply) return false;
    if (failure.kind === 'script_missing' && !this.isText) {
      this.isText = true;
      link.eval(script.text, keys, [asked.newNonce(), ...record.args], asked);
      return true;
    }
    this.rejected(failure);
    asked.leaveToScript();
    if (failure.kind === 'redirected') return false;
    asked.sendScript();
    return true;
  }
}

/** GET, and lua/begin.lua again if that does not give the record. */
class LargeRead implements Question {
  constructor(
    private readonly link: RedisLink,
    private readonly key: string,
    private readonly found: LargeReply,
  ) {}

  send(asked: Asked): void {
    const [head, leftMs, [lines]] = this.found;
    const receiver: ReplyReceiver = {
      isOwn: () => true,
      onReply: (record, order) => {
        // A reply of GET has no nonce, but these lines name the attempt that owns the record.
        if (Buffer.isBuffer(record) && record.indexOf(lines) === 0)
          asked.onReply([head, leftMs, record], order);
        else if (asked.isInFlight) this.readByScript(asked);
      },
      onError: (error, order) => asked.onError(error, order),
    };
    this.link.get(this.key, receiver);
  }

  sendAgain(failure: LinkFailure, asked: Asked): boolean {
    asked.leaveToScript();
    if (failure.isReply) this.readByScript(asked);
    return failure.isReply;
  }

  private readByScript(asked: Asked): void {
    asked.args[LARGEST] = '0';
    asked.sendScript();
  }
}
