import type { RecordKey } from '../../core/record/record.js';
import type { Abandoned, AbandonedPage, AbandonedRecord } from '../../core/record/commands.js';
import { nodeClock } from '../../core/util/clock.js';
import type { LuaScript } from './scripts/lua-scripts.js';
import type { Asked } from './scripts/question.js';
import { parseAbandonedReply } from './scripts/replies.js';
import { abandonedArguments } from './scripts/script-arguments.js';
import type { ScriptSender } from './scripts/script-sender.js';

/** Approximate number of keys per SCAN: a few microseconds of server time each, and as much again to evaluate it. */
const KEYS_PER_PAGE = 100;

type Page = readonly [cursor: string, keys: readonly string[]];

/** Lists abandoned records: one SCAN a page; a script evaluates each key. */
export class AbandonedScan {
  /** What precedes the record key in a key, as the server stores it. */
  private readonly prefix: string;

  /** @param keyStart - the same, without the prefix that the link adds. */
  constructor(
    private readonly sender: ScriptSender,
    private readonly script: LuaScript,
    private readonly keyStart: string,
  ) {
    this.prefix = sender.link.keyPrefix + keyStart;
  }

  async page({ overMs, limit, cursor = '0', timeoutMs }: Abandoned): Promise<AbandonedPage> {
    const dueAt = nodeClock.now() + timeoutMs;
    const { sender, prefix } = this;
    const count = Math.min(limit, KEYS_PER_PAGE);
    const scan = {
      send: (asked: Asked) => {
        sender.link.scan(cursor, `${escaped(prefix)}*`, count, asked);
      },
      isOwn: isPage,
    };
    const [next, keys] = (await sender.ask(scan, dueAt)) as Page;
    const evaluated = await Promise.all(keys.map((key) => this.evaluate(key, overMs, dueAt)));
    const records = evaluated.filter((record) => record !== undefined);
    return next === '0' ? { records } : { records, cursor: next };
  }

  private evaluate(
    key: string,
    overMs: number,
    dueAt: number,
  ): Promise<AbandonedRecord | undefined> {
    const recordKey = key.slice(this.prefix.length) as RecordKey;
    const args = abandonedArguments(overMs);
    return this.sender.run(this.script, this.keyStart + recordKey, args, dueAt, (reply) => {
      const abandoned = parseAbandonedReply(reply);
      return abandoned && { recordKey, ...abandoned };
    });
  }
}

/** Checks the shape only: the reply has no nonce. A script evaluates each of its keys. */
function isPage(reply: unknown): boolean {
  return Array.isArray(reply) && typeof reply[0] === 'string' && Array.isArray(reply[1]);
}

function escaped(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}
