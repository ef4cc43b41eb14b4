import { createHash } from 'node:crypto';
import { LUA_TEXTS } from './lua-texts.generated.js';

export interface LuaScript {
  readonly text: string;
  /** Identifies the script in EVALSHA. */
  readonly sha1: string;
  /** The same script for a server with script flags: Redis ≥ 7, Valkey. */
  readonly flagged?: LuaScript | undefined;
  /** The same script for a connection on which GET reads large records. */
  readonly large?: LargeForm | undefined;
}

interface LargeForm extends LuaScript {
  /** In bytes: a longer record is large. */
  readonly largestInScripts: number;
}

export type LuaScripts = Readonly<Record<keyof typeof LUA_TEXTS, LuaScript>>;

/** Must be the first line. The scripts with it write without free memory, as an attempt that already runs must. */
const ALLOW_OOM = '#!lua flags=allow-oom\n';

/** Lines that a script with the flag does not need. */
const WITHOUT_ALLOW_OOM = /^.* -- without allow-oom\n/gm;

/** Lines that only the form for large records has, and the byte that one of them reads. */
const OF_LARGE = /^.* -- large\n/gm;
const LARGEST = /'GETRANGE', KEYS\[1\], '(\d+)', '\1'\) .* -- large\n/;

/** The shipped scripts. A test may replace the clock in their text. */
export function loadScripts(transform = (text: string): string => text): LuaScripts {
  const load = (shipped: string): LuaScript => {
    const whole = transform(shipped);
    const text = whole.replace(OF_LARGE, '');
    const flagged = text.replace(WITHOUT_ALLOW_OOM, '');
    return {
      ...scriptOf(text),
      flagged: flagged === text ? undefined : scriptOf(ALLOW_OOM + flagged),
      large:
        text === whole
          ? undefined
          : { ...scriptOf(whole), largestInScripts: Number(LARGEST.exec(whole)?.[1]) },
    };
  };
  const scripts = Object.entries(LUA_TEXTS).map(([name, text]) => [name, load(text)]);
  return Object.fromEntries(scripts) as LuaScripts;
}

function scriptOf(text: string): LuaScript {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
