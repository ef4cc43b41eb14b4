import { createHash } from 'node:crypto';
import { LUA_TEXTS } from './lua-texts.generated.js';

/**
 * In bytes: longer records go by SET and GET. At 8 KiB, both take 0.6 of the scripts' CPU time in Redis, at 64 KiB a third
 * ("npm run lab -- measure large"). Below, the 8 us that a replay saves are not worth its second round trip.
 */
export const LARGEST_IN_SCRIPTS = 8_192;

export interface LuaScript {
  readonly text: string;
  /** Identifies the script in EVALSHA. */
  readonly sha1: string;
  /** The same script for a server with script flags: Redis ≥ 7, Valkey. */
  readonly flagged?: LuaScript | undefined;
}

export type LuaScripts = Readonly<Record<keyof typeof LUA_TEXTS, LuaScript>>;

/**
 * Must be the first line. The scripts with it write without free memory, as an attempt that already runs must. Redis 6.2
 * does not compile it: there, a PEXPIREAT before the SET has the same effect, at the cost of one command.
 */
const ALLOW_OOM = '#!lua flags=allow-oom\n';

/** Lines that a script with the flag does not need. */
const WITHOUT_ALLOW_OOM = /^.* -- without allow-oom\n/gm;

/** Lines that add entries to the journal. */
const OF_JOURNAL = /^.* -- journal\n/gm;

/**
 * The shipped scripts. A test may replace the clock in their text. @param journalLength - about how many entries
 * the journal keeps; without it, they add none.
 */
export function loadScripts(
  transform = (text: string, _name: string): string => text,
  journalLength?: number,
): LuaScripts {
  const load = (name: string, shipped: string): LuaScript => {
    const own =
      journalLength === undefined
        ? shipped.replace(OF_JOURNAL, '')
        : shipped.replace(':length', String(journalLength));
    const text = transform(own, name);
    const flagged = text.replace(WITHOUT_ALLOW_OOM, '');
    return {
      ...scriptOf(text),
      flagged: flagged === text ? undefined : scriptOf(ALLOW_OOM + flagged),
    };
  };
  const scripts = Object.entries(LUA_TEXTS).map(([name, text]) => [name, load(name, text)]);
  return Object.fromEntries(scripts) as LuaScripts;
}

export function scriptOf(text: string): LuaScript {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
