import { createHash } from 'node:crypto';
import { LUA_TEXTS } from './lua-texts.generated.js';

export interface LuaScript {
  readonly text: string;
  /** Identifies the script in EVALSHA. */
  readonly sha1: string;
}

export type LuaScripts = Readonly<Record<keyof typeof LUA_TEXTS, LuaScript>>;

/** The shipped scripts. A test may replace the clock in their text. */
export function loadScripts(transform = (text: string): string => text): LuaScripts {
  const load = (shipped: string): LuaScript => {
    const text = transform(shipped);
    return { text, sha1: createHash('sha1').update(text).digest('hex') };
  };
  const scripts = Object.entries(LUA_TEXTS).map(([name, text]) => [name, load(text)]);
  return Object.fromEntries(scripts) as LuaScripts;
}
