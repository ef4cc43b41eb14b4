import type { RecordKey } from '../../core/record/record.js';
import type { Abandoned, AbandonedPage, List, RecordPage } from '../../core/record/commands.js';
import { pageInParts } from '../../core/store/page-in-parts.js';
import { isListed } from '../../core/store/record-transitions.js';
import { nodeClock } from '../../core/util/clock.js';
import type { LuaScript, LuaScripts } from './scripts/lua-scripts.js';
import type { Asked } from './scripts/question.js';
import { parseAbandonedReply, parseInspectReply, type ScriptReply } from './scripts/replies.js';
import {
  abandonedArguments,
  inspectArguments,
  type ScriptArguments,
} from './scripts/script-arguments.js';
import type { ScriptSender } from './scripts/script-sender.js';

/** Approximate number of keys per SCAN: a few microseconds of server time each, and as much again to evaluate it. */
const KEYS_PER_SCAN = 100;

type Page = readonly [cursor: string, keys: readonly string[]];

/** Lists records: a SCAN finds their keys; a script reads or evaluates each key. */
export class RecordScan {
  /** What precedes the record key in a key, as the server stores it. */
  private readonly prefix: string;

  /** @param keyStart - the same, without the prefix that the link adds. */
  constructor(
    private readonly sender: ScriptSender,
    private readonly scripts: LuaScripts,
    private readonly keyStart: string,
  ) {
    this.prefix = sender.link.keyPrefix + keyStart;
  }

  /** One SCAN a page. */
  async abandoned({ overMs, limit, cursor = '0', timeoutMs }: Abandoned): Promise<AbandonedPage> {
    const dueAt = nodeClock.now() + timeoutMs;
    const [next, keys] = await this.scan(cursor, '', Math.min(limit, KEYS_PER_SCAN), dueAt);
    const read = (recordKey: RecordKey) =>
      this.run(this.scripts.abandoned, recordKey, abandonedArguments(overMs), dueAt, (reply) => {
        const abandoned = parseAbandonedReply(reply);
        return abandoned && { recordKey, ...abandoned };
      });
    const evaluated = await Promise.all(keys.map(read));
    const records = evaluated.filter((record) => record !== undefined);
    return next === '0' ? { records } : { records, cursor: next };
  }

  /** As many SCANs as the page may look at keys: the server looks at about as many as it is asked to, of any name. */
  list(command: List): Promise<RecordPage> {
    const { keyPrefix = '', timeoutMs } = command;
    const dueAt = nodeClock.now() + timeoutMs;
    const read = (recordKey: RecordKey) =>
      this.run(this.scripts.inspect, recordKey, inspectArguments(true), dueAt, (reply) => {
        const record = parseInspectReply(reply);
        return record && isListed(record, command) ? { recordKey, ...record } : undefined;
      });
    return pageInParts(command, KEYS_PER_SCAN, async ({ cursor = '0', maxScanned: scanned }) => {
      const [next, keys] = await this.scan(cursor, keyPrefix, scanned, dueAt);
      const evaluated = await Promise.all(keys.map(read));
      const records = evaluated.filter((record) => record !== undefined);
      return next === '0' ? { records, scanned } : { records, scanned, cursor: next };
    });
  }

  private async scan(
    cursor: string,
    keyPrefix: string,
    count: number,
    dueAt: number,
  ): Promise<readonly [next: string, keys: readonly RecordKey[]]> {
    const { sender, prefix } = this;
    const page = {
      send: (asked: Asked) => {
        sender.link.scan(cursor, `${escaped(prefix + keyPrefix)}*`, count, asked);
      },
      isOwn: isPage,
    };
    const [next, keys] = (await sender.ask(page, dueAt)) as Page;
    return [next, keys.map((key) => key.slice(prefix.length) as RecordKey)];
  }

  private run<Result>(
    script: LuaScript,
    recordKey: RecordKey,
    args: ScriptArguments,
    dueAt: number,
    read: (reply: ScriptReply) => Result,
  ): Promise<Result> {
    return this.sender.run(script, [this.keyStart + recordKey], args, dueAt, read);
  }
}

/** Checks the shape only: the reply has no nonce. A script evaluates each of its keys. */
function isPage(reply: unknown): boolean {
  return Array.isArray(reply) && typeof reply[0] === 'string' && Array.isArray(reply[1]);
}

function escaped(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}
